"""Every record that crosses a wall, in the order of the flow.

Records are frozen, slotted and keyword-only (each class says so: msgspec does not inherit kw_only); units
are in the names. They import nothing of the package, so any room may use them. Ratios are always
candidate / baseline: below 1 is faster.
"""

from __future__ import annotations

import hashlib
from typing import Any, Literal

import msgspec

Value = bool | int | float | str

PROTOCOL_VERSION = 2
"""Version of the messages between ortune and a worker; both sides refuse another one."""


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=False):
    """Base of every record."""


# --- settings -------------------------------------------------------------------------------------------

Channel = Literal[
    "session_option", "session_config", "run_config", "provider_option", "env", "preload", "process",
    "env_allocator", "global_pool", "call_style", "page",
]  # fmt: skip
ReadBackLevel = Literal["effect", "echo", "none"]


class ProviderSpec(Record, frozen=True, kw_only=True):
    """An execution provider with its options, in the order of preference."""

    name: str
    options: dict[str, str] = {}


class RewriteSpec(Record, frozen=True, kw_only=True):
    """One model-to-model change, by name."""

    name: str
    params: dict[str, str] = {}


class Plan(Record, frozen=True, kw_only=True):
    """An immutable set of rewrites, settings and providers. ``Plan()`` is ORT's default."""

    rewrites: tuple[RewriteSpec, ...] = ()
    settings: dict[str, Value] = {}
    providers: tuple[ProviderSpec, ...] = ()

    @property
    def id(self) -> str:
        """Short stable name: equal plans have equal ids."""
        ordered = msgspec.structs.replace(self, settings=dict(sorted(self.settings.items())))
        return hashlib.sha256(msgspec.json.encode(ordered)).hexdigest()[:12]

    @property
    def provider_names(self) -> tuple[str, ...]:
        """Its execution providers; the CPU's alone where it names none, as ONNX Runtime has it."""
        return tuple(p.name for p in self.providers) or ("CPUExecutionProvider",)

    def describe(self) -> str:
        """The plan in words: "default", or "intra_op_num_threads=4, allow_spinning=0"."""
        parts = [r.name for r in self.rewrites]
        parts += [f"{k}={int(v) if isinstance(v, bool) else v}" for k, v in sorted(self.settings.items())]
        parts += [p.name.removesuffix("ExecutionProvider") for p in self.providers]
        return ", ".join(parts) or "default"


# --- model and workload ---------------------------------------------------------------------------------


class ModelInfo(Record, frozen=True, kw_only=True):
    """What a model is, without its weights in memory.

    ``sha256`` is over the graph and the weights, external files included.
    """

    path: str
    format: Literal["onnx", "ort"]
    sha256: str
    size_bytes: int
    external_bytes: int = 0
    producer: str = ""
    ir_version: int = 0
    opsets: dict[str, int] = {}
    n_nodes: int = 0
    n_parameters: int = 0


class NodeCost(Record, frozen=True, kw_only=True):
    """The work of one execution of a node at known input shapes. ``model.cost`` states what counts as what.

    Attributes:
        name: The node's name; "" where it has none.
        domain: "" is ONNX's own.
        inside: Names of the If, Loop and Scan nodes around it, outermost first, joined by "/"; "" in the main graph.
        times: How often one run of the model executes it, as far as totals go: a loop's trip count, 0 in the branch
            of an If that is not counted and for what constants alone decide.
        flops: Operations; a multiply-add is two. Integer arithmetic counts alike.
        macs: Multiply-adds among them; None for operators that are not made of these.
        bytes_read, bytes_written: Each tensor once, by its stored type.
        weight_bytes: The part of ``bytes_read`` that is constants.
        weight_shape: Of a convolution its weight's, () for all else.
        known: Whether it could be counted. If not, the numbers are 0 and ``note`` says why.
    """

    name: str
    op_type: str
    domain: str = ""
    inside: str = ""
    times: int = 1
    flops: int = 0
    macs: int | None = None
    bytes_read: int = 0
    bytes_written: int = 0
    weight_bytes: int = 0
    weight_shape: tuple[int, ...] = ()
    known: bool = True
    note: str = ""


class OpCost(Record, frozen=True, kw_only=True):
    """What all nodes of one operator add to a run; ``n_nodes`` counts those that are executed."""

    op_type: str
    domain: str = ""
    n_nodes: int
    n_unknown: int = 0
    flops: int
    bytes: int


class ModelCost(Record, frozen=True, kw_only=True):
    """The work of one run of a model at known input shapes.

    Attributes:
        flops, macs, bytes_read, bytes_written: Sums over ``nodes``, each times its ``times``.
        parameters: Elements of initializers and Constant tensors; ``parameter_bytes`` by their stored types.
        by_op: Largest first.
        nodes: Every node of every graph, functions inlined.
        unknown: Reason to number of nodes that could not be counted; empty when the totals are complete.
        notes: What the totals rest on: a loop of unknown length, an If whose dearer branch was taken.
    """

    flops: int
    macs: int
    bytes_read: int
    bytes_written: int
    parameters: int
    parameter_bytes: int
    by_op: tuple[OpCost, ...] = ()
    nodes: tuple[NodeCost, ...] = ()
    unknown: dict[str, int] = {}
    notes: tuple[str, ...] = ()


class InputChoice(Record, frozen=True, kw_only=True):
    """What was chosen for one input, and how sure that is.

    Attributes:
        dtype: ONNX element type in lower case ("float", "int64", "string", "float16", ...), or
            "seq(...)"/"optional(...)" around one.
        shape: The dimensions chosen (the first feed's length for a sequence is ``len``).
        role: What the input was taken for ("image", "token-ids", "mask", "past", "data", ...).
        origin: Where shape and values come from: "model", "constraint", "name", "trial", "user".
        guessed: Whether a dimension or the values are a guess.
        note: One short phrase for people, "" when nothing need be said.
        guessed_axes: The axes whose size is a guess; a trial that fails may change these and no others.
        low, high: Smallest and largest value fed (inclusive); None where the role decides.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    role: str = "data"
    origin: Literal["model", "constraint", "name", "trial", "user"] = "model"
    guessed: bool = False
    note: str = ""
    guessed_axes: tuple[int, ...] = ()
    low: float | None = None
    high: float | None = None


class Case(Record, frozen=True, kw_only=True):
    """One input shape of the workload, with its weight in the mix (weights sum to 1)."""

    name: str
    weight: float = 1.0
    inputs: tuple[InputChoice, ...]
    dims: dict[str, int] = {}


class Workload(Record, frozen=True, kw_only=True):
    """How the model will be used. Feeds are made from it and the seed, the same for every trial.

    Attributes:
        cases: The input shapes with weights.
        seed: Seed of the feeds, and of ONNX Runtime's random operators.
        inputs_path: The user's own feeds (npz, npy, ``test_data_set_*`` folder), or "".
        gap_ns: Pause between calls; 0 is back to back.
        sessions, callers: Sessions in one process, and threads that call each.
        custom_ops: Shared libraries with custom operators.
        notes: What people should know, e.g. "decoder: one step at past=128; prefill not measured".
        tries: How many first runs failed before these inputs; 0 is the first proposal.
    """

    cases: tuple[Case, ...]
    seed: int = 0
    inputs_path: str = ""
    gap_ns: int = 0
    sessions: int = 1
    callers: int = 1
    custom_ops: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    tries: int = 0


# --- runtimes and the machine ---------------------------------------------------------------------------


class Runtime(Record, frozen=True, kw_only=True):
    """One interpreter with one ONNX Runtime build in it."""

    python: str
    python_version: str = ""
    ort_version: str = ""
    package: str = ""
    providers: tuple[str, ...] = ()
    origin: str = ""
    error: str = ""


class Host(Record, frozen=True, kw_only=True):
    """The machine, as far as it matters to speed.

    Attributes:
        cores: Physical cores; ``logical`` counts hardware threads.
        affinity: CPUs that this process may run on.
        quota: CPUs allowed by the cgroup, None without a limit.
        effective_cpus: ``min(cores, affinity, quota)``, at least 1, rounded up.
        features: Instruction sets that matter to inference ("avx512_vnni", "amx_int8", ...).
        fingerprint: Changes when a stored result must not be compared with a new one.
    """

    system: str
    machine: str
    cpu: str
    cores: int
    logical: int
    affinity: int
    quota: float | None = None
    effective_cpus: int
    memory_bytes: int
    memory_limit_bytes: int | None = None
    features: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()
    fingerprint: str = ""


class Sensors(Record, frozen=True, kw_only=True):
    """What was read around the turns of a trial and of those it shared them with; None: not readable here.

    Sensors explain; they never drop one arm. ``elapsed_ns`` is the time between the two readings.
    """

    load1: float | None = None
    psi_cpu_some_us: int | None = None
    steal_ticks: int | None = None
    involuntary_switches: int | None = None
    nr_throttled: int | None = None
    nr_periods: int | None = None
    throttled_us: int | None = None
    cpu_mhz: float | None = None
    swap_bytes: int | None = None
    thermal_throttles: int | None = None
    cpu_over_wall: float | None = None
    elapsed_ns: int | None = None


# --- messages between ortune and a worker (one JSON object a line) ---------------------------------------


class Applied(Record, frozen=True, kw_only=True):
    """A knob's value on its way to the worker: pure data through one of the closed channels.

    Attributes:
        provider: The execution provider that it is an option of; "" is the whole session's.
    """

    knob: str
    channel: Channel
    key: str
    provider: str = ""
    value: Value
    probe: str = ""


class FeedRef(Record, frozen=True, kw_only=True):
    """One case's feeds as a folder of ``.npy`` files with a ``feeds.json`` that names them."""

    name: str
    path: str
    weight: float = 1.0


