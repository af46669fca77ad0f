"""Messages between ortune and a worker: one JSON object a line."""

from __future__ import annotations

from typing import Literal

from ortune.records.base import PROTOCOL_VERSION, Record, Value
from ortune.records.fence import Fence
from ortune.records.memory import MemoryKept
from ortune.records.plan import Channel, ProviderSpec, ReadBackLevel


class Applied(Record, frozen=True, kw_only=True):
    """A setting's value on its way to the worker, through one of the closed list of channels.

    Attributes:
        provider: The execution provider that it is an option of; "" for the whole session.
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


class ArrivalSchedule(Record, frozen=True, kw_only=True):
    """When calls start, whatever becomes of those before them.

    Attributes:
        starts_ns: Intended starts from the start of the schedule, in order.
        cases: The index of each call's case; () if all calls are of the first case.
    """

    starts_ns: tuple[int, ...]
    cases: tuple[int, ...] = ()


class TrialRequest(Record, frozen=True, kw_only=True):
    """What a trial is, as the first line on a worker's stdin; commands follow, one a turn.

    Attributes:
        warmup_runs, warmup_ns: At least this many runs and this long; 0 runs: none at all, and no warm-up.
        warmup_cap_ns: Warm-up ends here, steady or not.
        wait_ratio: Busy wait added to each run, as a share of the run just timed (spike-in control).
        sessions, callers: Sessions of the model in the process, and threads that call each; runs are per caller.
        outputs_path: Where to leave the outputs of the first run of each case; "" keeps none.
        profile_path: Prefix for ORT's profile; "" is off.
        device_memory: What ONNX Runtime calls the memory of the plan's device, for values that stay there.
        captures: Runs are replayed from a graph that was captured on the device.
        gpu_tracer: What times kernels on the GPU next to the profile; "" is nothing.
        name_nodes: Say which nodes each execution provider has, by name.
        transfers: Time runs with the values in the device's memory, too.
        arrivals: When the calls of a turn start; None if each caller starts the next call after the last one.
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
    device_memory: str = ""
    captures: bool = False
    gpu_tracer: str = ""
    name_nodes: bool = False
    transfers: bool = False
    arrivals: ArrivalSchedule | None = None


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
    """How well a setting was verified. ``ok`` is False only if the check contradicts the plan."""

    knob: str
    level: ReadBackLevel
    ok: bool
    seen: str = ""


