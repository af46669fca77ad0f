"""Successive halving: many plans, one baseline, few blocks. It chooses; it claims nothing. ``tune`` runs it.

Screening drops what is plainly slower in its first block, and halves the field on block medians after 2, 4 and 8.
The evidence only eliminates: a plan that is not better by the smallest effect that matters, or that the leader beats.
Eliminated means "not worth more time".
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
from ortune.search.guards import broken, over, waived
from ortune.search.phases import NEXT_TIMES
from ortune.search.reasons import ENDED, Reason
from ortune.search.schedule import NextBlock, Schedule, ScheduleProgress, Steps
from ortune.search.trial_counts import FIELD, ROUNDS
from ortune.stats import evidence

CURRENT = "current"
FAILURES_ELIMINATE = 2
AT_ONCE = ("unsupported", "unknown-key", "timeout")
"""Reasons that eliminate a plan at its first failure: what cannot be another time, and a hang, whose limit is thirty
times a usual trial: a second one would eat the budget."""
EVIDENCE_LIMIT = float(np.log(20.0))
USUAL_GAIN = 0.05
"""Of a plan that pays, as a log ratio."""
PLANS_DIFFER = 0.03
"""How far the log ratios of the usual plans are apart."""
NOISE = 2.0
"""Standard errors of the difference of two plans within which neither is called the better one."""
PLAINLY = 6.0
"""Times the noise of a block (and never less than ``PLAINLY_LEAST``) by which a first block rules a plan out."""
PLAINLY_LEAST = 0.05
CONTROL_EVERY = 10
"""Blocks of the race of which one holds the identical plan too: a machine may turn bad after the calibration."""


def expected(prior: float) -> float:
    """Return the log ratio of a plan that is so likely to pay."""
    return -USUAL_GAIN * prior


@dataclass(slots=True, kw_only=True)
class Entry:
    """One plan in the race.

    ``ratios`` are log(plan / baseline), one a block it ran in; ``trials`` its completed trials; ``expected`` is what
    the median of the ratios is taken to be before there are any; ``worsens`` is the guard that it broke, in words.
    ``arm`` is its name in blocks.
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
        """True while it takes part in the race."""
        return self.status is None

    @property
    def sound(self) -> bool:
        """True unless it failed or gave wrong outputs."""
        return self.status not in ("failed", "wrong-output")

    @property
    def gives_up(self) -> bool:
        """Whether it failed so often, or in such a way, that it is not run again."""
        at_once = any(failed.reason in AT_ONCE for failed in self.failures)
        return at_once or len(self.failures) >= FAILURES_ELIMINATE

    @property
    def middle(self) -> float:
        """Median log ratio so far; 0 (as the default) before the first block."""
        return float(np.median(self.ratios)) if self.ratios else 0.0

    def eliminate(self, status: PlanStatus, why: Reason) -> None:
        """Take it out of the race, with the reason."""
        self.status, self.why = status, why


