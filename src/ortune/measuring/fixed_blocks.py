"""Selects the changes that fit in a budget, and measures them in a fixed number of blocks."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ortune.measuring.budget import Budget
from ortune.measuring.driver import drive
from ortune.measuring.measuring import Measuring
from ortune.measuring.replay import Replay
from ortune.measuring.watcher import Watcher
from ortune.records import Block, messages
from ortune.search.blocks import BASE, IDENTICAL, measured
from ortune.search.controls import Judgement
from ortune.search.fixed import LEAST_BLOCKS, LEAST_EXPLORED, Fixed, blocks_within, least_trials
from ortune.search.phases import FIXED_TIMES


@dataclass(frozen=True, kw_only=True)
class AffordableArms:
    """The changes to a base that fit in a budget.

    Attributes:
        arms: Names of the changes that fit.
        needed_s: Budget in seconds that all changes with controls would need.
        controlled: Whether controls are measured too; without them, nothing can be confirmed.
    """

    arms: list[str]
    needed_s: float
    controlled: bool

    def all_of(self, arms: Sequence[str]) -> bool:
        """Return whether all the given changes are measured, with controls."""
        return self.controlled and len(self.arms) == len(arms)


def fits(budget: Budget, trial_ns: float) -> bool:
    """Return whether the minimum blocks of one change fit in the time left."""
    return budget.holds(least_trials(1, controlled=False), trial_ns)


def shorten_trials(baseline: Measuring, n_changes: int, budget: Budget, *, controlled: bool = True) -> float:
    """Shorten trials until the minimum blocks of ``n_changes`` changes fit; return the number of trials."""
    trials = least_trials(n_changes, controlled=controlled)
    # Example: two changes, 120 s. 18 + 9 x 4 = 54 trials, so 120 / (54 x 1.3) = 1.7 s each.
    baseline.shorten(budget.left_ns / (trials * FIXED_TIMES))
    return trials


def affordable_arms(
    baseline: Measuring,
    arms: Sequence[str],
    budget: Budget,
    drop: Callable[[list[str]], object] = lambda arms: arms.pop(),
) -> AffordableArms:
    """Return the changes that fit in the time left: fewer if necessary, and without controls if none fits otherwise.

    Args:
        baseline: The base, whose trials are shortened first.
        arms: Names of the changes to measure.
        budget: The budget of the command.
        drop: Removes an arm from a list that is too long; by default the last arm.
    """
    trials = shorten_trials(baseline, len(arms), budget, controlled=True)
    needed_s = budget.needed_s(trials, baseline.pilot.trial_ns)
    # Fewer changes with controls are preferred to all without, since controls are needed to confirm anything.
    for controlled in (True, False):
        kept = list(arms)
        while kept:
            trials = shorten_trials(baseline, len(kept), budget, controlled=controlled)
            if budget.holds(trials, baseline.pilot.trial_ns):
                return AffordableArms(arms=kept, needed_s=needed_s, controlled=controlled)
            drop(kept)
    return AffordableArms(arms=[], needed_s=needed_s, controlled=False)


def needed_s(schedule: Fixed, budget: Budget, began_s: float) -> float:
    """Return a sufficient budget in seconds, after blocks did not fit because trials were longer than in the pilot.

    Args:
        schedule: A schedule that ended without a block after its calibration, or without controls.
        budget: The budget of the command.
        began_s: Seconds spent before the schedule began.
    """
    n_changes = sum(arm not in (BASE, IDENTICAL) for arm in schedule.arms)
    return budget.needed_s(least_trials(n_changes), float(np.median(schedule.costs_ns)), before_s=began_s)


def race(
    baseline: Measuring,
    within: AffordableArms,
    watch: Watcher,
    replay: Replay,
    *,
    fixed: str | None,
    rng: random.Random,
    budget: Budget,
) -> Fixed:
    """Run a calibration, blocks and a final A/A check, or if there are no controls, only blocks; return the schedule.

    Args:
        baseline: The base, whose executor has the arms and the controls; trials are shortened if necessary.
        within: The changes to compare with the base, and whether there are controls.
        watch: Progress and cancellation callbacks.
        replay: Journals the blocks.
        fixed: The statistic, if the objective determines it.
        rng: Draws the order of the arms.
        budget: The budget of the command.

    Raises:
        MeasurementError, Interrupted: Raised by ``Schedule.calibrate`` and by the final A/A check.
    """
    schedule = Fixed(within.arms, fixed, controlled=within.controlled)
    least = LEAST_BLOCKS if within.controlled else LEAST_EXPLORED

    def calibrated(judgement: Judgement) -> None:
        n_arms = len(schedule.arms)
        baseline.retime(judgement, measured(schedule.calibration, BASE))
        baseline.shorten(budget.left_ns / (least * n_arms * FIXED_TIMES))
        trial_ns = baseline.pilot.trial_ns
        schedule.n_blocks = blocks_within(budget.trials(trial_ns), n_arms, least)
        watch.tell(messages.PlannedBlocks(n_blocks=schedule.n_blocks, n_arms=n_arms, trial_s=trial_ns / 1e9))

    def on_block(block: Block) -> None:
        replay.block(block)
        standing = schedule.standing
        what = (
            messages.CalibrationBlock(number=block.index + 1)
            if block.phase == "calibration"
            else messages.ComparisonBlock(number=standing.n_blocks, most=standing.most_blocks)
        )
        watch.progress(what, budget.spent_s, budget.total_s)

    replay.mark_no_block()
    drive(
        schedule,
        baseline.executor,
        rng=rng,
        budget=budget,
        stop=watch.stop,
        on_block=on_block,
        calibrated=calibrated,
    )
    return schedule
