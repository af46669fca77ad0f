"""Parts of the result of a tuning that are shared by the search, its engines and other commands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from ortune.records.base import Record, Value
from ortune.records.comparison import Comparison
from ortune.records.measure import Figures, OutputDifference
from ortune.records.plan import Plan, ReadBackLevel
from ortune.records.protocol import GpuRun, Placement

PlanStatus = Literal[
    "winner", "default", "current", "eliminated", "failed", "wrong-output", "pruned", "not-tried"
]
WORSENS = "worsens another metric"
"""Reason of a rejection because another metric became worse than its guard allows."""


BUSY_MACHINE = "on a busy machine"
"""The ``conditions`` of a search in which trials waited for CPUs that other programs used."""


class Candidate(Record, frozen=True, kw_only=True):
    """One configuration that was tried or proposed, and its outcome.

    Exploratory results are not claims, because the best of many candidates looks better than it is.

    Attributes:
        origin: Source of the proposal, as text ("knob graph_optimization_level", "combination", "rewrite ...").
        why: The reason for its outcome, one sentence.
        reason: Why it was not tried, or was rejected, as a code where a report depends on it: no budget was left, or a
            guard of another metric than the objective was broken. Otherwise None.
        ratio, ratio_low, ratio_high: Ratio to the default over the exploratory blocks, with its interval; None if it
            was not measured.
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
        without_ratio: Time without it divided by time with it; it helps if the ratio is above 1. The interval is
            exploratory.
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


class TradeRow(Record, frozen=True, kw_only=True):
    """One row of "fastest / least CPU / least memory".

    Attributes:
        confirmed: Whether this is the objective's own row, and its gain was confirmed on fresh blocks.
        kept: Whether this is the objective's own row, and the current configuration is kept because no gain was
            confirmed.
        n_blocks: Number of blocks of the search in which the configuration was compared with the default; 0 for the
            default, and in the objective's own row if it was confirmed or kept.
    """

    title: str
    plan: Plan
    latency_ns: float
    cpu_per_run_ns: float
    peak_bytes: float | None = None
    confirmed: bool = False
    kept: bool = False
    n_blocks: int = 0


NO_TIME = "no time left"
"""``PrecisionRow.why`` of models that were not tested because their part of the budget was spent."""


class PrecisionRow(Record, frozen=True, kw_only=True):
    """One quantized model that was tried: error, size and speed.

    Attributes:
        within_ratio: The smallest of the limits 0.1 %, 1 % and 5 % (relative L2) that its outputs keep; None if they
            keep none. 0 for the best plan without a change of precision.
        calibrated: Whether its ranges come from calibration; see ``TuneResult.calibration``.
        ratio, ratio_low, ratio_high: Ratio to the default: over the exploratory blocks if it took part, otherwise a
            single observation without an interval.
        pareto: Whether no model with a smaller error was as fast.
        why: Why it was not compared; "" if it was.
        tested: False if it was never created, for the reason in ``why``.
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
    """Load time and memory of an execution provider, and of the default: medians over trials, not claims.

    Attributes:
        device: The device that ran the model ("CPU", "NVIDIA GPU").
        load_ns, default_load_ns: Session creation time: of the winner's provider one process at a time, of the others
            in blocks, in which several processes load at once.
        first_load_ns: The load that wrote a cache to disk; None without a cache.
        shipped: Whether it is the winner's provider.
        gpu_run: Transfer times of a run with the provider's defaults; None if the device has no separate memory.
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
    """The leader of the search, if it was not confirmed, with its result on fresh blocks.

    Attributes:
        figures: Measurements over the fresh blocks.
        why: Why it is not shipped.
        lossy: Whether it is not shipped because its outputs differ by more than rounding, and its gain is too small to
            justify that.
    """

    plan: Plan
    comparison: Comparison
    why: str
    figures: Figures | None = None
    lossy: bool = False


PlaceState = Literal["raced", "timed", "ran", "functional-only", "failed", "absent", "not-tried"]
"""``timed``: only the default was timed; ``ran``: ran once without timing, since plans are not compared there;
``functional-only``: the same, on a software GPU; ``not-tried``: no time was left for it."""


class BrowserPlace(Record, frozen=True, kw_only=True):
    """One of the execution providers in a browser that ``--target web`` covers.

    Attributes:
        target: Name of the provider: "web-wasm", "web-webgpu" and so on.
        state: The extent of its measurement.
        why: Why it is missing or failed, or how long an incomplete attempt took; otherwise "".
        adapter: The GPU as named by the browser; "" if none is used or reported.
        placement: Nodes by execution provider, as far as reported.
        outputs: The outputs compared with the default's; None if it did not run.
    """

    target: str
    state: PlaceState
    why: str = ""
    adapter: str = ""
    placement: tuple[Placement, ...] = ()
    outputs: OutputDifference | None = None


class UntestedTarget(Record, frozen=True, kw_only=True):
    """An execution provider that was not compared, or not with its default settings.

    Attributes:
        target: Name of the provider, as in ``--target``.
        reason: "no-time": no time was left for it. "lower-precision": its default computes in lower precision than the
            model, so ``settings`` are part of all its plans.
        enough_s: With "no-time", a sufficient budget; None if the remaining time was reserved for requested plans.
        plan: With "lower-precision", the default.
        settings: The settings with which it computes in the model's own precision.
        difference: The outputs of the default compared with those of the baseline.
    """

    target: str
    reason: Literal["no-time", "lower-precision"]
    enough_s: float | None = None
    plan: Plan = Plan()
    settings: Mapping[str, Value] = {}
    difference: OutputDifference | None = None