@dataclass(kw_only=True)
class Halving(Schedule):
    """Plans while they are halved, and what is built on those that lead; it is begun with each of its stages.

    Who runs the blocks makes the model of a plan before its first one, and checks its outputs after it; what fails
    there, is eliminated.

    Attributes:
        worth: The smallest effect that matters, as a share.
        objective, allowed: What counts, and the guards that may be broken for it.
        limit_bytes: Peak memory that no process of a plan may exceed; None if there is no limit.
        default: The plan that all plans are compared with.
        statistic, scale: From the calibration; the scale of blocks, log units.
        with_current: Whether the user's current plan is in every block too.
        timed_only: The default with wrong outputs, timed for whoever runs it today: it can be neither won nor lost to.
        earlier: The calibration's blocks, in which plans took their turns too.
        first_trial_ns: What a trial costs before the first block has shown it.
        reserved: Trials that must still fit after any further block.
        took_ns: What the last block took.
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
        """The cost of a trial by now, hangs aside: the median of the last ten blocks, and a margin."""
        # One slow block says little of the next, and what is left in the race may load more slowly than what was in it.
        recent = self.costs_ns[-10:] or [self.first_trial_ns]
        return NEXT_TIMES * float(np.median(recent))

    @property
    def seen(self) -> list[Block]:
        """Every block in which plans took their turns: the calibration's, and the race's own."""
        return [*self.earlier, *self.blocks]

    @property
    def references(self) -> int:
        """Plans that stand in every block: the default, and what the user runs today."""
        return 2 if self.with_current else 1

    def add(self, entry: Entry) -> Entry:
        """Enter a plan once; the same plan again is the entry that is there."""
        entered = self.entries.get(entry.arm)
        if entered is None:
            self.entries[entry.arm] = entered = entry
        return entered

    def rank(self, entry: Entry) -> float:
        """Return the estimated log ratio of a plan, by which plans are ranked; lower is better.

        It is the median so far, shrunk towards 0 if there are few blocks (a lucky pair must not lead), and towards the
        expected value if blocks scatter more than plans do. On a busy machine two blocks say less about a plan than its
        effect on other models: without the prior, chance led, and the usual winners got no second block.
        """
        # A weighted mean, as of a normal prior: n blocks at the median, two at 0 against luck, and as many at what was
        # expected as one block's variance holds variances between plans.
        # Example: scale 3 % (one block of doubt), a prior of 0.5 (expected -0.025), two blocks at -0.10: (2 x
        # -0.10 - 0.025) / (2 + 2 + 1) = -0.045.
        n, doubt = len(entry.ratios), (self.scale / PLANS_DIFFER) ** 2
        return (n * entry.middle + doubt * entry.expected) / (n + 2 + doubt)

    def only_timed(self, n_blocks: int) -> list[str]:
        """Return the arm of the plan that is only timed, as long as fewer blocks than that have it."""
        entry = self.timed_only
        if entry is None or entry.gives_up or len(entry.ratios) >= n_blocks:
            return []
        return [entry.arm]

    def live(self) -> list[Entry]:
        """Return plans still in the race, best first."""
        return sorted((e for e in self.entries.values() if e.live), key=self.rank)

    def out_of_time(self, trials: int) -> bool:
        """Return whether a block of that many trials does not fit next to what is reserved, or a stop was requested."""
        fits = self.left.holds(trials + self.reserved, self.trial_ns, reserved_ns=self.kept_ns)
        return self.left.stop or not fits

    def screen(self, entries: Sequence[Entry], rounds: Sequence[int] = ROUNDS) -> Steps[None]:
        """Successive halving on block medians; every plan left gets the same number of blocks in a round."""
        for target in rounds:
            field_ = [e for e in entries if e.live]
            while waiting := [e for e in field_ if self._needs(e, target)]:
                if not (yield from self.round(waiting)):
                    self._late(waiting, target)
                    return
            self.halve([e for e in field_ if e.live], last=target == rounds[-1])

    def _needs(self, entry: Entry, blocks: int) -> bool:
        """Return whether a plan runs again before it has so many blocks; its first one may eliminate it."""
        # One block decides against a plan where it is so far behind that no noise of this session explains it: what a
        # second block would cost is worth more to the others. Nothing is decided for a plan by one block.
        limit = max(PLAINLY_LEAST, PLAINLY * self.scale)
        if entry.live and entry.ratios and entry.middle > limit:
            entry.eliminate("eliminated", Reason(code="slower-at-once", share_ratio=math.expm1(entry.middle)))
        return entry.live and len(entry.ratios) < blocks

    def round(self, entries: Sequence[Entry]) -> Steps[bool]:
        """Yield one more block for each of the entries, the best first. False when the time is up."""
        # Best first, as the time may end within the round. In as few blocks as hold them, since each has references of
        # its own, and of nearly one size: seven plans are four and three, not five and two.
        order = sorted(entries, key=self.rank)
        size = math.ceil(len(order) / math.ceil(len(order) / FIELD))
        for i in range(0, len(order), size):
            if not (yield from self.block(order[i : i + size])):
                return False
        return True

    def block(self, entries: Sequence[Entry]) -> Steps[bool]:
        """Yield one block of the baseline (and current) and up to five plans. False when the time is up."""
        while entries:
            arms = [BASE, *([CURRENT] if self.with_current else []), *(e.arm for e in entries)]
            # Counted over all blocks of the race, whoever is in them: what the control watches is the machine.
            if len(self.blocks) % CONTROL_EVERY == CONTROL_EVERY - 1:
                arms.append(IDENTICAL)
            if self.out_of_time(len(arms)):
                return False
            more = self.only_timed(ROUNDS[0])
            arms += [] if self.out_of_time(len(arms) + len(more)) else more
            # A block in which the baseline failed tells nothing of anybody; one in which a plan failed still tells of
            # the others.
            block = yield NextBlock(arms=tuple(arms), index=len(self.blocks), phase="race", needed=(BASE,))
            if block is not None:
                return True
            # It took time to make a plan's model, or that failed: what is left decides anew.
            entries = [e for e in entries if e.live]
        return True

    @property
    def standing(self) -> ScheduleProgress:
        """How far the race is."""
        live = tuple(entry.arm for entry in self.live())
        return ScheduleProgress(n_blocks=len(self.blocks), most_blocks=None, live=(BASE, *live))

    def note(self, block: Block, took_ns: int) -> None:
        """Take note of what a block took, of what failed in it and, in the race, of its ratios."""
        self.took_ns = took_ns
        if block.phase == "confirm":
            return  # no plan is ranked on what confirms one
        if block.phase == "race":
            block = without_latencies(block)
            self.blocks.append(block)
        self.see(block)
        if block.phase == "race":
            self.rate(block)

    def halve(self, entries: Sequence[Entry], *, last: bool) -> None:
        """Keep the better half and what is within the noise of the best: two unlucky blocks must not lose a winner.

        Of the better half too goes what is behind the best and no better than the default. The evidence eliminates what
        cannot win, and what a guard would refuse goes.
        """
        ranked = sorted((e for e in entries if not self.refuse(e)), key=lambda e: e.middle)
        # Half of them, rounded up: of three two stay, and the last one is never lost.
        keep = max(1, -(-len(ranked) // 2))
        for place, entry in enumerate(ranked):
            self._eliminate_on_evidence(entry)
            # Example: at a scale of 1.5 % and two blocks, plans within 2 x 0.015 x sqrt(2 / 2) = 3 % stay
            # together.
            # The difference of two means of n blocks has a standard error of scale * sqrt(2 / n).
            behind = entry.middle - ranked[0].middle > NOISE * self.scale * math.sqrt(2 / len(entry.ratios))
            # Half of the least gain that matters: what may still reach it together with others stays.
            idle = entry.middle > -0.5 * math.log1p(self.worth)
            if entry.live and behind and idle:
                entry.eliminate("eliminated", Reason(code="no-better", n=len(entry.ratios)))
            elif entry.live and place >= keep and behind and not last:
                entry.eliminate("eliminated", Reason(code="slower-half", n=len(entry.ratios)))
            elif entry.live and len(entry.ratios) >= ROUNDS[1] and entry.middle > np.log1p(self.worth):
                entry.eliminate("eliminated", Reason(code="slower", n=len(entry.ratios)))

    def refuse(self, entry: Entry) -> bool:
        """Eliminate a plan that exceeds the limit of memory, or worsens another metric more than its guard allows.

        Returns:
            Whether it does.
        """
        if peak := over(entry.trials, self.limit_bytes):
            if entry.live:
                entry.worsens = peak
                entry.eliminate("eliminated", Reason(code="over-memory", text=peak))
            return True
        reference = CURRENT if self.with_current else BASE
        allowed = (*self.allowed, *waived(entry.plan, self.default))
        why = broken(self.seen, self.objective, allowed, arm=entry.arm, base=reference)
        if why and entry.live:
            entry.worsens = why
            entry.eliminate("eliminated", Reason(code="worsens", text=why))
        return bool(why)

    def _eliminate_on_evidence(self, entry: Entry) -> None:
        gain = float(np.log1p(-self.worth))
        # One-sided, and against the gain that matters instead of 0: a plan that gains less is not worth more time,
        # whether or not it is slower. This evidence may be read after any block, so that looking costs nothing.
        if evidence.log_evidence_above(entry.ratios, gain, self.scale) >= EVIDENCE_LIMIT:
            entry.eliminate("eliminated", Reason(code="below-worth", share_ratio=self.worth))

    def see(self, block: Block) -> None:
        """Take note of what failed."""
        base = next(t.outcome for t in block.trials if t.arm == BASE)
        if isinstance(base, Failed):
            # Without its baseline a block is dropped, and all others go on: a neighbour that took the memory for a
            # moment is no reason to end a session. That it happens again and again is one.
            if sum(bool(b.dropped) for b in self.blocks) > FAILURES_ELIMINATE:
                raise MeasurementError(f"the default cannot be measured: {base.what}", code=base.reason)
            return
        for trial in block.trials:
            entry = self.entries.get(trial.arm)
            if entry is None:
                continue
            if isinstance(trial.outcome, Failed):
                entry.failures.append(trial.outcome)
                if entry.gives_up and entry is not self.timed_only:
                    self._fail(entry, f"{trial.outcome.reason}: {trial.outcome.what}")
                continue
            entry.ran = True

    def rate(self, block: Block) -> None:
        """Read the log ratios off a block that counts."""
        for trial in block.trials:
            entry = self.entries.get(trial.arm)
            # A dropped block is dropped for all of its plans: a rule that left out one arm alone could follow its
            # figure.
            ratio = None if entry is None or block.dropped else log_ratio(block, trial.arm, self.statistic)
            if entry is not None and ratio is not None and isinstance(trial.outcome, Measured):
                entry.ratios.append(ratio)
                entry.trials.append(trial.outcome)

    def _fail(self, failed: Entry, why: str) -> None:
        """Eliminate a plan that fails, and with it every plan that is this one and something more."""
        failed.eliminate("failed", Reason(code="error", text=why))
        for entry in self.entries.values():
            # What already ran is proof of the contrary and stays: there one more part mended what this plan lacks.
            more = entry.plan.settings.items() >= failed.plan.settings.items() and all(
                spec in entry.plan.rewrites for spec in failed.plan.rewrites
            )
            if more and entry.live and not entry.ran:
                entry.eliminate("not-tried", Reason(code="part-of-a-failure", text=failed.plan.describe()))

    def _late(self, entries: Sequence[Entry], target: int) -> None:
        """The time ran out inside a round: who has fewer blocks than the round asks is not ranked on them."""
        for entry in entries:
            # Two blocks are what a plan is ranked on at all. With these it keeps its rank, though the round asked for
            # more.
            if entry.live and len(entry.ratios) < min(target, ROUNDS[0]):
                entry.eliminate("not-tried", ENDED)
