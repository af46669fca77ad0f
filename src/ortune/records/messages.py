"""Messages of the core while it runs, as codes with figures; ``show/message_words.py`` puts them into words.

They are no part of a document: a verb that keeps one in its notes puts it into words first. They are imported by name,
because only verbs that measure need them.
"""

from __future__ import annotations

from typing import Literal

from ortune.records.base import Record
from ortune.records.measure import ExactCheck

RemarkCode = Literal[
    "comparing-levels", "comparing-outputs", "comparing-values", "comparing-with-float64", "fastest-so-far",
    "load-unknown", "not-profiled", "one-at-a-time", "one-size", "optimising-levels", "repeating-alone",
    "rows-not-tested", "values-not-tested",
]  # fmt: skip


class Message(Record, frozen=True, kw_only=True):
    """A progress message of the core; texts from elsewhere, such as from a verb, are passed as plain strings."""


class Remark(Message, frozen=True, kw_only=True):
    """A message with a fixed text, which contains no names or numbers."""

    code: RemarkCode


# --- the start of a session


class Reading(Message, frozen=True, kw_only=True):
    """A model is read; ``side`` is as written by the user, None for the model of the previous side."""

    side: str | None


class FirstRun(Message, frozen=True, kw_only=True):
    """A side runs for the first time."""

    side: str


class InAPod(Message, frozen=True, kw_only=True):
    """The session runs in an emulated container; ``how`` describes it."""

    how: str


class Unmet(Message, frozen=True, kw_only=True):
    """A setting of a plan needs other settings that the plan lacks."""

    setting: str
    missing: tuple[str, ...]


class SkippedChecks(Message, frozen=True, kw_only=True):
    """Checks were skipped for lack of time; a budget of ``enough_s`` seconds is sufficient."""

    checks: tuple[str, ...]
    enough_s: float


class LongStart(Message, frozen=True, kw_only=True):
    """Much of the budget was spent before the first trial."""

    start_s: float
    budget_s: float


class Resumed(Message, frozen=True, kw_only=True):
    """An interrupted session was resumed with its trials."""

    n_trials: int


class NotStored(Message, frozen=True, kw_only=True):
    """Results cannot be stored; ``where`` and ``what`` are from the error."""

    where: str
    what: str


class Quiet(Message, frozen=True, kw_only=True):
    """State of the wait for a quiet machine.

    Attributes:
        state: Whether the wait continues, ended with a quiet machine, or ended with a busy one.
        seconds: Seconds left if it continues; otherwise its duration.
        used_cpus: CPUs that other programs use, of ``cpus``.
    """

    state: Literal["waiting", "quiet", "busy"]
    seconds: float
    used_cpus: float
    cpus: int


# --- inputs and outputs


class FailedInputs(Message, frozen=True, kw_only=True):
    """Inputs do not run, and others are tried; ``what`` is the error."""

    what: str


class SizesInTurn(Message, frozen=True, kw_only=True):
    """Several sizes are fed in turn, because memory grows when sizes change."""

    sizes: tuple[str, ...]


class NotEvaluated(Message, frozen=True, kw_only=True):
    """Outputs were not compared with the model in float64.

    Attributes:
        exact: The comparison, with the reason.
        limit_s: Maximum seconds of the evaluation.
        side: The name of the side, if there are several.
    """

    exact: ExactCheck
    limit_s: float
    side: str = ""


class LevelsNotCompared(Message, frozen=True, kw_only=True):
    """Outputs with and without graph optimisation were not compared, because that needs a longer budget."""

    needed_s: float


class NotLocated(Message, frozen=True, kw_only=True):
    """The budget is too short to locate the first node with wrong or non-finite values.

    Attributes:
        kind: The kind of values.
        side: The name of the side, if there are several.
        needed_s: Seconds that the search takes.
    """

    kind: Literal["wrong", "non-finite"]
    side: str
    needed_s: float


class VaryingOutputs(Message, frozen=True, kw_only=True):
    """Outputs vary from run to run, so only their moments are compared; ``operators`` draw random numbers."""

    operators: tuple[str, ...]


class SensitiveOutputs(Message, frozen=True, kw_only=True):
    """Outputs are sensitive to rounding.

    Attributes:
        moved_l2: Their relative L2 change without graph optimisation, or with inputs one rounding step away.
        accepted_l2: The largest accepted difference.
    """

    moved_l2: float
    accepted_l2: float


class ExcludedOutputs(Message, frozen=True, kw_only=True):
    """Outputs are not compared, because rewrites remove them on request."""

    names: tuple[str, ...]


# --- blocks of trials


class Download(Message, frozen=True, kw_only=True):
    """Size and duration of a page's download, which is part of the time to its first result."""

    n_bytes: int
    n_ns: int


class PlannedBlocks(Message, frozen=True, kw_only=True):
    """The number of blocks that fit in the budget, and the number of trials per block."""

    n_blocks: int
    n_arms: int
    trial_s: float