class TrialRequest(Record, frozen=True, kw_only=True):
    """What a trial is, as the first line on a worker's stdin; commands follow, one a turn.

    Attributes:
        warmup_runs, warmup_ns: At least this many runs and this long; 0 runs: none at all, and no warm-up.
        warmup_cap_ns: Warm-up ends here, steady or not.
        wait_ratio: Busy wait added to each run, as a share of the run just timed (spike-in control).
        sessions, callers: Sessions of the model in the process, and threads that call each; runs are per caller.
        outputs_path: Where to leave the outputs of the first run of each case; "" keeps none.
        profile_path: Prefix for ORT's profile; "" is off.
    """

    version: int = PROTOCOL_VERSION
    model: str
    applied: tuple[Applied, ...] = ()
    providers: tuple[ProviderSpec, ...] = ()
    feeds: tuple[FeedRef, ...]
    warmup_runs: int = 3
    warmup_ns: int = 30_000_000
    warmup_cap_ns: int = 5_000_000_000
    gap_ns: int = 0
    wait_ratio: float = 0.0
    seed: int = 0
    sessions: int = 1
    callers: int = 1
    custom_ops: tuple[str, ...] = ()
    outputs_path: str = ""
    profile_path: str = ""


class Warm(Record, frozen=True, kw_only=True, tag="warm", tag_field="do"):
    """To a runner that has loaded its model: run each case once, and warm up; it answers ``turn-over``."""


class Batch(Record, frozen=True, kw_only=True, tag="run", tag_field="do"):
    """To a runner: time a batch of every case; it answers ``turn-over``.

    Attributes:
        runs: Timed runs of each case and caller, before the mix's weights.
        unmeasured: Runs of each before these, which are not timed.
    """

    runs: int
    unmeasured: int = 0


class Finish(Record, frozen=True, kw_only=True, tag="finish", tag_field="do"):
    """To a runner: report and end; it answers ``done``."""


Command = Warm | Batch | Finish


class ReadBack(Record, frozen=True, kw_only=True):
    """How far a knob's arrival was verified. ``ok`` is False only where the check contradicts the plan."""

    knob: str
    level: ReadBackLevel
    ok: bool
    seen: str = ""


class CaseTimes(Record, frozen=True, kw_only=True):
    """Raw latencies of one case in one trial, in order, nanoseconds.

    Attributes:
        waits_ns: The busy wait within each; empty where there is none.
        turn_runs: How many of the latencies each turn of the trial has; of a trial alone, one turn.
    """

    case: str
    weight: float
    latency_ns: tuple[int, ...]
    first_ns: int
    warmup_runs: int = 0
    steady: bool = True
    waits_ns: tuple[int, ...] = ()
    output_shapes: tuple[tuple[int, ...], ...] = ()
    turn_runs: tuple[int, ...] = ()


class Ready(Record, frozen=True, kw_only=True, tag="ready", tag_field="message"):
    """The worker is up, has imported ONNX Runtime, and begins to load."""

    version: int = PROTOCOL_VERSION
    pid: int = 0
    python: str = ""
    ort_version: str = ""


class Loaded(Record, frozen=True, kw_only=True, tag="loaded", tag_field="message"):
    """The session exists; the runner sleeps until its first turn."""

    load_ns: int


class TurnOver(Record, frozen=True, kw_only=True, tag="turn-over", tag_field="message"):
    """What was told is done; the runner sleeps until its next turn."""


class TrialDone(Record, frozen=True, kw_only=True, tag="done", tag_field="message"):
    """A complete trial, as the worker measured it.

    Attributes:
        cpu_ns, wall_ns: CPU time and wall time over the timed runs of all cases (gaps included); of several callers,
            while all are at work.
        n_runs: Timed runs of all cases and callers together; with several callers ``wall_ns`` / ``n_runs`` is the time
            that the process takes a run, and a latency is what one caller waits.
        idle_cpu_ratio: CPU over wall seconds in a short idle stretch after the warm-up (spinning threads).
        peak_bytes: High-water mark of resident memory; ``base_bytes`` is before the session was created.
        threads: Threads that the creation of one session added.
        waiting_cpu_ns, waiting_ns: CPU time that the process took while others had their turn, and how long that was.
    """

    load_ns: int
    cases: tuple[CaseTimes, ...]
    cpu_ns: int
    wall_ns: int
    n_runs: int
    n_callers: int = 1
    idle_cpu_ratio: float | None = None
    peak_bytes: int | None = None
    base_bytes: int | None = None
    threads: int | None = None
    read_back: tuple[ReadBack, ...] = ()
    providers: tuple[str, ...] = ()
    ort_version: str = ""
    involuntary_switches: int | None = None
    waiting_cpu_ns: int = 0
    waiting_ns: int = 0
    profile: str = ""


FailureReason = Literal[
    "crash", "timeout", "out-of-memory", "wrong-output", "not-applied", "unknown-key", "unsupported",
    "load-error", "run-error", "input-error", "no-runtime", "protocol", "disk-full",
]  # fmt: skip


class TrialError(Record, frozen=True, kw_only=True, tag="error", tag_field="message"):
    """The worker could not complete the trial."""

    reason: FailureReason
    what: str
    phase: str = ""
    knob: str = ""


WorkerMessage = Ready | Loaded | TurnOver | TrialDone | TrialError


class ToolRequest(Record, frozen=True, kw_only=True):
    """What ortune asks of the tool process, as the first line on its stdin.

    Attributes:
        task: What to do ("optimize").
        model, output: The file to read and the file to write.
        params: Of the rewrite that needs the task.
        external_name: Name of the file beside ``output`` that takes the larger weights.
        applied: Settings of the session, where the task creates one.
    """

    version: int = PROTOCOL_VERSION
    task: str
    model: str
    output: str
    params: dict[str, str] = {}
    external_name: str
    applied: tuple[Applied, ...] = ()
    providers: tuple[ProviderSpec, ...] = ()
    custom_ops: tuple[str, ...] = ()


class ToolDone(Record, frozen=True, kw_only=True, tag="tool-done", tag_field="message"):
    """The tool process wrote its output; ``what`` says so in one sentence."""

    version: int = PROTOCOL_VERSION
    what: str
    ort_version: str = ""


ToolMessage = ToolDone | TrialError


# --- outcomes -------------------------------------------------------------------------------------------


class Measured(Record, frozen=True, kw_only=True, tag="measured", tag_field="outcome"):
    """A trial that completed."""

    plan: str
    done: TrialDone
    sensors: Sensors = Sensors()
    log: tuple[str, ...] = ()
    outputs_path: str = ""
    started_at: str = ""
    elapsed_ns: int = 0


class Failed(Record, frozen=True, kw_only=True, tag="failed", tag_field="outcome"):
    """A trial that did not complete. Data: never an exception, never dropped."""

    plan: str
    reason: FailureReason
    what: str
    phase: str = ""
    log: tuple[str, ...] = ()
    started_at: str = ""
    elapsed_ns: int = 0


