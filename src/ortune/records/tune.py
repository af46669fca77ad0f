"""The document of a tuning."""

from __future__ import annotations

from typing import Literal

from ortune.records.answer import Answer
from ortune.records.base import Record
from ortune.records.compare import CaseResult
from ortune.records.comparison import Comparison
from ortune.records.difference import ProfileDifference
from ortune.records.machine import Adoption, Runtime
from ortune.records.measure import Figures, OutputDifference
from ortune.records.plan import Calibration, Plan, ReadBackLevel
from ortune.records.profile import Headroom, ProfileResult
from ortune.records.protocol import Placement

PlanStatus = Literal[
    "winner", "default", "current", "retired", "failed", "wrong-output", "pruned", "not-tried"
]


class Candidate(Record, frozen=True, kw_only=True):
    """One plan that was tried (or could not be), and what became of it.

    Race figures carry no claim: they suffer the winner's curse and are labelled exploratory.

    Attributes:
        origin: What proposed it, in words ("knob graph_optimization_level", "combination", "rewrite ...").
        status: The same as ``fate``, which was its name in older documents; there it is None.
        why: Why it ended so, one sentence.
        ratio, ratio_low, ratio_high: Against the default over the race's blocks; None when never measured.
    """

    plan: Plan
    origin: str
    fate: PlanStatus
    why: str = ""
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    n_blocks: int = 0
    figures: Figures | None = None
    outputs: OutputDifference | None = None
    status: PlanStatus | None = None


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
        before_s: Until the first block: starting, the pilot, the profile, rewriting.
        enough_s: The budget that holds what this one did not; 0 where it held all.
        exploratory: It held no confirmation, or no repeat of controls that failed: plans were seen, and none claimed.
        left_s: What was left after the last block.
        next_s: What testing one more configuration takes; 0 where all were tested, or the session was stopped.
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


class PrecisionRow(Record, frozen=True, kw_only=True):
    """One quantized model that was tried: error, size and speed side by side.

    Attributes:
        within_ratio: The strictest of 0.1 %, 1 % and 5 % (relative L2) that its outputs keep; None beyond all, 0 for
            the row of the best plan that changes no precision.
        calibrated: It has ranges that were seen while running inputs; see ``TuneResult.calibration``.
        ratio, ratio_low, ratio_high: Against the default: over the race's blocks where it took part, else a single
            observation without an interval.
        pareto: Nothing with a smaller error was as fast.
        why: Why it was not raced; "" where it was.
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


class Refused(Record, frozen=True, kw_only=True):
    """The plan that led the race and is not shipped, with what the fresh blocks said of it, and why.

    Attributes:
        figures: Over the fresh blocks; None in older documents.
    """

    plan: Plan
    comparison: Comparison
    why: str
    figures: Figures | None = None


PlaceState = Literal["raced", "timed", "ran", "functional-only", "failed", "absent", "not-tried"]
"""``timed``: the default alone; ``ran``: once, untimed, since nothing is raced there; ``functional-only``: the same, on
a GPU that is software; ``not-tried``: the budget did not hold it."""


class BrowserPlace(Record, frozen=True, kw_only=True):
    """One of the places where a browser can run the model, with ``--target web``.

    Attributes:
        target: Its name.
        state: What was done there.
        why: Why it is absent or failed, and how long was waited for one that was not tried to its end; "" else.
        adapter: The GPU, as the browser names it; "" where none is used or told.
        placement: Which nodes run where, as far as it is told.
        outputs: Against the default's; None where it did not run.
    """

    target: str
    state: PlaceState
    why: str = ""
    adapter: str = ""
    placement: tuple[Placement, ...] = ()
    outputs: OutputDifference | None = None


class TuneResult(Answer, frozen=True, kw_only=True):
    """``result`` of ``ortune tune --json``; the only thing that report and bundle read.

    Attributes:
        default: What all is held against: ``Plan()``, and in a browser the target's execution provider alone.
        wrong_default: What was asked for as the default, where ONNX Runtime's optimiser makes its outputs wrong: it was
            timed, and all is held against ``default``, the highest level whose outputs are right.
        changes: The winner is another one than what runs today (the default, where ``--current`` was not given).
        against_current: The confirmation against what the user runs today, where ``--current`` was given; None when it
            stays.
        cases: Of the winner.
        fallback: What the bundle runs where the winner cannot, of one that runs on a browser's GPU: the plan on
            WebAssembly that it was raced against. None elsewhere, and where none was measured.
        refused: Who led the race instead.
        fell: Who led the race and failed while it was confirmed, and how; "" where none did.
        left_aside: Who was ahead of all in the race and makes something else worse than is allowed, for those who do
            not mind; "" where none was.
        rewritten: The rewrites that made the model that the winner runs, "" where it runs the user's own.
        allowed: Safety classes and guards that were let through: a winner may have a failed guard that is named here.
        caution: What makes the default an easy opponent here (its pool has more threads than CPUs), said before any
            ratio; "" where nothing does.
        conditions: How busy the machine was, as the headline says it ("on an idle machine"); "" where not known.
        smallest_effect_ratio: What the race could have seen, as a share, where no challenger was confirmed.
        runtime: What the winner runs with, where that is another than the side's.
        placement: Which nodes each execution provider has with the winner; empty for the CPU's alone.
        adoption: What it takes to run with that; None where it is the user's own.
        precision: What fewer bits bring, where they were allowed (--tolerance, --allow numerics).
        calibration: What the quantized models were calibrated on; None where none was.
        headroom: Where something is to be won, from a profile of the default before the race.
        default_profile: That profile's categories and most expensive nodes; None where there is none.
        places: Where else in the browser the model runs (--target web), WebAssembly first; () where that was not asked.
        ort_web: The version of onnxruntime-web that the winner runs with, in a browser; "" elsewhere.
        why: Where the winner's gain lies: the winner minus what it replaces, both under the profiler; None without a
            winner, and where no time was left for it.
    """

    objective: str
    estimand: str
    worth_ratio: float
    default: Plan = Plan()
    fallback: Plan | None = None
    refused: Refused | None = None
    fell: str = ""
    left_aside: str = ""
    current: Plan | None = None
    current_figures: Figures | None = None
    against_current: Comparison | None = None
    settings: tuple[SettingWorth, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    trade: tuple[TradeRow, ...] = ()
    cases: tuple[CaseResult, ...] = ()
    not_tried: tuple[str, ...] = ()
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
    wrong_default: Plan | None = None
    placement: tuple[Placement, ...] = ()
    precision: tuple[PrecisionRow, ...] = ()
    calibration: Calibration | None = None
    places: tuple[BrowserPlace, ...] = ()
    ort_web: str = ""
