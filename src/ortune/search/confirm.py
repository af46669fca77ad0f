"""Pruning and confirmation: only what is said here may be called a speed-up."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ortune.records import Block, Comparison
from ortune.search.blocks import BASE, IDENTICAL, failures, log_ratios
from ortune.search.figures import WORDS
from ortune.search.halving import CURRENT, FAILURES_ELIMINATE, Entry, Halving
from ortune.search.reasons import Reason
from ortune.search.schedule import NextBlock, Steps
from ortune.search.trial_counts import LEAST_ALONE, LEAST_CONFIRM, MOST_ALONE
from ortune.stats import detect, intervals, pairs

LEAST_PRUNE = 6
CONTROL_EVERY = 8
"""Fresh blocks of which one holds the identical plan too."""


def ablation_blocks(n_parts: int) -> int:
    """Return blocks after which a part can be shown to pay: the smallest p is 2**-n, and Holm's limit 0.05 / parts."""
    # Example: five parts need 2**-n <= 0.05 / 5, so n >= log2(100) = 6.6: seven blocks.
    return max(LEAST_PRUNE, math.ceil(math.log2(20 * max(1, n_parts))))


def ablate(race: Halving, winner: Entry, without: Sequence[Entry]) -> Steps[dict[str, np.ndarray]]:
    """Yield blocks that compare the winner with itself without each of its parts.

    Returns:
        Arm of the smaller plan -> log(smaller / winner) a block; fewer blocks when the time ran out.
    """
    first = len(race.blocks)
    for _ in range(ablation_blocks(len(without))):
        for i in range(0, len(without), 4):
            live = [e for e in without[i : i + 4] if e.live]
            # The winner is in each of these blocks: a part's ratio is to it, in the same block.
            if live and winner.live and not (yield from race.block([winner, *live])):
                break
    mine = race.blocks[first:]
    return {e.arm: log_ratios(mine, e.arm, race.statistic, base=winner.arm) for e in without}


def confirm(
    race: Halving,
    winner: Entry,
    n_blocks: int,
    blocks: list[Block],
    *,
    others: Sequence[Entry] = (),
    beyond_ns: float = 0.0,
) -> Steps[None]:
    """Yield fresh blocks of baseline, winner (and current), their number fixed beforehand.

    If a stop is requested, it ends with the ninth block, or with the one that runs; where blocks take longer than
    was thought, with the ninth that ends in time, and ``beyond_ns`` after that in any case. That choice cannot follow
    the figures: nobody is shown any before the last block, and how long a block takes does not tell which side of it is
    called B.

    Args:
        race: Whose plan is confirmed.
        winner: What is to be confirmed.
        n_blocks: How many.
        blocks: Gets them.
        others: Further plans of the same blocks, which count without them.
        beyond_ns: By how much the time may be overrun for the ninth block.
    """
    needed = [BASE, winner.arm, *([CURRENT] if race.with_current else [])]
    attempts = 0
    # The race's last block had other arms, so its time says nothing about the first block here.
    race.took_ns = 0
    while True:
        left = race.left
        # A stop, or blocks that became dearer: nine blocks are the fewest that may be called a claim.
        hurried = left.stop or race.took_ns > left.ns
        wanted = min(n_blocks, LEAST_CONFIRM) if hurried else n_blocks
        # Three more than wanted, for blocks that are dropped; what fails more often than that is no plan to ship.
        if sum(not b.dropped for b in blocks) >= wanted or attempts >= wanted + 3:
            break
        if race.took_ns > left.ns + beyond_ns:
            break
        # In the first of every eight, so that the fewest blocks of a confirmation hold two.
        control = [IDENTICAL] if (attempts + 1) % CONTROL_EVERY == 1 else []
        arms = (*needed, *(entry.arm for entry in others), *control)
        index = len(race.blocks) + len(blocks)
        block = yield NextBlock(
            arms=arms, index=index, phase="confirm", needed=(*needed, *control), whole=True
        )
        if block is None:
            continue
        attempts += 1
        blocks.append(block)
        failed = failures(blocks, winner.arm)
        if len(failed) >= FAILURES_ELIMINATE:
            error = f"{failed[-1].reason}: {failed[-1].what}"
            winner.eliminate("failed", Reason(code="failed-while-confirmed", n=len(failed), text=error))
            break


def alone(race: Halving, winner: Entry, first: int, trial_ns: float, blocks: list[Block]) -> Steps[None]:
    """Yield blocks of the winner and its baseline, one process at a time, as the winner will be shipped.

    Taking turns could hide what a process alone gains or loses: warm caches, higher clocks. As many blocks as the
    time left holds, none below ``LEAST_ALONE``.

    Args:
        race: Whose plan it is.
        winner: What was confirmed.
        first: Number of the first block.
        trial_ns: What a trial takes.
        blocks: Gets them.
    """
    # Against what the user would leave: today's plan where there is one.
    arms = (CURRENT if race.with_current else BASE, winner.arm)
    takes_ns = len(arms) * trial_ns
    fits = int(race.left.ns / takes_ns)
    if fits < LEAST_ALONE or race.left.stop:
        return
    while len(blocks) < min(MOST_ALONE, fits) and takes_ns <= race.left.ns:
        index = first + len(blocks)
        block = yield NextBlock(arms=arms, index=index, phase="confirm", alone=True, whole=True)
        if block is not None:
            blocks.append(block)


def compare(
    blocks: Sequence[Block],
    arm: str,
    statistic: str,
    *,
    base: str = BASE,
    level: float = 0.95,
    delta: float = 0.01,
    controlled: bool = True,
) -> Comparison | None:
    """Return exact Wilcoxon signed-rank over blocks, Hodges-Lehmann and its interval; None without blocks.

    Fewer blocks than a confirmation has, and blocks of which no controls are known, show a difference and claim none.
    """
    d = log_ratios(blocks, arm, statistic, base=base)
    if len(d) == 0:
        return None
    interval = pairs.wilcoxon_interval(d, level)
    scale = intervals.robust_scale(d)
    smallest = detect.smallest_effect(scale, len(d), 1 - level, method="wilcoxon")
    claims = controlled and len(d) >= LEAST_CONFIRM
    return Comparison(
        statistic=WORDS[statistic],
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
        verdict=intervals.verdict(interval, delta) if claims else "inconclusive",
    )