Outcome = Measured | Failed


class BlockTrial(Record, frozen=True, kw_only=True):
    """One trial's place in a block.

    Attributes:
        group: Trials of the same group were alive together and took turns. A block has one, or more where memory
            does not hold all of its processes at once, each with a baseline of its own.
    """

    arm: str
    group: int = 0
    outcome: Outcome


class Block(Record, frozen=True, kw_only=True):
    """One trial of every live arm and the baseline, alive together and taking turns, loaded in the order listed.

    ``dropped`` names the rule under which the whole block was left out, "" when it counts.
    """

    index: int
    phase: Literal["pilot", "calibration", "race", "confirm"]
    trials: tuple[BlockTrial, ...]
    dropped: str = ""


# --- comparing ------------------------------------------------------------------------------------------

VerdictName = Literal["faster", "slower", "equivalent", "inconclusive", "wrong-output", "invalid"]


class OutputDifference(Record, frozen=True, kw_only=True):
    """How far apart the outputs of two plans are.

    Attributes:
        relative_l2: Largest relative L2 distance over the floating-point outputs.
        max_error: Largest absolute error over the largest reference value.
        compared_as: "values", "sets" (behind NMS, TopK, ArgMax) or "moments" (the model differs from itself).
        what: One sentence when not ok.
    """

    ok: bool
    relative_l2: float = 0.0
    max_error: float = 0.0
    compared_as: Literal["values", "sets", "moments"] = "values"
    what: str = ""


class Guard(Record, frozen=True, kw_only=True):
    """A figure that must not get worse while another gets better."""

    figure: Literal["mean", "p95", "memory", "cpu"]
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    limit_ratio: float
    failed: bool = False
    known: bool = True
    note: str = ""


class Comparison(Record, frozen=True, kw_only=True):
    """Candidate against baseline over blocks.

    Attributes:
        estimand: What was compared, e.g. "typical latency (median)".
        level: Confidence level of the interval.
        method: "confidence sequence", "sign-flip" or "wilcoxon".
        evidence: e-value, or None where the method gives a p-value.
        p: p-value, or None where the method gives an e-value.
        ratio_high: None where so few blocks give no upper bound (``ratio_low`` is then 0).
        smallest_effect_ratio: Smallest detectable effect, 80 % power at that level, as a share (0.02 is 2 %);
            None where so few blocks can find none.
        more_blocks: For inconclusive: about how many more blocks would tell, None when unknown.
    """

    estimand: str
    ratio: float
    ratio_low: float
    ratio_high: float | None
    level: float
    method: str
    n_blocks: int
    n_dropped: int = 0
    evidence: float | None = None
    p: float | None = None
    smallest_effect_ratio: float | None
    phase: Literal["race", "confirm"]
    verdict: VerdictName
    guards: tuple[Guard, ...] = ()
    more_blocks: int | None = None


class Control(Record, frozen=True, kw_only=True):
    """One calibration's answer: does an identical plan look identical, is a known wait found?"""

    name: Literal["identical", "spike-in", "identical-late"]
    ok: bool
    n_blocks: int
    p: float | None = None
    expected_ratio: float | None = None
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    detected: bool | None = None


class Finding(Record, frozen=True, kw_only=True):
    """A rule's claim about this model or run."""

    code: str
    what: str
    where: tuple[str, ...] = ()
    evidence: str = ""
    fix: str = ""


class CaseResult(Record, frozen=True, kw_only=True):
    """One shape of a mix: its latency on both sides and the ratio."""

    case: str
    weight: float
    base_ns: float
    new_ns: float
    ratio: float
    ratio_low: float
    ratio_high: float | None


class Side(Record, frozen=True, kw_only=True):
    """One side of a comparison, resolved."""

    label: str
    model: ModelInfo
    plan: Plan
    runtime: Runtime


class Figures(Record, frozen=True, kw_only=True):
    """Medians over a side's trials; each is a description, the claim is in ``Comparison``.

    Attributes:
        latency_ns: Of a typical run: the median over processes of each one's own median, with the span of the middle
            half of the processes.
        objective_ns: The time a run that was compared, where that is another: its 95th percentile, its fastest
            tenth, or for throughput the wall time of all callers over their runs. None where it is the median, or
            no time of a run at all.
        spread_ratio: p90 over p10 of the runs within a process, the variance that users feel; with its 95 %
            interval over processes, None below six of them.
    """

    latency_ns: float
    latency_low_ns: float
    latency_high_ns: float
    load_ns: float
    first_run_ns: float
    cpu_per_run_ns: float
    peak_bytes: float | None = None
    spread_ratio: float | None = None
    spread_low_ratio: float | None = None
    spread_high_ratio: float | None = None
    n_trials: int = 0
    n_runs: int = 0
    objective_ns: float | None = None
    objective_low_ns: float | None = None
    objective_high_ns: float | None = None


class Gate(Record, frozen=True, kw_only=True):
    """The answer of ``--threshold``."""

    threshold_ratio: float
    answer: Literal["pass", "fail", "undecided"]
    undecided_counts_as: Literal["pass", "fail"]
    provable_ratio: float | None = None


class CompareResult(Record, frozen=True, kw_only=True):
    """``result`` of ``ortune compare --json``.

    ``comparison`` and the figures are None when the new side's outputs were wrong: nothing was timed then.
    ``why`` is where a proven difference lies, from profiled processes of their own; None without one.
    """

    base: Side
    new: Side
    comparison: Comparison | None
    outputs: OutputDifference
    base_figures: Figures | None = None
    new_figures: Figures | None = None
    cases: tuple[CaseResult, ...] = ()
    controls: tuple[Control, ...] = ()
    findings: tuple[Finding, ...] = ()
    read_back: tuple[ReadBack, ...] = ()
    mapped_inputs: dict[str, str] = {}
    notes: tuple[str, ...] = ()
    failures: tuple[Failed, ...] = ()
    gate: Gate | None = None
    why: ProfileDifference | None = None
    session: str = ""
    elapsed_s: float = 0.0


# --- tuning ---------------------------------------------------------------------------------------------

Fate = Literal["winner", "default", "current", "retired", "failed", "wrong-output", "pruned", "not-tried"]


class Candidate(Record, frozen=True, kw_only=True):
    """One plan that was tried (or could not be), and what became of it.

    Race figures carry no claim: they suffer the winner's curse and are labelled exploratory.

    Attributes:
        origin: What proposed it, in words ("knob graph_optimization_level", "combination", "rewrite ...").
        why: Why it ended so, one sentence.
        ratio, ratio_low, ratio_high: Against the default over the race's blocks; None when never measured.
    """

    plan: Plan
    origin: str
    fate: Fate
    why: str = ""
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    n_blocks: int = 0
    figures: Figures | None = None
    outputs: OutputDifference | None = None


class SettingWorth(Record, frozen=True, kw_only=True):
    """What one setting (or rewrite) of the winner is worth: the winner without it against the winner.

    Attributes:
        name, value: The knob and its value as text, or the rewrite's name and "".
        without_ratio: Time without it / time with it: above 1 it pays. The interval is race data.
        kept: Whether it stayed in the plan.
        shown: It pays, shown at 5 % over all settings of the plan together (Holm).
    """

    name: str
    value: str
    without_ratio: float | None = None
    without_low: float | None = None
    without_high: float | None = None
    kept: bool
    why: str = ""
    summary: str = ""
    read_back: ReadBackLevel = "none"
    shown: bool = False


class BlockPoint(Record, frozen=True, kw_only=True):
    """One block as a picture needs it: arm or plan id -> the estimand's value (ns, or bytes for memory)."""

    index: int
    phase: Literal["calibration", "race", "prune", "confirm"]
    values: dict[str, float]
    dropped: str = ""


class BudgetReport(Record, frozen=True, kw_only=True):
    """What the budget was said to hold before the start, and what was spent.

    Attributes:
        promise: The sentence printed before starting.
    """

    budget_s: float
    trial_s: float
    promise: str
    calibration_s: float = 0.0
    race_s: float = 0.0
    confirm_s: float = 0.0
    n_trials: int = 0


