"""The document of a tuning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from ortune.records.answer import Answer
from ortune.records.base import Record, Value
from ortune.records.comparison import CaseResult, Comparison
from ortune.records.difference import ProfileDifference
from ortune.records.machine import Adoption, Runtime
from ortune.records.measure import Figures, OutputDifference
from ortune.records.plan import Calibration, Plan, ReadBackLevel
from ortune.records.profile import Headroom, ProfileResult
from ortune.records.protocol import GpuRun, Placement

PlanStatus = Literal[
    "winner", "default", "current", "eliminated", "failed", "wrong-output", "pruned", "not-tried"
]
WORSENS = "worsens another metric"
"""Why a configuration was rejected whose other metric became worse than its guard allows, in words."""


BUSY_MACHINE = "on a busy machine"
"""The ``conditions`` of a search whose trials waited for CPUs that other programs used."""


class Candidate(Record, frozen=True, kw_only=True):
    """One configuration that was tried or proposed, and its outcome.

    Exploratory figures are not claims, because the best of many candidates looks better than it is.

    Attributes:
        origin: What proposed it, in words ("knob graph_optimization_level", "combination", "rewrite ...").
        why: The reason for its outcome, one sentence.
        reason: Why it was not tried, or was rejected, as a code where a report depends on it: no budget was left, or a
            guard of another metric than the objective was broken. Otherwise None.
        ratio, ratio_low, ratio_high: Against the default over the exploratory blocks; None if it was not measured.
    """

    plan: Plan
    origin: str
    status: PlanStatus
    why: str = ""
    reason: Literal["budget", "guard"] | None = None
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    n_blocks: int = 0
    figures: Figures | None = None
    outputs: OutputDifference | None = None


class SettingWorth(Record, frozen=True, kw_only=True):
    """The gain of one setting or rewrite of the winner: the winner without it against the winner.

    Attributes:
        name, value: The setting and its value as text, or the rewrite's name and "".
        without_ratio: Time without it over time with it: above 1 it helps. The interval is exploratory.
        kept: Whether it is still in the plan.
        shown: Whether its gain is significant at 5 % over all settings of the plan together (Holm).
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
    """One block of a chart: the statistic's value by side or plan id (nanoseconds, or bytes for memory)."""

    index: int
    phase: Literal["calibration", "race", "prune", "confirm"]
    values: dict[str, float]
    dropped: str = ""


class BudgetReport(Record, frozen=True, kw_only=True):
    """What the budget allowed, and how it was spent.

    Attributes:
        promise: The sentence printed before starting.
        before_s: Seconds until the first block: start, pilot, profile, rewrites.
        enough_s: The budget in seconds that is enough for what this one did not allow; 0 if it allowed everything.
        exploratory: Whether there was no time for the confirmation, or to repeat failed controls: nothing is claimed.
        left_s: Seconds left after the last block.
        next_s: Seconds to test one more configuration; 0 if all were tested, or the session was stopped.
    """

    budget_s: float
    trial_s: float
    promise: str
    before_s: float = 0.0
    calibration_s: float = 0.0
    race_s: float = 0.0
    confirm_s: float = 0.0
    n_trials: int = 0
    enough_s: float = 0.0
    exploratory: bool = False
    left_s: float = 0.0
    next_s: float = 0.0


class TradeRow(Record, frozen=True, kw_only=True):
    """One row of "fastest / least CPU / least memory".

    Attributes:
        confirmed: The objective's own row, if its gain was confirmed on fresh blocks.
        kept: The objective's own row, if the current configuration is kept because no gain was confirmed.
    """

    title: str
    plan: Plan
    latency_ns: float
    cpu_per_run_ns: float
    peak_bytes: float | None = None
    confirmed: bool = False
    kept: bool = False


class PrecisionRow(Record, frozen=True, kw_only=True):
    """One quantized model that was tried: error, size and speed.

    Attributes:
        within_ratio: The smallest of 0.1 %, 1 % and 5 % (relative L2) that its outputs keep; None if none. 0 for the
            best plan without a change of precision.
        calibrated: Whether its ranges come from calibration; see ``TuneResult.calibration``.
        ratio, ratio_low, ratio_high: Against the default: over the exploratory blocks if it took part, otherwise a
            single observation without an interval.
        pareto: Whether nothing with a smaller error was as fast.
        why: Why it was not compared; "" if it was.
        tested: False if it was never made, for the reason in ``why``.
    """

    plan: Plan
    within_ratio: float | None
    calibrated: bool = False
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    size_bytes: int | None = None
    outputs: OutputDifference | None = None
    pareto: bool = False
    why: str = ""
    tested: bool = True


class ProviderCost(Record, frozen=True, kw_only=True):
    """Load time and memory of an execution provider, next to the default's: medians over trials, not claims.

    Attributes:
        device: The device that ran the model ("CPU", "NVIDIA GPU").
        load_ns, default_load_ns: Session creation time: of the winner's provider one process at a time, of the others
            in blocks, in which several processes load at once.
        first_load_ns: The load that wrote a cache to disk; None without a cache.
        shipped: Whether it is the winner's provider.
        gpu_run: What transfer takes of a run with the provider's defaults; None without memory of its own.
    """

    provider: str
    device: str
    load_ns: float
    default_load_ns: float
    first_load_ns: float | None = None
    peak_bytes: float | None = None
    default_peak_bytes: float | None = None
    shipped: bool = False
    gpu_run: GpuRun | None = None


class Refused(Record, frozen=True, kw_only=True):
    """The configuration that looked fastest and is not shipped, with its result on fresh blocks.

    Attributes:
        figures: Figures over the fresh blocks.
    """

    plan: Plan
    comparison: Comparison
    why: str
    figures: Figures | None = None