class CalibrationBlock(Message, frozen=True, kw_only=True):
    """End of a calibration block; ``number`` counts from one."""

    number: int


class ComparisonBlock(Message, frozen=True, kw_only=True):
    """End of a comparison block; ``most`` is the maximum number of blocks, if known."""

    number: int
    most: int | None


class AwakeTrials(Message, frozen=True, kw_only=True):
    """Waiting trials used CPU time during the turns of other trials; the figure is a fraction of one CPU."""

    share_ratio: float


# --- the race of tune


class RaceForecast(Message, frozen=True, kw_only=True):
    """The trials, plans and precision for a budget.

    Attributes:
        plans: Number of plans that fit, of ``wanted``.
        wanted: Number of plans.
        left_ns: Nanoseconds left.
        trial_ns: Duration of a trial, and of its load in ``load_ns``.
        load_ns: Duration of the load in a trial.
        confirmed_ratio: The smallest difference that can be confirmed, as a share.
        enough_s: A sufficient budget in seconds for all plans.
    """

    plans: int
    wanted: int
    left_ns: float
    trial_ns: float
    load_ns: float
    confirmed_ratio: float
    enough_s: int


class BudgetTooShort(Message, frozen=True, kw_only=True):
    """The budget is too short for any change; ``enough_s`` is sufficient."""

    trial_ns: float
    budget_s: float
    enough_s: int


class ExplorationForecast(Message, frozen=True, kw_only=True):
    """Plans are measured but none can be confirmed.

    Attributes:
        plans: Number of plans that are measured, of ``wanted``.
        wanted: Number of plans.
        left_ns: Nanoseconds left.
        needed_ns: Nanoseconds that confirming a change takes.
        enough_s: A sufficient budget in seconds for confirming one.
    """

    plans: int
    wanted: int
    left_ns: float
    needed_ns: float
    enough_s: int


class FailedControls(Message, frozen=True, kw_only=True):
    """The controls failed, and are repeated if there is time.

    Attributes:
        plans: Number of plans before the repetition.
        dropped: Number of plans that have no time left because of it.
        beyond_ns: Nanoseconds by which the repetition would exceed the budget; 0 if it fits.
        enough_s: A sufficient budget in seconds for the repetition.
    """

    plans: int
    dropped: int
    beyond_ns: float
    enough_s: int


class RaceBlock(Message, frozen=True, kw_only=True):
    """End of a block of the race; ``ranked`` is the number of remaining plans, 0 before the first ranking."""

    ranked: int
    plans: int


class Leader(Message, frozen=True, kw_only=True):
    """One of the fastest plans so far.

    Attributes:
        speed_up: Speed-up of the plan, with the interval from ``low`` to ``high``.
        low, high: Limits of the interval; both 0 if it is unknown.
        n_blocks: Number of blocks in which the plan ran.
        plan: Description of the plan.
    """

    speed_up: float
    low: float
    high: float
    n_blocks: int
    plan: str


class ConfirmingBest(Message, frozen=True, kw_only=True):
    """Start of the best plan's confirmation after a stop request, with its approximate duration."""

    seconds: float


class Confirming(Message, frozen=True, kw_only=True):
    """Start of a plan's confirmation on fresh blocks."""

    n_blocks: int
    plan: str


# --- looking into a model


class ObservingValues(Message, frozen=True, kw_only=True):
    """Start of reading a part of a model's intermediate values.

    Attributes:
        side: The name of the side.
        moved: Whether its inputs are perturbed by one rounding step.
        part: The part, counted from one.
        n_parts: Number of parts.
    """

    side: str
    moved: bool
    part: int
    n_parts: int


class CountingKernels(Message, frozen=True, kw_only=True):
    """Start of counting the GPU kernels of a side."""

    side: str


class ProfilingProcess(Message, frozen=True, kw_only=True):
    """Start of a profiled process; ``number`` counts from one, ``most`` is the maximum number of processes."""

    number: int
    most: int


class MeasuringPeaks(Message, frozen=True, kw_only=True):
    """Start of measuring the machine's peaks.

    Attributes:
        threads: The numbers of threads.
        usual_s: Usual duration in seconds.
        most_s: Maximum duration in seconds if other programs use the machine.
    """

    threads: tuple[int, ...]
    usual_s: float
    most_s: float


class PeaksNotStored(Message, frozen=True, kw_only=True):
    """The peaks cannot be stored in ``path`` because of ``why``; without a home folder, ``path`` is ""."""

    path: str
    why: str


class SkippedInputs(Message, frozen=True, kw_only=True):
    """Some sets of inputs are not usable for calibration.

    Attributes:
        n_skipped: Number of unusable sets, of ``n_sets``.
        n_sets: Number of sets.
        first: The problem with the first unusable set.
    """

    n_skipped: int
    n_sets: int
    first: str


class TestingModels(Message, frozen=True, kw_only=True):
    """Start of the tests of models with lower precision."""

    n_models: int
