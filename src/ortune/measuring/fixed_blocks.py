"""What a session of a fixed number of blocks holds within its budget, and its run."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ortune.measuring.baseline import Baseline
from ortune.measuring.clock import Clock
from ortune.measuring.driver import drive
from ortune.measuring.replay import Replay
from ortune.measuring.watcher import Watcher
from ortune.records import Block
from ortune.search.blocks import BASE, IDENTICAL, measured
from ortune.search.controls import Judgement
from ortune.search.fixed import LEAST_BLOCKS, LEAST_EXPLORED, Fixed, blocks_within, least_trials
from ortune.search.phases import FIXED_TIMES


@dataclass(frozen=True, kw_only=True)
class Held:
    """What a budget holds.

    Attributes:
        arms: The changes that are measured.
        needed_s: Seconds of budget that all changes take, with controls.
        controlled: Whether they are measured with controls; without, what is seen is no claim.
    """

    arms: list[str]
    needed_s: float
    controlled: bool

    def all_of(self, arms: Sequence[str]) -> bool:
        """Returns whether all of these are measured as they should be."""
        return self.controlled and len(self.arms) == len(arms)


def holds(clock: Clock, trial_ns: float) -> bool:
    """Returns whether the time left holds the fewest blocks of one change, of trials that take so long."""
    return least_trials(1, controlled=False) * trial_ns <= clock.left_s * 1e9


def fit(baseline: Baseline, n_changes: int, left_ns: float, *, controlled: bool = True) -> float:
    """Makes trials as short as it takes for the fewest blocks of so many changes; what these then take, ns.

    Args:
        baseline: Its trials are made shorter.
        n_changes: That stand beside the base.
        left_ns: Of the budget.
        controlled: Whether there is a calibration before them.
    """
    trials = least_trials(n_changes, controlled=controlled)
    # Example: two changes, 120 s. 18 + 9 x 4 = 54 trials, so 120 / (54 x 1.3) = 1.7 s each.
    baseline.pilot.shorten(left_ns / (trials * FIXED_TIMES))
    return trials * baseline.pilot.trial_ns


def held(
    baseline: Baseline,
    arms: Sequence[str],
    clock: Clock,
    drop: Callable[[list[str]], object] = lambda arms: arms.pop(),
) -> Held:
    """What the time left holds: of too many changes some, and where not even one fits with controls, some without.

    Args:
        baseline: Its trials are made shorter first.
        arms: What is to be measured.
        clock: Of the command.
        drop: Leaves one out of a list of too many: the last.
    """
    spent_s, left_ns = clock.spent_s, clock.left_s * 1e9
    whole_ns = fit(baseline, len(arms), left_ns)
    needed_s = spent_s + whole_ns / 1e9
    # Fewer changes with controls come before all of them without: without controls nothing is a claim.
    for controlled in (True, False):
        kept = list(arms)
        while kept:
            if fit(baseline, len(kept), left_ns, controlled=controlled) <= left_ns:
                return Held(arms=kept, needed_s=needed_s, controlled=controlled)
            drop(kept)
    return Held(arms=[], needed_s=needed_s, controlled=False)


def enough_s(schedule: Fixed, began_s: float) -> float:
    """The budget that holds what this one did not, because trials took longer than the pilot let expect.

    Args:
        schedule: Which ended without a block after its calibration, or without controls.
        began_s: Seconds of the budget that were spent before it.
    """
    n_changes = sum(arm not in (BASE, IDENTICAL) for arm in schedule.arms)
    return began_s + least_trials(n_changes) * float(np.median(schedule.costs_ns)) / 1e9


def race(
    baseline: Baseline,
    within: Held,
    watch: Watcher,
    replay: Replay,
    *,
    fixed: str | None,
    rng: random.Random,
    clock: Clock,
) -> Fixed:
    """A calibration, a fixed number of blocks after it, and the A/A check over both; or blocks without controls.

    Args:
        baseline: Its executor knows the arms, and the controls; its trials are made shorter where time is short.
        within: What stands beside the base, and its double where there are controls.
        watch: Is told how many blocks there will be, and how far it is.
        replay: Journals the blocks.
        fixed: The statistic, where the objective says it.
        rng: Draws the orders.
        clock: Of the command.

    Raises:
        MeasurementError, Interrupted: As ``Schedule.calibrate``; MeasurementError too where the last check fails.
    """
    schedule = Fixed(within.arms, fixed, controlled=within.controlled)
    least = LEAST_BLOCKS if within.controlled else LEAST_EXPLORED

    def calibrated(judgement: Judgement) -> None:
        n_arms, left_ns = len(schedule.arms), clock.left_s * 1e9
        baseline.pilot.retime(judgement, measured(schedule.calibration, BASE))
        baseline.pilot.shorten(left_ns / (least * n_arms * FIXED_TIMES))
        trial_ns = baseline.pilot.trial_ns
        schedule.n_blocks = blocks_within(left_ns, n_arms, trial_ns, least)
        watch.say(f"{schedule.n_blocks} blocks of {n_arms} trials of {trial_ns / 1e9:.2f} s")

    def on_block(block: Block) -> None:
        replay.block(block)
        standing = schedule.standing
        if block.phase == "calibration":
            watch.line(f"calibrating, block {block.index + 1} of nine")
        else:
            sentence = f"block {standing.n_blocks} of {standing.most_blocks}"
            watch.progress(sentence, clock.spent_s, clock.budget_s)

    replay.whole()
    drive(
        schedule,
        baseline.executor,
        rng=rng,
        clock=lambda: 1e9 * clock.spent_s,
        end_ns=1e9 * clock.budget_s,
        stop=watch.stop,
        on_block=on_block,
        calibrated=calibrated,
    )
    return schedule