class TradeRow(Record, frozen=True, kw_only=True):
    """One row of "fastest / least CPU / least memory".

    Attributes:
        confirmed: The objective's own row, where the plan was shown to win on fresh blocks.
        kept: The objective's own row, where what runs now stays because nothing was shown to be better.
    """

    title: str
    plan: Plan
    latency_ns: float
    cpu_per_run_ns: float
    peak_bytes: float | None = None
    confirmed: bool = False
    kept: bool = False


class Refused(Record, frozen=True, kw_only=True):
    """The plan that led the race and is not shipped, with what the fresh blocks said of it, and why."""

    plan: Plan
    comparison: Comparison
    why: str


class TuneResult(Record, frozen=True, kw_only=True):
    """``result`` of ``ortune tune --json``; the only thing that report and bundle read.

    Attributes:
        winner: The plan to ship; ``Plan()`` when the default is best.
        changes: It is another one than what runs today (the default, where ``--current`` was not given).
        against_default: Confirmation of the winner against the default on fresh blocks; None when it is the default.
        against_current: The same against what the user runs today, where ``--current`` was given; None when it stays.
        outputs, cases: Of the winner too.
        alone: The last check: the winner against what it replaces once more, no two processes alive at once; None
            where no time was left for it.
        refused: Who led the race instead.
        fell: Who led the race and failed while it was confirmed, and how; "" where none did.
        headline: The answer in one or two sentences, the same in every format.
        rewritten: The rewrites that made the model that the winner runs, "" where it runs the user's own.
        allowed: Safety classes and guards that were let through: a winner may have a failed guard that is named here.
        caution: What makes the default an easy opponent here (its pool has more threads than CPUs), said before any
            ratio; "" where nothing does.
        conditions: How busy the machine was, as the headline says it ("on an idle machine"); "" where not known.
        smallest_effect_ratio: What the race could have seen, as a share, where no challenger was confirmed.
        headroom: What settings could win at most, from a profile of the default before the race.
    """

    side: Side
    objective: str
    estimand: str
    worth_ratio: float
    headline: str = ""
    winner: Plan
    changes: bool = False
    refused: Refused | None = None
    fell: str = ""
    current: Plan | None = None
    default_figures: Figures
    current_figures: Figures | None = None
    winner_figures: Figures | None = None
    against_default: Comparison | None = None
    against_current: Comparison | None = None
    alone: Comparison | None = None
    outputs: OutputDifference | None = None
    settings: tuple[SettingWorth, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    trade: tuple[TradeRow, ...] = ()
    cases: tuple[CaseResult, ...] = ()
    controls: tuple[Control, ...] = ()
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    not_tried: tuple[str, ...] = ()
    budget: BudgetReport
    points: tuple[BlockPoint, ...] = ()
    rewritten: str = ""
    hardware_bound: bool = False
    allowed: tuple[str, ...] = ()
    code: str = ""
    reproduce: str = ""
    bundle: str = ""
    report: str = ""
    session: str = ""
    elapsed_s: float = 0.0
    caution: str = ""
    conditions: str = ""
    smallest_effect_ratio: float | None = None
    headroom: Headroom | None = None


class BundleInfo(Record, frozen=True, kw_only=True):
    """``ortune.json`` of a bundle.

    Attributes:
        model: The model's place within the bundle, mostly its file name; ``sha256`` is its identity.
        plain_model: The untouched model beside a rewritten one, "" where ``model`` is the plain one.
        hardware_bound: The model holds what was optimised for this CPU and this build of ONNX Runtime; elsewhere
            ``plain_model`` is to be used. A bundle that is not bound runs ``model`` everywhere.
        model_settings: Names of the settings that belong to a hardware-bound model: the plain one runs without.
        applied: The plan's settings with their channels, so that a loader needs no list of knobs. A thread count
            is text, ``min(4, cpus)``, here as in ``plan``: the 4 that were measured, and at most one for each CPU
            where there are fewer than ``host.effective_cpus``.
        ort_version: ONNX Runtime that it was tuned with.
        session: Id of the stored session that made it, which begins with its date; "" where none was stored.
    """

    schema: str
    model: str
    sha256: str
    plan: Plan
    plain_model: str = ""
    hardware_bound: bool = False
    model_settings: tuple[str, ...] = ()
    host: Host | None = None
    proof: Comparison | None = None
    applied: tuple[Applied, ...] = ()
    ort_version: str = ""
    session: str = ""


# --- bench ----------------------------------------------------------------------------------------------


class Estimate(Record, frozen=True, kw_only=True):
    """A figure with its interval, in the unit that the field's name says.

    Attributes:
        low, high: None where nothing bounds that side, and both where it is a single observation (``single``).
        single: Too few processes for an interval.
    """

    value: float
    low: float | None = None
    high: float | None = None
    level: float = 0.95
    single: bool = False


class TailEstimate(Record, frozen=True, kw_only=True):
    """A quantile over the requests of all processes.

    Attributes:
        quantile: As a share, 0.99 for the p99.
        latency_ns: None, "not known", where fewer than ``needed`` requests were made.
        needed, made: Requests.
    """

    quantile: float
    latency_ns: Estimate | None
    needed: int
    made: int


class BenchProcess(Record, frozen=True, kw_only=True):
    """One process of a bench with its raw samples: latencies in order of each caller, nanoseconds.

    Attributes:
        index: In the order in which the processes ran.
        first_run_ns: The first run of the first caller, before any warm-up.
        cpu_ns, wall_ns: Over the timed runs, gaps included.
        steady: Whether the warm-up ended because the latency was steady.
    """

    index: int
    case: str
    latency_ns: tuple[int, ...]
    load_ns: int
    first_run_ns: int
    cpu_ns: int
    wall_ns: int
    peak_bytes: int | None = None
    warmup_runs: int = 0
    steady: bool = True
    started_at: str = ""
    sensors: Sensors = Sensors()


class BenchRow(Record, frozen=True, kw_only=True):
    """One input shape: what it takes.

    Attributes:
        median_ns: Latency of a typical process: the median over processes of each one's own median.
        mean_ns: The same of each one's own mean. None in documents of older versions, as are the next two.
        min_ns, max_ns: The fastest and the slowest request of all: single observations.
        tails: p10, p90, p95, p99 and p99.9 over the requests of all processes.
        throughput_per_s: Requests a second of the whole process, all callers and sessions together.
        load_ns: Of all sessions of the process together.
        peak_bytes: High-water mark of resident memory; None where the system does not tell.
        outputs: Name, shape and how it would be compared, of each output, in words.
    """

    case: str
    n_processes: int
    n_requests: int
    median_ns: Estimate
    tails: tuple[TailEstimate, ...]
    throughput_per_s: Estimate
    load_ns: Estimate
    first_run_ns: Estimate
    cpu_per_run_ns: Estimate
    peak_bytes: Estimate | None = None
    outputs: tuple[str, ...] = ()
    mean_ns: Estimate | None = None
    min_ns: float | None = None
    max_ns: float | None = None


class BenchResult(Record, frozen=True, kw_only=True):
    """``result`` of ``ortune bench --json``.

    Attributes:
        rows: One an input shape, in the order asked for; a shape that was not reached before a stop has none.
        load: What the requests were: callers, sessions, gap, in words.
        gap_ns: Pause of each caller after a request.
        remarks: What the sensors said of the machine meanwhile.
        reproduce: The command that does it again.
    """

    side: Side
    rows: tuple[BenchRow, ...]
    processes: tuple[BenchProcess, ...]
    load: str
    gap_ns: int = 0
    read_back: tuple[ReadBack, ...] = ()
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    failures: tuple[Failed, ...] = ()
    reproduce: str = ""
    session: str = ""
    elapsed_s: float = 0.0


# --- doctor ---------------------------------------------------------------------------------------------


class ProviderReport(Record, frozen=True, kw_only=True):
    """One execution provider in one runtime: there, usable, or why not."""

    name: str
    in_build: bool
    usable: bool
    why: str = ""


class RuntimeReport(Record, frozen=True, kw_only=True):
    """One runtime as doctor sees it."""

    runtime: Runtime
    providers: tuple[ProviderReport, ...] = ()
    packages: dict[str, str] = {}
    problems: tuple[str, ...] = ()


class EffectRow(Record, frozen=True, kw_only=True):
    """What can be seen in that time: the smallest detectable effect as a share, and the blocks that fit."""

    minutes: float
    n_blocks: int
    smallest_effect_ratio: float | None


class NoiseReport(Record, frozen=True, kw_only=True):
    """What a run of the controls says about this machine now."""

    model: str
    latency_ns: float
    trial_s: float
    block_scale: float
    controls: tuple[Control, ...]
    table: tuple[EffectRow, ...]
    status: Literal["ok", "invalid"]


class DoctorResult(Record, frozen=True, kw_only=True):
    """``result`` of ``ortune doctor --json``; ``peak`` is measured now, or the stored one: ``taken`` tells."""

    runtimes: tuple[RuntimeReport, ...]
    allocators: dict[str, str] = {}
    findings: tuple[Finding, ...] = ()
    noise: NoiseReport | None = None
    peak: MachinePeak | None = None


# --- traces and the first look --------------------------------------------------------------------------


class OperatorTime(Record, frozen=True, kw_only=True):
    """One operator in a profile, on one execution provider.

    Attributes:
        n_nodes: Nodes of it in the optimised graph that ran.
        time_ns: Time of all of them together in a run (median over the profiled runs), bodies not counted twice.
        share_ratio: Of the time of all operators.
    """

    op_type: str
    provider: str = ""
    n_nodes: int
    time_ns: float
    share_ratio: float


class NodeTime(Record, frozen=True, kw_only=True):
    """One node in a profile; the name is that of the optimised graph.

    Attributes:
        originals: Nodes of the user's model that it stands for; () where not known, or inserted.
        purpose: What a node that the optimiser inserted is for, "" for all others.
    """

    name: str
    op_type: str
    provider: str = ""
    time_ns: float
    share_ratio: float
    originals: tuple[str, ...] = ()
    purpose: str = ""


class OperatorProfile(Record, frozen=True, kw_only=True):
    """Where the time of a run goes, from one profiled process.

    Attributes:
        n_runs: Profiled runs that count.
        run_ns: The typical run while profiling.
        slowdown_ratio: That run against the one of the process that was not profiled; above 1 is slower. Two
            processes, so a few percent mean nothing.
        operators: All of them, the dearest first.
        nodes: The dearest few.
        complete: False where the profile was cut off and read as far as it goes.
    """

    n_runs: int
    run_ns: float
    slowdown_ratio: float | None = None
    operators: tuple[OperatorTime, ...] = ()
    nodes: tuple[NodeTime, ...] = ()
    complete: bool = True


class LookTiming(Record, frozen=True, kw_only=True):
    """One process with the default settings, or those asked for: a single observation, no interval.

    Attributes:
        latency_ns: Median over the runs (the weighted mean over several shapes); the first run where ``n_runs`` is 0.
        warmed_up: The runs came after a warm-up; without, the time allowed no more.
        flops_per_s: Floating-point operations of the model over that latency; None where they are not known.
        peak_bytes: Largest resident memory of the process, interpreter included.
    """

    latency_ns: float
    n_runs: int
    warmed_up: bool = True
    first_run_ns: float
    load_ns: float
    peak_bytes: int | None = None
    flops_per_s: float | None = None


class LookFact(Record, frozen=True, kw_only=True):
    """Something that stands out.

    Attributes:
        name: A short stable name ("dominant-node", "control-flow", ...).
        what: One sentence.
        where: Nodes, inputs or tensors by name.
        do: What may be done about it, "" where nothing need be.
    """

    name: str
    what: str
    where: tuple[str, ...] = ()
    do: str = ""


class LookResult(Record, frozen=True, kw_only=True):
    """``result`` of ``ortune MODEL --json``. What needs a run is None where the model does not run here.

    Attributes:
        parameters: Elements of all initializers and constant tensors; ``parameter_bytes`` as they are stored.
        weight_types: Bytes of the parameters by element type, the largest first.
        operators: Nodes of the file by operator, the most frequent first, bodies and functions included.
        flops: Floating-point operations of one run at the chosen shapes; None where they are not known.
        flops_complete: Every node was counted; otherwise ``flops`` is a lower bound.
        flops_note: What the figure leaves out or rests on.
        headroom: What settings could win at most, from the profile.
        left_out: What the time did not allow, in sentences.
        next_commands: What to type next, the best first.
    """

    model: ModelInfo
    parameters: int
    parameter_bytes: int
    weight_types: dict[str, int] = {}
    operators: dict[str, int] = {}
    flops: float | None = None
    flops_complete: bool = True
    flops_note: str = ""
    inputs: str = ""
    runtime: Runtime | None = None
    plan: Plan = Plan()
    timing: LookTiming | None = None
    profile: OperatorProfile | None = None
    headroom: Headroom | None = None
    facts: tuple[LookFact, ...] = ()
    left_out: tuple[str, ...] = ()
    next_commands: tuple[str, ...] = ()
    session: str = ""
    elapsed_s: float = 0.0


# --- profile --------------------------------------------------------------------------------------------

CategoryName = Literal[
    "kernels",
    "thread-wait",
    "device-copies",
    "device-wait",
    "casts-and-layout",
    "shape-arithmetic",
    "control-flow",
    "between-nodes",
    "device-idle",
    "outside-run",
    "unexplained",
]
"""Where the time of a run can go, and nowhere else. Each nanosecond is in one of them:

kernels: what the operators compute, without what thread-wait, copies, casts, shapes and control flow take from them.
thread-wait: the thread that runs a node waits for the pool's others, or shares out their work.
device-copies: values copied between devices (Memcpy nodes).
device-wait: in a run with nodes on a device, before and after the executor: inputs on their way there, waiting until it
    is done, outputs on their way back. Only where the profile says when the executor ran.
casts-and-layout: Cast, Transpose, reordering to and from blocked layouts, quantizing and dequantizing.
shape-arithmetic: nodes that only compute shapes and indices.
control-flow: If, Loop, Scan themselves, without the nodes of their bodies.
between-nodes: inside the run and in no node: the executor, allocation, the profiler's own writing.
device-idle: between the kernels on a device, where the trace holds nothing else: the device waits for the host.
outside-run: around ONNX Runtime's run: the language binding, copies of inputs and outputs.
unexplained: what is left; negative where the parts add up to more than the whole.
"""


class Category(Record, frozen=True, kw_only=True):
    """One share of a run, nanoseconds of the mean steady run."""

    name: CategoryName
    ns: float


class MachinePeak(Record, frozen=True, kw_only=True):
    """What this machine can do at most, measured once; single observations, the best of several tries.

    Attributes:
        flops_per_s: By number of threads, float32 matrix products.
        int8_ops_per_s: By number of threads, int8 matrix products; a multiply-add is two.
        bytes_per_s: By number of threads, memory read and written, of arrays that fit in no cache.
        elementwise_bytes_per_s: Bytes that one thread reads and writes as it adds and multiplies arrays in its own
            caches; every thread has its own, so they add up. 0.0 where an older version measured the rest.
        cache_bytes: Last-level cache of all CPUs that may be used; None where the system does not tell.
        taken: When, ISO 8601.
        how: What was run for it.
        ort_version: With which ONNX Runtime.
    """

    cpu: str
    flops_per_s: dict[int, float]
    int8_ops_per_s: dict[int, float]
    bytes_per_s: dict[int, float]
    elementwise_bytes_per_s: float = 0.0
    cache_bytes: int | None = None
    taken: str = ""
    how: str = ""
    ort_version: str = ""


class ProfiledNode(Record, frozen=True, kw_only=True):
    """One node of the optimised graph, in the mean steady run.

    Attributes:
        name: As the optimised graph has it.
        layer: Its place in the hierarchy of names, outermost first, joined by "/"; "" where names tell none.
        inside: The control-flow node whose body it is in, "" in the main graph.
        time_ns: Its own, without the nodes of its bodies. The sum over nodes is the run without ``between-nodes``.
        wait_ns: The part of it that is thread-wait.
        imbalance_ns: The part of that at the end of parallel work, when other threads were not done: uneven parts, or
            threads that began late. The rest is sharing the work out.
        fast_ns: What its executions take when nothing disturbs them: the fastest twentieth of each over the runs, at
            least one. This is set against the floor; ``time_ns`` beyond it is interference. None in older documents.
        fast_wait_ns: The part of that which is thread-wait.
        calls: Executions in a run; a body of a loop has many.
        originals: Nodes of the user's own model that it stands for; () where not known, or inserted.
        flops, bytes: Work of all its executions in a run; None where not known.
        remark: What people should know about that work: "17 channels run as 32" is time that no work needs.
        floor_ns: The least time that this machine needs for that work with the threads that it may use; None without a
            measured peak.
        bound: What the floor is made of: "compute", or "memory" (moving its bytes, from memory or through the caches);
            "overhead" where an execution is so short, and so far from its floor, that starting it is most of what it
            costs.
        purpose: What a node that the optimiser inserted is for ("into blocked layout for conv1"), "" for all others.
        output_bytes: Of all its outputs, from the profile.
    """

    name: str
    op_type: str
    provider: str = ""
    layer: str = ""
    inside: str = ""
    category: CategoryName = "kernels"
    time_ns: float
    wait_ns: float = 0.0
    imbalance_ns: float = 0.0
    fast_ns: float | None = None
    fast_wait_ns: float = 0.0
    share_ratio: float
    calls: float = 1.0
    originals: tuple[str, ...] = ()
    flops: float | None = None
    bytes: float | None = None
    remark: str = ""
    floor_ns: float | None = None
    bound: Literal["compute", "memory", "overhead", ""] = ""
    purpose: str = ""
    output_bytes: int | None = None

    @property
    def least_ns(self) -> float:
        """``fast_ns``, or ``time_ns`` where it is not known."""
        return self.time_ns if self.fast_ns is None else self.fast_ns

    @property
    def least_wait_ns(self) -> float:
        """The part of ``least_ns`` that is thread-wait."""
        return self.wait_ns if self.fast_ns is None else self.fast_wait_ns


class LayerTime(Record, frozen=True, kw_only=True):
    """All nodes below one place in the hierarchy of names."""

    layer: str
    depth: int
    n_nodes: int
    time_ns: float
    share_ratio: float


class NodeVariance(Record, frozen=True, kw_only=True):
    """How much longer a node, or a category, takes in slow runs; ``share_ratio`` of all that takes longer."""

    name: str
    op_type: str = ""
    extra_ns: float
    share_ratio: float


class RunVariance(Record, frozen=True, kw_only=True):
    """How runs differ from each other within the profiled process.

    Attributes:
        warmup_runs: Runs at the start that are not like the later ones, found by ``trace.steady``.
        left_out_runs: Runs at the start that are in no other figure: those that warm up, and at least the first and
            the warm-up that ortune asked for where it ran the model.
        runs_ns: Every run, in order, by ONNX Runtime's own clock: without what lies outside the run.
        spread_ratio: p90 / p10 of the steady runs.
        slow_runs: How many the slowest tenth of the steady runs are; 0 where there are too few to tell.
        usual_ns: Mean of the middle half of the steady runs, which the slow ones are held against.
        extra_ns: Mean of the slow runs minus ``usual_ns``.
        less_ns: What parts of the run took less in the slow ones; what took longer is ``extra_ns`` and this.
        owners: What took longer, the largest share first.
    """

    warmup_runs: int
    left_out_runs: int = 0
    runs_ns: tuple[float, ...]
    spread_ratio: float | None = None
    slow_runs: int = 0
    usual_ns: float | None = None
    extra_ns: float | None = None
    less_ns: float = 0.0
    owners: tuple[NodeVariance, ...] = ()


class MemoryPoint(Record, frozen=True, kw_only=True):
    """After one node of a run: bytes of values in use, and held by the arena (None without its figures)."""

    node: str
    in_use_bytes: int
    held_bytes: int | None = None


MemoryKind = Literal[
    "value", "values", "rounding", "planned", "shared", "session", "inputs", "weights", "libraries", "runtime"
]


class MemoryOwner(Record, frozen=True, kw_only=True):
    """What holds memory at the peak.

    Attributes:
        kind: "value" (one, as large as was asked for), "values" (all smaller ones), "rounding" (what the arena gave
            beyond what was asked for), "planned" (what the block that later runs take for all values is larger than
            what is in use at once), "shared" (below 0: buffers that two values share), "session" (what the allocator
            held before the run: packed weights), "inputs", "weights" (as stored), "libraries" (the process before the
            session: interpreter, ONNX Runtime's code), "runtime" (all else of the process: ONNX Runtime itself, copies
            of weights while it loads, the profiler).
        name: The node that made a value.
        bytes: What it holds.
        count: How many values it stands for.
    """

    kind: MemoryKind
    name: str = ""
    bytes: int
    count: int = 1


class MemoryProfile(Record, frozen=True, kw_only=True):
    """Memory over the nodes of one run.

    Attributes:
        source: "profile" (the allocator's own figures) or "liveness" (from sizes and last uses).
        run: Which one, from 0: a steady one, or the first with its shapes where later ones take one planned block, of
            which no node shows; None for "liveness".
        peak_bytes: Most that the allocator has in use at once, in this run or another with the same shapes.
        peak_node: While which node of this run most is in use.
        held_bytes: Most that the arena held in any run.
        at_peak: Values or nodes that hold memory at the peak, the largest first, at most ten.
        weights_bytes: Of the parameters that the nodes read.
        owners: All that is taken at the peak, the largest first.
        total_bytes: Their sum: what the allocator has in use, and beside it the weights, the inputs, and the process as
            far as that was watched.
        resident_bytes: Most that the process had resident; None where it was not watched.
    """

    source: Literal["profile", "liveness"]
    run: int | None = None
    peak_bytes: int
    peak_node: str
    held_bytes: int | None = None
    weights_bytes: int | None = None
    at_peak: tuple[tuple[str, int], ...] = ()
    owners: tuple[MemoryOwner, ...] = ()
    total_bytes: int | None = None
    resident_bytes: int | None = None
    points: tuple[MemoryPoint, ...] = ()


class Headroom(Record, frozen=True, kw_only=True):
    """What can still be won, and by what, in a run that nothing disturbs: every part at its fast end.

    Attributes:
        settings_ratio: Share of the profiled run that lies outside its kernels (thread wait, overhead, copies, casts),
            what the profiler itself costs included: it bounds what can be won there, and nothing that reaches into
            kernels (threads, layout, rewrites). None where the profiler costs so much that the parts do not tell.
        parts: That share by category.
        kernels_ratio: Time floor over kernel time: how near the kernels are to the peak of the threads that they may
            use; None where not known, or ``settings_ratio`` is None.
        kernels_least: ``kernels_ratio`` is the least that it can be: other programs had the CPUs.
        unbounded: Why nothing bounds what can be won (weights among the inputs, optimisation off), "" where the floors
            do for the nodes that there are.
        covered_ratio: Share of the kernel time with a floor that can be trusted.
        overhead_ratio: Share of that time in nodes whose ``bound`` is "overhead": the peak says nothing of them.
        sentence: All of it in one sentence.
    """

    settings_ratio: float | None
    parts: dict[str, float] = {}
    kernels_ratio: float | None = None
    kernels_least: bool = False
    unbounded: str = ""
    covered_ratio: float = 0.0
    overhead_ratio: float = 0.0
    sentence: str = ""


class TraceInfo(Record, frozen=True, kw_only=True):
    """A profile that was read.

    Attributes:
        format: "ort-json", "web-console", ...
        device_only: It holds kernels on a device and nothing of the host: these are the nodes.
        complete: False where it was cut off and read as far as it goes.
        missing: What it does not hold, in sentences.
    """

    path: str
    format: str
    device_only: bool = False
    n_events: int
    n_runs: int
    complete: bool = True
    n_unreadable: int = 0
    missing: tuple[str, ...] = ()


class ProfileResult(Record, frozen=True, kw_only=True):
    """``result`` of ``ortune profile --json``. Times are those of the mean steady run, while profiling.

    Attributes:
        wall_ns: The whole run, which ``categories`` sum to; around ``run()`` where ortune ran it, ONNX Runtime's own
            ``model_run`` where only a trace was given.
        slowdown_ratio: A profiled run over one that is not profiled; None for a trace.
        fast_ns: A run in which every part takes what it does at its fast end; what ``wall_ns`` is beyond it is
            interference: other programs, interrupts, clocks. None in older documents.
        sensors: What was read around the profiled process: load, pressure. None for a trace.
        device_ns: Time of kernels on a device, by provider, beside the host's time and not part of the sum.
        layers: Places in the hierarchy of names; in a very large one without the deepest and cheapest.
        layers_left_out: How many these are.
        pieces: How many parts of parallel work each other thread of the pool took in the whole profile, the most first.
        unmapped: Nodes of the optimised graph whose origin in the model is not known.
    """

    trace: TraceInfo
    side: Side | None = None
    n_runs: int
    wall_ns: float
    slowdown_ratio: float | None = None
    fast_ns: float | None = None
    sensors: Sensors | None = None
    categories: tuple[Category, ...]
    operators: tuple[OperatorTime, ...] = ()
    nodes: tuple[ProfiledNode, ...] = ()
    layers: tuple[LayerTime, ...] = ()
    layers_left_out: int = 0
    providers: dict[str, float] = {}
    pieces: tuple[int, ...] = ()
    device_ns: dict[str, float] = {}
    variance: RunVariance | None = None
    memory: MemoryProfile | None = None
    peak: MachinePeak | None = None
    headroom: Headroom | None = None
    unmapped: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    exports: dict[str, str] = {}
    against: ProfileDifference | None = None
    session: str = ""
    elapsed_s: float = 0.0


SAME_WORK = 0.01
"""Relative difference of the work of two nodes up to which it is the same."""


class DifferenceRow(Record, frozen=True, kw_only=True):
    """One category, operator or matched node on both sides; nanoseconds of the mean steady run.

    Attributes:
        name: What both have in common; for nodes the user's own node, where that is known.
        a_ns, b_ns: None where it is not there on that side.
        low_ns, high_ns: Interval of the difference, as wide as it must be so that of all rows of its list which leave
            out 0 at most 5 % have not changed; None with too few processes or runs.
        a_nodes, b_nodes: Names in the optimised graphs.
        a_flops, b_flops, a_bytes, b_bytes: Operations and bytes of one run, which no clock is needed for; None where
            not known, or for rows that are no nodes.
    """

    name: str
    op_type: str = ""
    a_ns: float | None = None
    b_ns: float | None = None
    difference_ns: float
    low_ns: float | None = None
    high_ns: float | None = None
    a_nodes: tuple[str, ...] = ()
    b_nodes: tuple[str, ...] = ()
    a_flops: float | None = None
    b_flops: float | None = None
    a_bytes: float | None = None
    b_bytes: float | None = None

    @property
    def work_ratio(self) -> float | None:
        """B's operations over A's, of their bytes where there are none; None where not known or on one side alone."""
        for a, b in ((self.a_flops, self.b_flops), (self.a_bytes, self.b_bytes)):
            if a and b:
                return b / a
        return None

    @property
    def same_work(self) -> bool:
        """Whether it is there on both sides, and does as much on either, as far as that is known."""
        both = self.a_ns is not None and self.b_ns is not None
        return both and abs((self.work_ratio or 1.0) - 1.0) <= SAME_WORK


class ProfileDifference(Record, frozen=True, kw_only=True):
    """``--against``: where the time went, B minus A. Each list is sorted by contribution, the largest first.

    Attributes:
        low_ns, high_ns: Interval of the difference of the mean run (95 %); None with too few processes or runs.
        sentence: The difference and its owner, in one sentence.
        a_processes, b_processes: Profiled processes on each side. Intervals are over them; with one on each side they
            are over its runs, and tell nothing of how processes differ.
        plain_ns: The difference that was measured without the profiler; None where it was not.
        a_slowdown_ratio, b_slowdown_ratio: A profiled run over one that is not profiled; None where not known.
        by_name, by_order: Pairs of nodes that were matched by name and operator, and by operator in order alone, since
            of one of them it is not known which node of the model it stands for.
        same_ns: Sum of the nodes' differences that are within noise.
        rest_ns: Sum of the differences of nodes beyond the list.
        only_a, only_b: Nodes that vanished and that appeared.
    """

    a: str
    b: str
    a_wall_ns: float
    b_wall_ns: float
    low_ns: float | None = None
    high_ns: float | None = None
    plain_ns: float | None = None
    sentence: str = ""
    a_processes: int = 1
    b_processes: int = 1
    a_slowdown_ratio: float | None = None
    b_slowdown_ratio: float | None = None
    categories: tuple[DifferenceRow, ...] = ()
    operators: tuple[DifferenceRow, ...] = ()
    nodes: tuple[DifferenceRow, ...] = ()
    by_name: int = 0
    by_order: int = 0
    same_ns: float = 0.0
    rest_ns: float = 0.0
    only_a: tuple[str, ...] = ()
    only_b: tuple[str, ...] = ()


class TimelineTrack(Record, frozen=True, kw_only=True):
    """Executions that follow each other: one level of nesting on one thread.

    Attributes:
        lane: The thread ("thread 7"), "device", or "runs".
        depth: Its place below the lane's first track.
        first, count: Its rows in the columns of the timeline, in order of their starts.
    """

    lane: str
    depth: int
    first: int
    count: int


class Timeline(Record, frozen=True, kw_only=True):
    """Executions over time, as a picture needs them. Columns are little-endian uint32, one entry an execution.

    Attributes:
        tick_ns: Unit of the two columns of times: the step of the trace's clock, or longer where a trace is long.
        start_ticks: Since the first start that is shown.
        duration_ticks: How long it took, with all that ran inside it.
        name_codes: Index into ``names``.
        names: Nodes of the optimised graph, runs, kernels on a device.
        op_types: One for each name; "" for what is no node.
        tracks: Each is free of overlaps beyond one step of the clock.
        n_left_out: Executions of the trace that are not in it.
        note: Which part of the trace it is, "" for all of it.
    """

    tick_ns: int
    start_ticks: bytes
    duration_ticks: bytes
    name_codes: bytes
    names: tuple[str, ...]
    op_types: tuple[str, ...]
    tracks: tuple[TimelineTrack, ...] = ()
    n_left_out: int = 0
    note: str = ""


# --- lock -----------------------------------------------------------------------------------------------


class GraphSnapshot(Record, frozen=True, kw_only=True):
    """A graph after ONNX Runtime's optimiser, at one level. Bytes are for the shapes that the snapshot names.

    Attributes:
        nodes: Nodes of all graphs, subgraphs included.
        operators: How many of each, by "domain:Operator", or "Operator" in the domain of ONNX.
        fused: Operators that are there more often than at level ``disable``, and by how many.
        inserted: Casts, copies and changes of layout: how many more (or fewer) than the model came with.
        structure: Digest of what is wired to what, with attributes; names and weights are not in it.
        weights_bytes: The weights that the session holds.
        peak_activation_bytes: Most bytes of values alive at once, inputs and outputs included.
        unknown_values: Values whose size could neither be inferred nor seen in a run; with any, the peak is a
            lower bound.
    """

    nodes: int
    operators: dict[str, int]
    fused: dict[str, int] = {}
    inserted: dict[str, int] = {}
    structure: str
    weights_bytes: int
    peak_activation_bytes: int
    unknown_values: int = 0


class OutputSnapshot(Record, frozen=True, kw_only=True):
    """One output on the seeded inputs, rounded so that the order of sums does not show.

    Attributes:
        shape: -1 where a dimension is random or not known.
        finite: Finite values; None where nothing is kept of the values (random models, text, maps).
        mean, l2: Of the finite values, to six significant digits of their root mean square and norm.
        sketch: Sum of the finite values under fixed pseudo-random weights: moves when values change places.
        exact: Digest of whole numbers, booleans and text; "" for floating point.
    """

    name: str
    dtype: str
    shape: tuple[int, ...] = ()
    finite: int | None = None
    mean: float | None = None
    l2: float | None = None
    sketch: float | None = None
    exact: str = ""


class LockedModel(Record, frozen=True, kw_only=True):
    """The model as exported.

    Attributes:
        weights: Digest of the weights' values, whatever they are called and wherever they are used.
        contents: Digest of the whole graph without its names, the values of each weight in their place; "" in a lock
            of an ortune that did not keep it.
        weights_bytes: By element type; small int64 tensors are shapes and axes, and count as structure.
        inputs, outputs: "name: type[dimensions]", in the model's order.
    """

    sha256: str
    file_bytes: int
    external_bytes: int = 0
    producer: str = ""
    opsets: dict[str, int] = {}
    parameters: int
    weights: str
    contents: str = ""
    weights_bytes: dict[str, int] = {}
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()


class LockedRun(Record, frozen=True, kw_only=True):
    """How the model was run for its outputs.

    Attributes:
        shapes: Of the inputs fed, by name.
        feeds: Digest of the values fed; outputs are compared only where it is the same.
        inputs: Name of the file or folder that the values came from; "" where they were made from the seed.
        random: Operators that make the outputs differ from run to run.
        given: Of a bundle, what was asked for on top of its own plan; ``plan`` then holds thread counts as the bundle
            does, ``min(4, cpus)``. None for a model.
        placement: Nodes by execution provider; with a provider beside the CPU's, those that ran, which are compared
            only where machine and features agree.
    """

    plan: Plan
    given: Plan | None = None
    level: str
    seed: int = 0
    shapes: dict[str, tuple[int, ...]] = {}
    feeds: str
    inputs: str = ""
    random: tuple[str, ...] = ()
    placement: dict[str, int] = {}
    outputs: tuple[OutputSnapshot, ...] = ()


class HardwareSnapshot(Record, frozen=True, kw_only=True):
    """What depends on the processor: compared only where machine and features agree."""

    machine: str
    features: tuple[str, ...] = ()
    levels: dict[str, GraphSnapshot] = {}


class Snapshot(Record, frozen=True, kw_only=True):
    """A lock file: what ONNX Runtime makes of a model, with no clock in it.

    Attributes:
        schema: "ortune/snapshot/1".
        levels: The graph by level of optimisation, where that does not depend on the processor.
    """

    schema: str
    ort_version: str
    model: LockedModel
    run: LockedRun
    levels: dict[str, GraphSnapshot]
    hardware: HardwareSnapshot


class LockChange(Record, frozen=True, kw_only=True):
    """One difference between a model and its lock.

    Attributes:
        part: What differs, e.g. "operator", "nodes", "peak-memory", "output".
        name: Of the operator, input, setting ...; "" where there is one only.
        was, now: As text or numbers; None where it was, or is, not there.
        fails: Whether ``--check`` fails for it; the others are told.
    """

    part: str
    name: str = ""
    was: int | float | str | None = None
    now: int | float | str | None = None
    fails: bool = True


class LockResult(Record, frozen=True, kw_only=True):
    """``result`` of ``ortune lock --json``.

    Attributes:
        path: The lock file.
        written: Whether it was written; else it was checked.
        changes: Most important first; empty when written.
        headline: The answer in one sentence.
        notes: What could not be compared, or only in part, and why.
        not_compared: Parts that were not compared ("outputs", "level all", "placement"); with ``--strict`` each is
            among the changes too.
    """

    path: str
    written: bool
    snapshot: Snapshot
    changes: tuple[LockChange, ...] = ()
    headline: str = ""
    notes: tuple[str, ...] = ()
    not_compared: tuple[str, ...] = ()


# --- the envelope ---------------------------------------------------------------------------------------


class ErrorInfo(Record, frozen=True, kw_only=True):
    """An error as JSON."""

    code: str
    what: str
    where: str = ""
    do: str = ""


class ModelRef(Record, frozen=True, kw_only=True):
    """A model as the envelope names it."""

    path: str
    sha256: str


class Envelope(Record, frozen=True, kw_only=True):
    """The one JSON document that a verb prints.

    Attributes:
        schema: "ortune/<verb>/1".
        status: "ok", "interrupted" (with what is known) or "error".
    """

    schema: str
    ortune: str
    host: Host | None = None
    model: ModelRef | None = None
    workload: Workload | None = None
    status: Literal["ok", "interrupted", "error"]
    verdict: str | None = None
    result: Any = None
    error: ErrorInfo | None = None


# --- what is stored, told again -------------------------------------------------------------------------


class SoFar(Record, frozen=True, kw_only=True):
    """One contestant of a session that never ended: what was measured of it by then, a description without a claim.

    Attributes:
        name: Which side or shape it is ("A", "B", "today", "seq=16"); "" where the plan tells it apart.
    """

    name: str = ""
    plan: Plan
    figures: Figures | None = None
    n_failed: int = 0


class StoredSession(Record, frozen=True, kw_only=True):
    """A session of the store, or a bundle, as it is told again.

    Attributes:
        id: "" for a bundle whose session is not in the store.
        at: When it began, UTC, ISO 8601; "" where that is not recorded.
        label: What it is about, in the words that the session was given.
        state: "done"; "stopped" early with an answer; "unfinished" (cut off, or still running); "unreadable".
        headline: Its answer in words; "" where there is none.
        host: The machine that it was measured on.
        here: Whether that is this machine, by fingerprint; None where not known.
        trouble: One sentence when it cannot be told in full.
        so_far: Of an unfinished session.
        bundle: ``ortune.json``, where a bundle is told.
        document: The Envelope as the verb printed it.
        timeline: Of a profile, where it was kept and is asked for.
    """

    id: str
    at: str = ""
    verb: str
    label: str = ""
    state: Literal["done", "stopped", "unfinished", "unreadable"]
    verdict: str = ""
    headline: str = ""
    host: Host | None = None
    here: bool | None = None
    ortune: str = ""
    ort_version: str = ""
    trouble: str = ""
    so_far: tuple[SoFar, ...] = ()
    bundle: BundleInfo | None = None
    document: Any = None
    timeline: Timeline | None = None


class Contrast(Record, frozen=True, kw_only=True):
    """A property in which sessions differ: one value a session, in their order.

    Attributes:
        breaks: Times of these sessions must not be compared because of it.
    """

    name: str
    values: tuple[str, ...]
    breaks: bool = False


class History(Record, frozen=True, kw_only=True):
    """Several sessions side by side. It never says which is faster: that needs blocks that hold both.

    Attributes:
        comparable: Model, workload, machine and runtime agree, so that the times describe the same thing.
        next_step: The command that would prove a difference, or "".
    """

    contrasts: tuple[Contrast, ...]
    comparable: bool
    warnings: tuple[str, ...] = ()
    next_step: str = ""


class BriefFigure(Record, frozen=True, kw_only=True):
    """One figure today and with the other plan.

    Attributes:
        unit: "ns", "bytes" or "CPUs".
        today: Median over trials (of CPUs: CPU seconds a run times the load).
        tuned: ``today`` times ``ratio``.
        ratio_low, ratio_high: Interval of the paired ratio; None where there is none: both are medians then.
        shown: The whole interval lies on one side of 1.
    """

    name: str
    unit: Literal["ns", "bytes", "CPUs"]
    today: float
    tuned: float
    ratio: float
    ratio_low: float | None = None
    ratio_high: float | None = None
    shown: bool = False


class BriefRisk(Record, frozen=True, kw_only=True):
    """One thing to know before shipping."""

    name: str
    level: Literal["fine", "look", "stop"]
    what: str


class Brief(Record, frozen=True, kw_only=True):
    """One page for people who decide.

    Attributes:
        decision: "ship", "keep" what runs, "unproven", or "stop" (wrong outputs, a guard failed).
        answer: The decision as a sentence.
        load_per_s: Requests a second that the CPUs are reckoned for; ``load_given`` says whether by the user.
        today_plan, tuned_plan: In words.
        figures: The objective first, then CPU time and memory; empty where nothing was measured.
        cpus: CPUs busy at that load; None where CPU time was not measured.
        cpus_note: Why ``cpus`` is the least that is busy, and no saving is claimed; "" where it is not so.
    """

    subject: str
    decision: Literal["ship", "keep", "unproven", "stop"]
    answer: str
    evidence: str
    today_plan: str
    tuned_plan: str = ""
    load_per_s: float
    load_given: bool = False
    figures: tuple[BriefFigure, ...] = ()
    cpus: BriefFigure | None = None
    cpus_note: str = ""
    risks: tuple[BriefRisk, ...] = ()
    next_steps: tuple[str, ...] = ()


class ReportResult(Record, frozen=True, kw_only=True):
    """``result`` of ``ortune report --json``.

    Attributes:
        kind: "list", "told" (one session), "history" (several) or "brief".
        n_stored: Sessions in the store, listed or not.
        troubles: What could not be read, one sentence each.
    """

    kind: Literal["list", "told", "history", "brief"]
    sessions: tuple[StoredSession, ...] = ()
    n_stored: int = 0
    history: History | None = None
    brief: Brief | None = None
    troubles: tuple[str, ...] = ()
