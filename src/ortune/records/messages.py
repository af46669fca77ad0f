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
    """A message of the core; text from elsewhere, such as a verb's or an error's, is passed as it is."""


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
    """A setting of a plan lacks other settings that it needs."""

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
    """Results cannot be stored; ``where`` and ``what`` are those of the error."""

    where: str
    what: str


class Quiet(Message, frozen=True, kw_only=True):
    """The state of a wait for a quiet machine.

    Attributes:
        state: Whether the wait goes on, ended with a quiet machine, or ended with a busy one.
        seconds: Seconds left if it goes on; otherwise the seconds that it took.
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
    """Outputs with and without graph optimisation were not compared, which needs this much more time."""

    needed_s: float


class NotLocated(Message, frozen=True, kw_only=True):
    """There is no time to locate the first node with wrong or non-finite values.

    Attributes:
        kind: The kind of values.
        side: The name of the side, if there are several.
        needed_s: Seconds that it takes.
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
    """The download of a page, which is part of the time to its first result."""

    n_bytes: int
    n_ns: int


class PlannedBlocks(Message, frozen=True, kw_only=True):
    """The number of blocks that fit in the budget, and the trials of each."""

    n_blocks: int
    n_arms: int
    trial_s: float


class CalibrationBlock(Message, frozen=True, kw_only=True):
    """A block of the calibration ended; ``number`` counts from one."""

    number: int


class ComparisonBlock(Message, frozen=True, kw_only=True):
    """A block of a comparison ended, of at most ``most`` if that is known."""

    number: int
    most: int | None


class AwakeTrials(Message, frozen=True, kw_only=True):
    """Waiting trials used CPU time during the turns of others, as a share of one CPU."""

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
    """A block of the race ended; ``ranked`` is the number of plans that are still compared, 0 before the first."""

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
    """The best plan so far is confirmed after a stop was requested, which takes about this long."""

    seconds: float


class Confirming(Message, frozen=True, kw_only=True):
    """A plan is confirmed on fresh blocks."""

    n_blocks: int
    plan: str


# --- looking into a model


class ObservingValues(Message, frozen=True, kw_only=True):
    """The values of a model are read, part by part.

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
    """The GPU kernels of a side are counted."""

    side: str


class ProfilingProcess(Message, frozen=True, kw_only=True):
    """A process is profiled, of at most ``most``; ``number`` counts from one."""

    number: int
    most: int


class MeasuringPeaks(Message, frozen=True, kw_only=True):
    """The peaks of the machine are measured.

    Attributes:
        threads: The numbers of threads.
        usual_s: Usual seconds.
        most_s: Maximum seconds next to other programs.
    """

    threads: tuple[int, ...]
    usual_s: float
    most_s: float


class PeaksNotStored(Message, frozen=True, kw_only=True):
    """The peaks are not stored; ``path`` cannot be written because of ``why``, or is "" without a home folder."""

    path: str
    why: str


class SkippedInputs(Message, frozen=True, kw_only=True):
    """Sets of inputs are not usable for calibration.

    Attributes:
        n_skipped: Number of these, of ``n_sets``.
        n_sets: Number of sets.
        first: The problem with the first of these inputs.
    """

    n_skipped: int
    n_sets: int
    first: str


class TestingModels(Message, frozen=True, kw_only=True):
    """Models with lower precision are tested."""

    n_models: int
