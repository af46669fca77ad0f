"""What a session of a fixed number of blocks holds within its budget, and its run."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import numpy as np

from ortune.experiment.baseline import Baseline
from ortune.experiment.clock import Clock
from ortune.experiment.driver import drive
from ortune.experiment.replay import Replay
from ortune.experiment.watcher import Watcher
from ortune.records import Block
from ortune.search.blocks import BASE, measured
from ortune.search.controls import Judgement
from ortune.search.fixed import LEAST_BLOCKS, Fixed, blocks_within, least_trials
from ortune.search.phases import FIXED_TIMES


def holds(clock: Clock, trial_ns: float) -> bool:
    """Whether the time that is left holds the fewest blocks of one change, of trials that take so long."""
    return least_trials(3) * trial_ns <= clock.left_s * 1e9


def fit(baseline: Baseline, n_arms: int, left_ns: float) -> float:
    """Makes trials as short as it takes for a calibration and the fewest blocks after it; what these then take, ns.

    Args:
        baseline: Its trials are made shorter.
        n_arms: Of the blocks after the calibration.
        left_ns: Of the budget.
    """
    trials = least_trials(n_arms)
    baseline.pilot.shorten(left_ns / (trials * FIXED_TIMES))
    return trials * baseline.pilot.trial_ns


def held(
    baseline: Baseline,
    arms: Sequence[str],
    clock: Clock,
    drop: Callable[[list[str]], object] = lambda arms: arms.pop(),
) -> tuple[list[str], float]:
    """Those that the time left holds beside the base and its double, and the seconds of budget that all of them take.

    Args:
        baseline: Its trials are made shorter first.
        arms: What is to be measured.
        clock: Of the command.
        drop: Leaves one out of a list of too many: the last.
    """
    kept, spent_s, left_ns = list(arms), clock.spent_s, clock.left_s * 1e9
    needed_ns = whole_ns = fit(baseline, len(kept) + 2, left_ns)
    while kept and needed_ns > left_ns:
        drop(kept)
        needed_ns = fit(baseline, len(kept) + 2, left_ns)
    return kept, spent_s + whole_ns / 1e9


def enough_s(schedule: Fixed, began_s: float) -> float:
    """The budget that holds what this one did not, because trials took longer than the pilot let expect.

    Args:
        schedule: Which ended without a block after its calibration.
        began_s: Seconds of the budget that were spent before it.
    """
    return began_s + least_trials(len(schedule.arms)) * float(np.median(schedule.costs_ns)) / 1e9


def controlled(
    baseline: Baseline,
    arms: Sequence[str],
    watch: Watcher,
    replay: Replay,
    *,
    fixed: str | None,
    rng: random.Random,
    clock: Clock,
) -> Fixed:
    """A calibration, a fixed number of blocks after it, and the A/A check over both.

    Args:
        baseline: Its executor knows the arms, and the controls; its trials are made shorter where time is short.
        arms: What stands beside the base and its double.
        watch: Is told how many blocks there will be, and how far it is.
        replay: Journals the blocks.
        fixed: The estimand, where the objective says it.
        rng: Draws the orders.
        clock: Of the command.

    Raises:
        MeasurementError, Interrupted: As ``Schedule.calibrate``; MeasurementError too where the last check fails.
    """
    schedule = Fixed(arms, fixed)

    def calibrated(judgement: Judgement) -> None:
        n_arms, left_ns = len(schedule.arms), clock.left_s * 1e9
        baseline.pilot.retime(judgement, measured(schedule.calibration, BASE))
        baseline.pilot.shorten(left_ns / (LEAST_BLOCKS * n_arms * FIXED_TIMES))
        trial_ns = baseline.pilot.trial_ns
        schedule.n_blocks = blocks_within(left_ns, n_arms, trial_ns)
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
