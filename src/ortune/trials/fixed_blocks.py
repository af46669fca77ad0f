"""Blocks whose number is fixed before the first: as many as the time left holds."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from ortune.records import Block, Control
from ortune.search import controls
from ortune.search.blocks import BASE, IDENTICAL, log_ratios, measured, run_block
from ortune.search.controls import CALIBRATION_BLOCKS
from ortune.search.phases import FIXED_TIMES
from ortune.trials.baseline import Baseline
from ortune.trials.clock import Clock
from ortune.trials.replay import Replay
from ortune.trials.watcher import Watcher

LEAST_BLOCKS, MOST_BLOCKS = 9, 40
CONTROLS = 3  # trials of a block of the calibration: the base, its double, and the one with a wait


def holds(clock: Clock, trial_ns: float) -> bool:
    """Whether the time that is left holds the fewest blocks of one change, of trials that take so long."""
    return _least_trials(3) * trial_ns <= clock.left_s * 1e9


def _least_trials(n_arms: int) -> int:
    """Trials of a calibration and the fewest blocks after it, of so many arms."""
    return CALIBRATION_BLOCKS * CONTROLS + LEAST_BLOCKS * n_arms


def fit(baseline: Baseline, n_arms: int, left_ns: float) -> float:
    """Makes trials as short as it takes for a calibration and the fewest blocks after it; what these then take, ns.

    Args:
        baseline: Its trials are made shorter.
        n_arms: Of the blocks after the calibration.
        left_ns: Of the budget.
    """
    trials = _least_trials(n_arms)
    baseline.shorten(left_ns / (trials * FIXED_TIMES))
    return trials * baseline.trial_ns


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


def fixed_blocks(
    baseline: Baseline,
    arms: Sequence[str],
    watch: Watcher,
    *,
    rng: random.Random,
    first: int,
    clock: Clock,
    on_block: Callable[[Block], None],
) -> list[Block]:
    """Measures the arms beside each other; ends early where a stop is asked for.

    Args:
        baseline: Its executor knows the arms; its trials are made shorter where time is short.
        arms: The base among them.
        watch: Is told how many blocks there will be, and how far they are.
        rng: Draws the orders.
        first: The number of the first block.
        clock: Of the command.
        on_block: Is told of each block.
    """
    left_ns = clock.left_s * 1e9
    baseline.shorten(left_ns / (LEAST_BLOCKS * len(arms) * FIXED_TIMES))
    fits = int(left_ns / (len(arms) * baseline.trial_ns * FIXED_TIMES))
    n = max(LEAST_BLOCKS, min(MOST_BLOCKS, fits))
    watch.say(f"{n} blocks of {len(arms)} trials of {baseline.trial_ns / 1e9:.2f} s")
    blocks: list[Block] = []
    for number in range(n):
        if watch.stop():
            break
        block = run_block(baseline.executor, list(arms), rng, first + number, "confirm", needed=[BASE])
        assert block is not None
        blocks.append(block)
        on_block(block)
        watch.progress(f"block {number + 1} of {n}", clock.spent_s, clock.budget_s)
    return blocks


def controlled(
    baseline: Baseline,
    arms: Sequence[str],
    watch: Watcher,
    replay: Replay,
    *,
    fixed: str | None,
    rng: random.Random,
    clock: Clock,
) -> tuple[str, list[Block], list[Control]]:
    """A calibration, a fixed number of blocks after it, and the A/A check over both.

    Args:
        baseline: Its executor knows the arms, and the controls.
        arms: What stands beside the base and its double.
        watch: Is told how far it is.
        replay: Journals the blocks.
        fixed: The estimand, where the objective says it.
        rng: Draws the orders.
        clock: Of the command.

    Returns:
        The estimand, the blocks after the calibration, and the controls.

    Raises:
        MeasurementError, Interrupted: As ``controls.calibrate``; MeasurementError too where the last check fails.
    """

    def calibrated(block: Block) -> None:
        replay.block(block)
        watch.line(f"calibrating, block {block.index + 1} of nine")

    replay.whole()
    judgement, calibration = controls.calibrate(
        baseline.executor, [BASE], fixed, rng=rng, stop=watch.stop, on_block=calibrated
    )
    baseline.retime(judgement, measured(calibration, BASE))
    blocks = fixed_blocks(
        baseline,
        [BASE, *arms, IDENTICAL],
        watch,
        rng=rng,
        first=len(calibration),
        clock=clock,
        on_block=replay.block,
    )
    late = controls.late_controls(log_ratios([*calibration, *blocks], IDENTICAL, judgement.estimand))
    return judgement.estimand, blocks, [*judgement.controls, *late]
