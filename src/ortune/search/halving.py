"""Successive halving of many plans with one baseline and few blocks, which selects plans and claims nothing.

Screening drops plans that are clearly slower in their first block, and halves the field by block medians after 2, 4 and
8 blocks. Evidence is only used to eliminate plans, which means that they are not worth more time: plans without the
smallest gain that matters, and plans that the leader beats. Used by ``tune``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ortune.errors import MeasurementError
from ortune.objectives import Objective
from ortune.records import Block, Failed, Measured, OutputDifference, Plan, PlanStatus
from ortune.search.blocks import BASE, IDENTICAL, log_ratio
from ortune.search.figures import without_latencies
from ortune.search.guards import broken_guard, over_memory, waived
from ortune.search.phases import NEXT_TIMES
from ortune.search.reasons import ENDED, Reason
from ortune.search.schedule import NextBlock, Schedule, ScheduleProgress, Steps
from ortune.search.trial_counts import FIELD, ROUNDS
from ortune.stats import evidence

CURRENT = "current"
FAILURES_ELIMINATE = 2
AT_ONCE = ("unsupported", "unknown-key", "timeout")
"""Failures that eliminate a plan at once: failures that would recur, and timeouts, since the limit is thirty times the
usual time of a trial and a second timeout would use up the budget."""
EVIDENCE_LIMIT = float(np.log(20.0))
USUAL_GAIN = 0.05
"""Usual gain of a plan that helps, as the magnitude of a log ratio."""
PLANS_DIFFER = 0.03
"""Usual standard deviation of log ratios between plans."""
NOISE = 2.0
"""Difference of two plans, in standard errors, below which neither is considered better."""
PLAINLY = 6.0
"""Slowdown in the first block that eliminates a plan, as a multiple of the noise, which counts as ``PLAINLY_LEAST`` or
more."""
PLAINLY_LEAST = 0.05
CONTROL_EVERY = 10
"""In the race, every tenth block includes the A/A control, since a machine may become noisy after the calibration."""


def expected(prior: float) -> float:
    """Return the expected log ratio of a plan from the prior probability that it helps."""
    return -USUAL_GAIN * prior


@dataclass(slots=True, kw_only=True)
class Entry:
    """One plan in the race.

    Attributes:
        arm: Name of the plan in blocks.
        expected: Assumed median of ``ratios`` before the first block.
        ratios: log(plan / baseline), one per block.
        trials: Measured trials of the plan.
        worsens: Text about the guard that the plan broke; "" if none.
    """

    plan: Plan
    arm: str = field(init=False)
    origin: str
    expected: float = 0.0
    ratios: list[float] = field(default_factory=list)
    trials: list[Measured] = field(default_factory=list)
    failures: list[Failed] = field(default_factory=list)
    outputs: OutputDifference | None = None
    ran: bool = False
    status: PlanStatus | None = None
    why: Reason | None = None
    worsens: str = ""

    def __post_init__(self) -> None:
        self.arm = self.plan.id

    @property
    def live(self) -> bool:
        """Whether the plan is still in the race."""
        return self.status is None

    @property
    def is_sound(self) -> bool:
        """Whether the plan neither failed nor had wrong outputs."""
        return self.status not in ("failed", "wrong-output")

    @property
    def is_given_up(self) -> bool:
        """Whether the plan failed so often, or in such a way, that it is not run again."""
        at_once = any(failed.reason in AT_ONCE for failed in self.failures)
        return at_once or len(self.failures) >= FAILURES_ELIMINATE

    @property
    def median_log_ratio(self) -> float:
        """Median log ratio so far; 0, as for the default, before the first block."""
        return float(np.median(self.ratios)) if self.ratios else 0.0

    def eliminate(self, status: PlanStatus, why: Reason) -> None:
        """Remove the plan from the race, and store the reason."""
        self.status, self.why = status, why


@dataclass(kw_only=True)
class Halving(Schedule):
    """The race: plans that are halved, and plans that are built from the leaders. ``begin`` is called for each stage.

    The driver of the blocks creates a plan's model before its first block, and checks the plan's outputs afterwards; a
    plan that fails either is eliminated.

    Attributes:
        worth: Smallest gain that matters, as a fraction.
        objective, allowed: The objective, and the guards that may be broken.
        limit_bytes: Peak memory that no process of a plan may exceed; None if there is no limit.
        default: Plan with which all plans are compared.
        statistic, scale: Statistic, and robust scale of the blocks' log ratios, from the calibration.
        with_current: Whether the user's current plan is also in every block.
        timed_only: The default if its outputs are wrong, which is timed for users who run it today, but no candidate.
        earlier: Blocks of the calibration, in which plans ran as well.
        first_trial_ns: Expected duration of a trial before the first block.
        reserved: Trials that must still fit after any further block.
        took_ns: Duration of the last block.
    """

    statistic: str = "paired"
    worth: float
    scale: float = 0.0
    objective: Objective = "latency"
    allowed: tuple[str, ...] = ()
    limit_bytes: int | None = None
    default: Plan = field(default_factory=Plan)
    kept_ns: float = 0.0
    with_current: bool = False
    timed_only: Entry | None = None
    entries: dict[str, Entry] = field(default_factory=dict)
    earlier: list[Block] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    first_trial_ns: float = 0.0
    reserved: int = 0
    took_ns: int = 0

    @property
    def trial_ns(self) -> float:
        """Expected duration of a trial in nanoseconds: median of the last ten blocks, without hangs, plus a margin."""
        # One slow block does not predict the next, and remaining plans may load more slowly than earlier
        # ones.
        recent = self.costs_ns[-10:] or [self.first_trial_ns]
        return NEXT_TIMES * float(np.median(recent))

    @property
    def all_blocks(self) -> list[Block]:
        """All blocks in which plans ran: the blocks of the calibration and of the race."""
        return [*self.earlier, *self.blocks]

    @property
    def references(self) -> int:
        """Number of plans in every block: the default, and the current plan if there is one."""
        return 2 if self.with_current else 1

    def add(self, entry: Entry) -> Entry:
        """Add an entry unless its plan is in the race already, and return the plan's entry."""
        entered = self.entries.get(entry.arm)
        if entered is None:
            self.entries[entry.arm] = entered = entry
        return entered

    def rank(self, entry: Entry) -> float:
        """Return the estimated log ratio by which plans are ranked; lower is better.

        The estimate is the median so far, shrunk towards 0 if there are few blocks (against lucky pairs), and towards
        the expected value if blocks vary more than plans. On a busy machine, two blocks contain less information about
        a plan than its effect on other models: without the prior, plans led by chance, and the usual winners got no
        second block.
        """
        # A weighted mean, as with a normal prior: n blocks at the median, two at 0, and at the expected value
        # as many as the ratio of a block's variance to that between plans. Example: scale 3 % (a weight of
        # one block), a prior of 0.5 (expected -0.025), two blocks at -0.10: (2 x -0.10 - 0.025) / (2 + 2 + 1)
        # = -0.045.
        n, doubt = len(entry.ratios), (self.scale / PLANS_DIFFER) ** 2
        return (n * entry.median_log_ratio + doubt * entry.expected) / (n + 2 + doubt)

    def only_timed(self, n_blocks: int) -> list[str]:
        """Return the arm of the plan that is only timed, until it has ``n_blocks`` blocks; then []."""
        entry = self.timed_only
        if entry is None or entry.is_given_up or len(entry.ratios) >= n_blocks:
            return []
        return [entry.arm]

    def live(self) -> list[Entry]:
        """Return the plans that are still in the race, best first."""
        return sorted((e for e in self.entries.values() if e.live), key=self.rank)

    def out_of_time(self, trials: int) -> bool:
        """Return whether a stop was requested, or a block of that many trials does not fit before the reserved time."""
        fits = self.left.holds(trials + self.reserved, self.trial_ns, reserved_ns=self.kept_ns)
        return self.left.stop or not fits

    def screen(self, entries: Sequence[Entry], rounds: Sequence[int] = ROUNDS) -> Steps[None]:
        """Halve plans by block medians in rounds, after each of which all remaining plans have equally many blocks."""
        for target in rounds:
            field_ = [e for e in entries if e.live]
            while waiting := [e for e in field_ if self._needs(e, target)]:
                if not (yield from self.round(waiting)):
                    self._late(waiting, target)
                    return
            self.halve([e for e in field_ if e.live], last=target == rounds[-1])

    def _needs(self, entry: Entry, blocks: int) -> bool:
        """Return whether a plan needs further blocks; eliminate it if its first block is clearly slower."""
        # One block eliminates a plan if it is slower by more than noise can explain; the time of a second
        # block is better used for others. One block never decides in favour of a plan.
        limit = max(PLAINLY_LEAST, PLAINLY * self.scale)
        if entry.live and entry.ratios and entry.median_log_ratio > limit:
            entry.eliminate(
                "eliminated", Reason(code="slower-at-once", share_ratio=math.expm1(entry.median_log_ratio))
            )
        return entry.live and len(entry.ratios) < blocks

    def round(self, entries: Sequence[Entry]) -> Steps[bool]:
        """Yield one more block for each entry, best first, and return False if time ran out."""
        # Best first, since time may run out within the round. In as few blocks as possible, since each has
        # its own references, and of similar sizes: seven plans are four and three, not five and two.
        order = sorted(entries, key=self.rank)
        size = math.ceil(len(order) / math.ceil(len(order) / FIELD))
        for i in range(0, len(order), size):
            if not (yield from self.block(order[i : i + size])):
                return False
        return True

    def block(self, entries: Sequence[Entry]) -> Steps[bool]:
        """Yield one block of the baseline, the current plan and up to five plans, and return False if time ran out."""
        while entries:
            arms = [BASE, *([CURRENT] if self.with_current else []), *(e.arm for e in entries)]
            # Counted over all blocks of the race, since the control watches the machine.
            if len(self.blocks) % CONTROL_EVERY == CONTROL_EVERY - 1:
                arms.append(IDENTICAL)
            if self.out_of_time(len(arms)):
                return False
            more = self.only_timed(ROUNDS[0])
            arms += [] if self.out_of_time(len(arms) + len(more)) else more
            # A block with a failed baseline is useless for all plans; one with a failed plan is still useful
            # for the others.
            block = yield NextBlock(arms=tuple(arms), index=len(self.blocks), phase="race", needed=(BASE,))
            if block is not None:
                return True
            # Making a plan's model took time or failed, so the remaining plans are considered anew.
            entries = [e for e in entries if e.live]
        return True

    @property
    def standing(self) -> ScheduleProgress:
        """Number of completed blocks, and the arms that are still in the race."""
        live = tuple(entry.arm for entry in self.live())
        return ScheduleProgress(n_blocks=len(self.blocks), most_blocks=None, live=(BASE, *live))

    def note(self, block: Block, took_ns: int) -> None:
        """Record the duration and failures of a block and, in the race, its ratios."""
        self.took_ns = took_ns
        if block.phase == "confirm":
            return  # confirmation blocks do not affect the ranking
        if block.phase == "race":
            block = without_latencies(block)
            self.blocks.append(block)
        self.record_failures(block)
        if block.phase == "race":
            self.record_ratios(block)

    def halve(self, entries: Sequence[Entry], *, last: bool) -> None:
        """Keep the better half and plans within the noise of the best, so that two unlucky blocks do not lose a winner.

        Plans of the better half are also eliminated if they are slower than the best and not faster than the default,
        if they cannot win by the evidence, or if they break a guard.
        """
        ranked = sorted(
            (e for e in entries if not self.eliminate_by_guards(e)), key=lambda e: e.median_log_ratio
        )
        # Half of them, rounded up: of three, two are kept, and the last one is always kept.
        keep = max(1, -(-len(ranked) // 2))
        for place, entry in enumerate(ranked):
            self._eliminate_on_evidence(entry)
            # Example: with a scale of 1.5 % and two blocks, plans within 2 x 0.015 x sqrt(2 / 2) = 3 % are
            # kept together. The difference of two means of n blocks has a standard error of scale * sqrt(2 /
            # n).
            behind = entry.median_log_ratio - ranked[0].median_log_ratio > NOISE * self.scale * math.sqrt(
                2 / len(entry.ratios)
            )
            # Half of the smallest gain that matters, since a plan may still reach it combined with others.
            idle = entry.median_log_ratio > -0.5 * math.log1p(self.worth)
            if entry.live and behind and idle:
                entry.eliminate("eliminated", Reason(code="no-better", n=len(entry.ratios)))
            elif entry.live and place >= keep and behind and not last:
                entry.eliminate("eliminated", Reason(code="slower-half", n=len(entry.ratios)))
            elif (
                entry.live
                and len(entry.ratios) >= ROUNDS[1]
                and entry.median_log_ratio > np.log1p(self.worth)
            ):
                entry.eliminate("eliminated", Reason(code="slower", n=len(entry.ratios)))

    def eliminate_by_guards(self, entry: Entry) -> bool:
        """Eliminate a plan that exceeds the memory limit, or worsens another metric more than its guard allows.

        Returns:
            Whether the plan was eliminated.
        """
        if peak := over_memory(entry.trials, self.limit_bytes):
            if entry.live:
                entry.worsens = peak
                entry.eliminate("eliminated", Reason(code="over-memory", text=peak))
            return True
        reference = CURRENT if self.with_current else BASE
        allowed = (*self.allowed, *waived(entry.plan, self.default))
        why = broken_guard(self.all_blocks, self.objective, allowed, arm=entry.arm, base=reference)
        if why and entry.live:
            entry.worsens = why
            entry.eliminate("eliminated", Reason(code="worsens", text=why))
        return bool(why)

    def _eliminate_on_evidence(self, entry: Entry) -> None:
        gain = float(np.log1p(-self.worth))
        # One-sided, and against the smallest gain that matters instead of 0: a plan that gains less is not
        # worth more time, slower or not. This evidence is valid after any block, so checking it repeatedly is
        # free.
        if evidence.log_evidence_above(entry.ratios, gain, self.scale) >= EVIDENCE_LIMIT:
            entry.eliminate("eliminated", Reason(code="below-worth", share_ratio=self.worth))

    def record_failures(self, block: Block) -> None:
        """Record the failures of a block, and eliminate plans that failed too often."""
        base = next(t.outcome for t in block.trials if t.arm == BASE)
        if isinstance(base, Failed):
            # A block without its baseline is dropped and the race continues, since a shortage of memory may
            # be temporary. Repeated failures end it.
            if sum(bool(b.dropped) for b in self.blocks) > FAILURES_ELIMINATE:
                raise MeasurementError(f"the default cannot be measured: {base.what}", code=base.reason)
            return
        for trial in block.trials:
            entry = self.entries.get(trial.arm)
            if entry is None:
                continue
            if isinstance(trial.outcome, Failed):
                entry.failures.append(trial.outcome)
                if entry.is_given_up and entry is not self.timed_only:
                    self._fail(entry, f"{trial.outcome.reason}: {trial.outcome.what}")
                continue
            entry.ran = True

    def record_ratios(self, block: Block) -> None:
        """Record the log ratios and trials of a block that was not dropped."""
        for trial in block.trials:
            entry = self.entries.get(trial.arm)
            # A dropped block is dropped for all of its plans, since a rule that excludes single arms could
            # depend on their figures.
            ratio = None if entry is None or block.dropped else log_ratio(block, trial.arm, self.statistic)
            if entry is not None and ratio is not None and isinstance(trial.outcome, Measured):
                entry.ratios.append(ratio)
                entry.trials.append(trial.outcome)

    def _fail(self, failed: Entry, why: str) -> None:
        """Eliminate a plan that fails, and all plans that contain it and have not run."""
        failed.eliminate("failed", Reason(code="error", text=why))
        for entry in self.entries.values():
            # A plan that already ran stays, since a further part may have fixed the failure.
            more = entry.plan.settings.items() >= failed.plan.settings.items() and all(
                spec in entry.plan.rewrites for spec in failed.plan.rewrites
            )
            if more and entry.live and not entry.ran:
                entry.eliminate("not-tried", Reason(code="part-of-a-failure", text=failed.plan.describe()))

    def _late(self, entries: Sequence[Entry], target: int) -> None:
        """Mark as not tried the plans that have too few blocks when time runs out within a round."""
        for entry in entries:
            # Two blocks are the minimum to rank a plan; with them it keeps its rank, even if the round needs
            # more.
            if entry.live and len(entry.ratios) < min(target, ROUNDS[0]):
                entry.eliminate("not-tried", ENDED)