PlaceState = Literal["raced", "timed", "ran", "functional-only", "failed", "absent", "not-tried"]
"""``timed``: the default alone; ``ran``: once, untimed, since nothing is raced there; ``functional-only``: the same, on
a GPU that is software; ``not-tried``: the budget did not hold it."""


class BrowserPlace(Record, frozen=True, kw_only=True):
    """One of the execution providers in a browser, with ``--target web``.

    Attributes:
        target: Its name.
        state: What was measured there.
        why: Why it is missing or failed, or how long an incomplete attempt took; otherwise "".
        adapter: The GPU as named by the browser; "" if none is used or reported.
        placement: Nodes by execution provider, as far as reported.
        outputs: Compared with the default; None if it did not run.
    """

    target: str
    state: PlaceState
    why: str = ""
    adapter: str = ""
    placement: tuple[Placement, ...] = ()
    outputs: OutputDifference | None = None


class UntestedTarget(Record, frozen=True, kw_only=True):
    """An execution provider that was not compared, or not by its default.

    Attributes:
        target: Its name.
        reason: "no-time": no time was left for it. "lower-precision": its default computes in lower precision than the
            model, so ``settings`` are part of all its plans.
        enough_s: With "no-time", a budget that is enough; None if time was left and kept for plans that were requested.
        plan: With "lower-precision", the default.
        settings: The settings that make it exact.
        difference: The outputs of the default compared with those of the baseline.
    """

    target: str
    reason: Literal["no-time", "lower-precision"]
    enough_s: float | None = None
    plan: Plan = Plan()
    settings: Mapping[str, Value] = {}
    difference: OutputDifference | None = None


class TuneResult(Answer, frozen=True, kw_only=True):
    """``result`` of ``ortune tune --json``; the only input of the report and the bundle.

    Attributes:
        default: The baseline of all comparisons: ``Plan()``, or in a browser only the target's execution provider.
        wrong_default: The requested default, if ONNX Runtime's optimiser makes its outputs wrong, or breaks it:
            comparisons use ``default``, the highest level with correct outputs.
        default_broken: Whether ``wrong_default`` does not run.
        wrong_default_figures: Times of ``wrong_default``; None if no time was left for one trial.
        wrong_against_default: ``wrong_default`` compared with ``default`` in the same blocks, exploratory; None if the
            figures come from a single trial.
        changes: Whether the winner differs from what runs today (the default without ``--current``).
        against_current: The confirmation against ``--current``; None if that configuration is kept.
        cases: The winner's result by input shape.
        fallback: For a winner on a browser's GPU: the WebAssembly plan that it was compared with, used where the winner
            cannot run. None otherwise, and if none was measured.
        refused: The configuration that looked fastest and was rejected.
        failed_leader: The leader that failed during its confirmation, and how; "" for none.
        rejected: The fastest configuration that worsens another metric more than allowed; "" for none.
        rewritten: The rewrites of the winner's model; "" for the original model.
        not_tried: Plans that are not possible or not allowed here, each with the reason in words.
        untested_targets: Execution providers that were not compared, or not by their default, with the reason.
        allowed: Allowed safety classes and guards: a winner may fail a guard named here.
        caution: Why the default is a weak baseline here (more pool threads than CPUs); otherwise "".
        conditions: The load of the machine, in words ("on an idle machine"); "" if unknown.
        smallest_effect_ratio: Minimum detectable effect of the search as a share, if no gain was confirmed.
        runtime: The winner's runtime, if it is not the side's.
        placement: The winner's nodes by execution provider; empty for the CPU only.
        adoption: What is needed to use that runtime; None for the user's own.
        costs: Load time and memory of each execution provider that was compared with the default's.
        precision: Results of quantized models, if they were allowed (--tolerance, --allow numerics).
        calibration: Calibration data of the quantized models; None for none.
        headroom: The remaining potential, from a profile of the default.
        default_profile: Categories and most expensive nodes of that profile; None if there is none.
        places: Other execution providers of the browser that run the model (--target web), WebAssembly first; () if not
            requested.
        ort_web: Version of the winner's onnxruntime-web, in a browser; otherwise "".
        why: Where the winner's gain comes from: the winner minus the replaced plan, both under the profiler. None
            without a winner, and if there was no time for it.
    """

    objective: str
    statistic: str
    worth_ratio: float
    default: Plan = Plan()
    fallback: Plan | None = None
    refused: Refused | None = None
    failed_leader: str = ""
    rejected: str = ""
    current: Plan | None = None
    current_figures: Figures | None = None
    against_current: Comparison | None = None
    settings: tuple[SettingWorth, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    trade: tuple[TradeRow, ...] = ()
    cases: tuple[CaseResult, ...] = ()
    not_tried: tuple[str, ...] = ()
    untested_targets: tuple[UntestedTarget, ...] = ()
    budget: BudgetReport
    points: tuple[BlockPoint, ...] = ()
    rewritten: str = ""
    hardware_bound: bool = False
    allowed: tuple[str, ...] = ()
    caution: str = ""
    conditions: str = ""
    smallest_effect_ratio: float | None = None
    headroom: Headroom | None = None
    default_profile: ProfileResult | None = None
    why: ProfileDifference | None = None
    runtime: Runtime | None = None
    adoption: Adoption | None = None
    costs: tuple[ProviderCost, ...] = ()
    wrong_default: Plan | None = None
    default_broken: bool = False
    wrong_default_figures: Figures | None = None
    wrong_against_default: Comparison | None = None
    placement: tuple[Placement, ...] = ()
    precision: tuple[PrecisionRow, ...] = ()
    calibration: Calibration | None = None
    places: tuple[BrowserPlace, ...] = ()
    ort_web: str = ""