class CaseTimes(Record, frozen=True, kw_only=True):
    """Raw latencies of one case in one trial, in order, in nanoseconds.

    Attributes:
        waits_ns: The busy wait within each run; empty if there is none.
        turn_runs: Number of latencies of each turn; a single turn for a trial alone.
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


class Placement(Record, frozen=True, kw_only=True):
    """The nodes that one execution provider runs, as reported by ONNX Runtime 1.24 or newer.

    Attributes:
        n_nodes: Number of nodes when the graph was divided.
        n_parts: Number of connected parts; values are transferred between them.
        operators: Number of nodes by operator.
        nodes: Names of the nodes, if requested.
    """

    provider: str
    n_nodes: int
    n_parts: int
    operators: dict[str, int] = {}
    nodes: tuple[str, ...] = ()


class GpuRun(Record, frozen=True, kw_only=True):
    """The parts of a run on a device with its own memory: medians of runs in turns, in ns, without the profiler.

    Attributes:
        whole_ns: With inputs and outputs on the CPU.
        fed_ns: With the inputs already on the device.
        device_ns: With the outputs there too, until the device is done.
        input_bytes, output_bytes: Size of all tensors.
        n_runs: Runs of each kind.
        software: Whether the CPU emulates the GPU, so times are meaningless.
    """

    whole_ns: float
    fed_ns: float
    device_ns: float
    input_bytes: int
    output_bytes: int
    n_runs: int
    software: bool = False

    @property
    def upload_ns(self) -> float:
        """What getting the inputs there takes; below 0 if that is lost in what runs differ by."""
        return self.whole_ns - self.fed_ns

    @property
    def read_back_ns(self) -> float:
        """What getting the outputs back takes, likewise."""
        return self.fed_ns - self.device_ns

    @property
    def transfer_ns(self) -> float:
        """What both take; 0 if that is lost in what runs differ by."""
        return max(0.0, self.whole_ns - self.device_ns)


class PageSeen(Record, frozen=True, kw_only=True):
    """Properties that a page reported about its browser and its run.

    Attributes:
        browser: The browser's own name and version.
        isolated: Whether the page was cross-origin isolated, which threads need.
        adapter: The WebGPU adapter; "" without WebGPU.
        software: Whether the CPU emulates that GPU, so times are meaningless.
        float16: Whether it has float16 shaders.
        resolution_ns: Resolution of the page's clock.
        fetch_ns: Time to fetch the model from this machine before loading.
        wasm_fetch_ns: Time to fetch onnxruntime-web's WebAssembly, from the request to the last byte. Excluded from
            ``load_ns``, like what is compiled during that time. 0 if a proxy's worker fetched it: then it is part of
            ``load_ns``.
        visible: Whether an observed page was visible; in a trial, runs while hidden do not count.
        repeated_turns: Turns that were repeated because the page was hidden.
        without_kernel: Nodes for which the execution provider has no kernel: operator and name.
        download_bytes: Files of onnxruntime-web and of the model that were fetched, uncompressed.
        download_ns: Their download time at the given network speed.
        import_ns: Time to import onnxruntime-web, before the model was fetched.
        block_ns: The longest time for which a run blocked the main thread, once warm; 0 if it was not measured.
        frames_lost: Lost frames per run at 60 Hz.
        compiled: Whether the browser had the files of an earlier trial, fetched and compiled, so load and first run are
            not those of a first visit.
        cpus: Processors that the browser reports; 0 if unknown.
        gpu_run: The parts of a run under the profiler; None if they were not measured.
    """

    browser: str
    isolated: bool
    adapter: str = ""
    software: bool = False
    float16: bool = False
    resolution_ns: int = 0
    fetch_ns: int = 0
    wasm_fetch_ns: int = 0
    visible: bool = True
    repeated_turns: int = 0
    without_kernel: tuple[str, ...] = ()
    download_bytes: int = 0
    download_ns: int = 0
    import_ns: int = 0
    block_ns: int = 0
    frames_lost: float = 0.0
    compiled: bool = False
    cpus: int = 0
    gpu_run: GpuRun | None = None


class OpenLoop(Record, frozen=True, kw_only=True):
    """What became of calls that start at given times, in order; latencies count from the intended start.

    Attributes:
        waited_ns: For how long each call waited because every caller was busy.
        late_ns: How late each call started although it was due and a caller was free.
        busy_ns: Time inside the calls, of all callers together.
        own_cpu_ns: CPU time of the generator of the calls.
    """

    waited_ns: tuple[int, ...]
    late_ns: tuple[int, ...]
    busy_ns: int
    own_cpu_ns: int


class EventLoop(Record, frozen=True, kw_only=True):
    """Delay of an event loop while the model ran, as ``perf_hooks`` of Node.js reports it at a resolution of 1 ms.

    The resolution is part of each sample: an idle event loop shows about 1 ms.
    """

    p50_ns: int
    p99_ns: int
    max_ns: int
    n_samples: int


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
        wrote: Whether it wrote what a setting keeps on disk, rather than read it; None if no setting keeps anything.
        turn_waits_ns: Time in each turn's timed runs for which threads of the process waited for a CPU, all threads
            together; empty if the system does not tell.
        waiting_cpu_ns, waiting_ns: CPU time that the process took while others had their turn, and how long that was.
        devices: What a provider from a wheel of its own ran on; () of one of the build.
        profile: ONNX Runtime's profile; "" without.
        gpu_run: What transfer takes of a run, where that was asked; None if values cannot be in a device's memory.
        untraced: Why no kernel on the GPU is in that profile, if a tracer was requested; "" if they are.
        graph: The graph that ran, of a page under the profiler; "" if it was not left.
        page: Of a page in a browser; None for a process.
        open_loop: Of calls that started at given times; None for all others.
        kept: Memory when the runs were over; None if the system does not report it.
        event_loop: Delay of the event loop in the timed turns; None for what has none.
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
    placement: tuple[Placement, ...] = ()
    devices: tuple[str, ...] = ()
    ort_version: str = ""
    involuntary_switches: int | None = None
    wrote: bool | None = None
    turn_waits_ns: tuple[int, ...] = ()
    waiting_cpu_ns: int = 0
    waiting_ns: int = 0
    profile: str = ""
    gpu_run: GpuRun | None = None
    untraced: str = ""
    graph: str = ""
    page: PageSeen | None = None
    open_loop: OpenLoop | None = None
    kept: MemoryKept | None = None
    event_loop: EventLoop | None = None


FailureReason = Literal[
    "crash", "timeout", "out-of-memory", "wrong-output", "not-applied", "unknown-key", "unsupported",
    "load-error", "run-error", "input-error", "no-runtime", "protocol", "disk-full", "hidden",
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
        feeds: Inputs that the user named, or that ortune made up, for a task that runs the model.
        model, output: The file to read and the file to write.
        params: Of the rewrite that needs the task.
        external_name: Name of the file next to ``output`` that takes the larger weights.
        applied: Settings of the session, where the task creates one.
        fence: Confines the process, on a system that can; None for a task that is not confined.
    """

    version: int = PROTOCOL_VERSION
    task: str
    model: str
    output: str
    params: dict[str, str] = {}
    external_name: str
    feeds: tuple[FeedRef, ...] = ()
    applied: tuple[Applied, ...] = ()
    providers: tuple[ProviderSpec, ...] = ()
    custom_ops: tuple[str, ...] = ()
    fence: Fence | None = None


class ToolDone(Record, frozen=True, kw_only=True, tag="tool-done", tag_field="message"):
    """The tool process wrote its output; ``what`` says so in one sentence."""

    version: int = PROTOCOL_VERSION
    what: str
    ort_version: str = ""
