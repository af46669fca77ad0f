"""Result of ``ortune tune``: the winner, its proof, and every plan that was tried."""

from __future__ import annotations

from ortune.records import (
    Adoption,
    BlockPoint,
    BrowserPlace,
    Calibration,
    Candidate,
    CaseResult,
    Comparison,
    Figures,
    Headroom,
    OtherPrograms,
    Placement,
    Plan,
    PrecisionRow,
    ProfileDifference,
    ProfileResult,
    ProviderCost,
    Refused,
    Runtime,
    SettingWorth,
    ShippedAnswer,
    TradeRow,
    UntestedTarget,
)
from ortune.records.base import Record


class BudgetReport(Record, frozen=True, kw_only=True):
    """The steps that the budget allowed, and how the budget was spent.

    Attributes:
        promise: The sentence printed before starting.
        before_s: Seconds until the first block: start, pilot, profile, rewrites.
        enough_s: Budget, in seconds, that is enough for the steps that did not fit; 0 if all steps fit.
        exploratory: Whether there was no time for the confirmation, or to repeat failed controls: nothing is claimed.
        left_s: Seconds left after the last block.
        next_s: Seconds to test one more configuration; 0 if all were tested, or the session was stopped.
        unspent: Why the rest of the budget was not used, and the next configuration; "" if almost nothing was left.
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
    unspent: str = ""


class OtherPackage(Record, frozen=True, kw_only=True):
    """The fastest confirmed configuration with another build of ONNX Runtime, or without one if the winner needs one.

    Attributes:
        plan: The configuration.
        comparison: Comparison with the current configuration, in the blocks of the confirmation.
        figures: Statistics over these blocks.
        over: Comparison with the shipped configuration in the same blocks; None if they do not contain it.
        adoption: Requirements for running the configuration; None if it runs in the user's own runtime.
    """

    plan: Plan
    comparison: Comparison
    figures: Figures | None = None
    over: Comparison | None = None
    adoption: Adoption | None = None


class MemoryTry(Record, frozen=True, kw_only=True):
    """One process of a configuration that may need less memory than the default.

    Attributes:
        plan: The whole configuration.
        peak_bytes, idle_bytes: Peak and idle memory over all sizes of the workload; None if the process failed.
        latency_ns: Mean latency, a single observation.
        failed: Reason that the process failed, or a note that the outputs are wrong; "" if neither.
    """

    plan: Plan
    peak_bytes: int | None = None
    idle_bytes: int | None = None
    latency_ns: float = 0.0
    failed: str = ""


class WithinMemory(Record, frozen=True, kw_only=True):
    """The configurations that ``--max-memory`` considered, and the base that it chose.

    Attributes:
        default: The requested default, with its memory.
        current: The user's current configuration, with its memory; None without ``--current``.
        base: The fastest configuration within the limit, which all others are compared with, if the default needs more.
        tried: Configurations that were tried as the base, least memory first.
    """

    limit_bytes: int
    default: MemoryTry
    current: MemoryTry | None = None
    base: Plan | None = None
    tried: tuple[MemoryTry, ...] = ()

    @property
    def replaces(self) -> bool:
        """Whether the current plan, or else the default, needs more memory than the limit."""
        return not self.holds(self.current or self.default)

    def holds(self, tried: MemoryTry) -> bool:
        """Return whether a configuration ran within the limit."""
        return not tried.failed and tried.peak_bytes is not None and tried.peak_bytes <= self.limit_bytes


class TuneResult(ShippedAnswer, frozen=True, kw_only=True):
    """``result`` of ``ortune tune --json``; the only input of the report and the bundle.

    Attributes:
        default: The baseline of all comparisons: ``Plan()``, or in a browser only the target's execution provider.
        wrong_default: The requested default, if ONNX Runtime's optimiser makes its outputs wrong, or breaks it:
            comparisons use ``default``, the highest level with correct outputs.
        default_broken: Whether ``wrong_default`` does not run.
        wrong_default_figures: Times of ``wrong_default``; None if no time was left for one trial.
        wrong_against_default: ``wrong_default`` compared with ``default`` in the same blocks, exploratory; None if the
            figures come from a single trial.
        changes: Whether the winner differs from today's configuration (the default without ``--current``).
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
        others: Other programs during a search that compared nothing; None on a quiet machine, and if a comparison has
            this record.
        smallest_effect_ratio: Minimum detectable effect as a fraction: of the comparison that decides the result, or of
            the search if nothing was compared; None if unknown.
        runtime: The winner's runtime, if it is not the side's.
        placement: The winner's nodes by execution provider; empty for the CPU only.
        adoption: Requirements for using ``runtime``; None for the user's own runtime.
        worth_adopting_ratio: The smallest gain over the best configuration in the user's own runtime that justifies
            another one, as a fraction; 0 if the target was requested by name.
        other_package: The fastest confirmed configuration with another package than the winner has, or without one.
        costs: Load time and memory of each execution provider that was compared with the default's.
        precision: Results of quantized models, if they were allowed (--tolerance, --allow numerics).
        calibration: Calibration data of the quantized models; None for none.
        headroom: The remaining potential, from a profile of the default.
        default_profile: Categories and most expensive nodes of that profile; None if there is none.
        places: Other execution providers of the browser that run the model (--target web), WebAssembly first; () if not
            requested.
        within_memory: Configurations within ``--max-memory``; None without that limit.
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
    others: OtherPrograms | None = None
    smallest_effect_ratio: float | None = None
    headroom: Headroom | None = None
    default_profile: ProfileResult | None = None
    why: ProfileDifference | None = None
    runtime: Runtime | None = None
    adoption: Adoption | None = None
    worth_adopting_ratio: float = 0.0
    other_package: OtherPackage | None = None
    costs: tuple[ProviderCost, ...] = ()
    wrong_default: Plan | None = None
    default_broken: bool = False
    wrong_default_figures: Figures | None = None
    wrong_against_default: Comparison | None = None
    placement: tuple[Placement, ...] = ()
    precision: tuple[PrecisionRow, ...] = ()
    calibration: Calibration | None = None
    places: tuple[BrowserPlace, ...] = ()
    within_memory: WithinMemory | None = None
    ort_web: str = ""
