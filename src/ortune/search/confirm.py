"""Pruning and confirmation: only what is said here may be called a speed-up."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from ortune.records import Block, Comparison
from ortune.search.blocks import BASE, IDENTICAL, failures, log_ratios, run_block
from ortune.search.budget import LEAST_ALONE, LEAST_CONFIRM, MOST_ALONE
from ortune.search.figures import WORDS
from ortune.search.race import CURRENT, FAILURES_RETIRE, Entry, Race
from ortune.stats import detect, intervals, pairs

LEAST_PRUNE = 6
CONTROL_EVERY = 8
"""Fresh blocks of which one holds the identical plan too."""


def ablation_blocks(n_parts: int) -> int:
    """Blocks after which a part can be shown to pay: the smallest p is 2**-n, and Holm's limit 0.05 / parts."""
    return max(LEAST_PRUNE, math.ceil(math.log2(20 * max(1, n_parts))))


def ablate(race: Race, winner: Entry, without: Sequence[Entry]) -> dict[str, np.ndarray]:
    """The winner beside each of its parts left out, in blocks of their own.

    Returns:
        Arm of the smaller plan -> log(smaller / winner) a block; fewer blocks when the time ran out.
    """
    first = len(race.blocks)
    for _ in range(ablation_blocks(len(without))):
        for i in range(0, len(without), 4):
            live = [e for e in without[i : i + 4] if e.live]
            if live and winner.live and not race.block([winner, *live]):
                break
    mine = race.blocks[first:]
    return {e.arm: log_ratios(mine, e.arm, race.estimand, base=winner.arm) for e in without}


def confirm(
    race: Race,
    winner: Entry,
    n_blocks: int,
    on_block: Callable[[Block, int], None],
    *,
    end_ns: float = math.inf,
    last_ns: float = math.inf,
) -> list[Block]:
    """Fresh blocks of baseline, winner (and current), their number fixed beforehand.

    Where a stop is asked for, it ends with the ninth block, or with the one that runs; where blocks take longer than
    was thought, with the ninth after ``end_ns``, and at ``last_ns`` in any case. That choice cannot follow the figures:
    nobody is shown any before the last block, and how long a block takes does not tell which side of it is called B.

    Args:
        race: Whose means run it.
        winner: What is to be confirmed.
        n_blocks: How many.
        on_block: Is told of each block, and of their number.
        end_ns: By the race's clock, when it should be over.
        last_ns: When it must be.
    """
    arms = [BASE, winner.arm, *([CURRENT] if race.with_current else [])]
    blocks: list[Block] = []
    attempts = 0
    failed = 0
    took_ns = 0
    while True:
        began = race.clock()
        hurried = race.stop() or began + took_ns > end_ns
        wanted = min(n_blocks, LEAST_CONFIRM) if hurried else n_blocks
        if sum(not b.dropped for b in blocks) >= wanted or attempts >= wanted + 3:
            break
        if began + took_ns > last_ns:
            break
        attempts += 1
        with_control = [*arms, IDENTICAL] if attempts % CONTROL_EVERY == 1 else arms
        block = run_block(race.execute, with_control, race.rng, len(race.blocks) + len(blocks), "confirm")
        if block is not None:
            blocks.append(block)
            on_block(block, n_blocks)
        took_ns = race.clock() - began
        failed = len(failures(blocks, winner.arm))
        if failed >= FAILURES_RETIRE:
            last = failures(blocks, winner.arm)[-1]
            winner.retire(
                "failed", f"failed {failed} times while it was confirmed: {last.reason}: {last.what}"
            )
            break
    return blocks


def alone(
    race: Race, winner: Entry, first: int, left_ns: float, trial_ns: float, on_block: Callable[[Block], None]
) -> list[Block]:
    """The winner and what it is held against once more, no two processes alive at once, as it will be shipped.

    Taking turns could hide what a process alone gains or loses: warm caches, higher clocks. As many blocks as the
    time left holds, none below ``LEAST_ALONE``.
    """
    arms = [CURRENT if race.with_current else BASE, winner.arm]
    fits = int(left_ns / (len(arms) * trial_ns))
    blocks: list[Block] = []
    end_ns = race.clock() + left_ns
    for i in range(min(MOST_ALONE, fits) if fits >= LEAST_ALONE and not race.stop() else 0):
        if race.clock() + len(arms) * trial_ns > end_ns:
            break
        block = run_block(race.execute, arms, race.rng, first + i, "confirm", alone=True)
        assert block is not None
        blocks.append(block)
        on_block(block)
    return blocks


def compare(
    blocks: Sequence[Block],
    arm: str,
    estimand: str,
    *,
    base: str = BASE,
    level: float = 0.95,
    delta: float = 0.01,
) -> Comparison | None:
    """Exact Wilcoxon signed-rank over blocks, Hodges-Lehmann and its interval; None without blocks."""
    d = log_ratios(blocks, arm, estimand, base=base)
    if len(d) == 0:
        return None
    interval = pairs.wilcoxon_interval(d, level)
    scale = intervals.robust_scale(d)
    smallest = detect.smallest_effect(scale, len(d), 1 - level, method="wilcoxon")
    return Comparison(
        estimand=WORDS[estimand],
        ratio=interval.ratio,
        ratio_low=interval.ratio_low,
        ratio_high=interval.ratio_high if np.isfinite(interval.ratio_high) else None,
        level=interval.level,
        method="wilcoxon",
        n_blocks=len(d),
        n_dropped=sum(bool(b.dropped) for b in blocks),
        p=pairs.wilcoxon(d),
        smallest_effect_ratio=detect.honest(smallest, interval),
        phase="confirm",
        verdict=intervals.verdict(interval, delta) if len(d) >= LEAST_CONFIRM else "inconclusive",
    )
