"""Ablates and confirms a winner; only a confirmed difference may be claimed as a speed-up."""

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
"""In a confirmation, every eighth block includes the A/A control, beginning with the first."""


def ablation_blocks(n_parts: int) -> int:
    """Return the number of blocks after which the gain of a part can be significant.

    The smallest p of n blocks is 2**-n, and Holm's limit is 0.05 / parts.
    """
    # Example: five parts need 2**-n <= 0.05 / 5, so n >= log2(100) = 6.6: seven blocks.
    return max(LEAST_PRUNE, math.ceil(math.log2(20 * max(1, n_parts))))


def ablate(race: Halving, winner: Entry, without: Sequence[Entry]) -> Steps[dict[str, np.ndarray]]:
    """Yield blocks that compare the winner with smaller plans, each of which lacks one part.

    Returns:
        log(smaller / winner) of each block, keyed by the smaller plan's arm; fewer blocks if time ran out.
    """
    first = len(race.blocks)
    for _ in range(ablation_blocks(len(without))):
        for i in range(0, len(without), 4):
            live = [e for e in without[i : i + 4] if e.live]
            # The winner is in each of these blocks: a part's ratio is to it, within the block.
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
    """Yield fresh blocks of baseline, winner and current plan, in a number that is fixed in advance.

    After a stop request, the confirmation ends with the ninth block, or with the current block if that is later. If
    blocks take longer than expected, it ends with the ninth block, which may exceed the time by ``beyond_ns``. The end
    cannot depend on the results: none are shown before the last block, and the duration of a block does not depend on
    which side is called B.

    Args:
        race: The race with the plans.
        winner: The plan to confirm.
        n_blocks: Number of blocks.
        blocks: List to which the blocks are appended.
        others: Further plans in the same blocks; a block counts even if these fail.
        beyond_ns: Maximum overrun in nanoseconds for the ninth block.
    """
    needed = [BASE, winner.arm, *([CURRENT] if race.with_current else [])]
    attempts = 0
    # The race's last block had other arms, so its duration does not predict the first block here.
    race.took_ns = 0
    while True:
        left = race.left
        # After a stop, or if blocks became slower: nine blocks are the fewest that allow a claim.
        hurried = left.stop or race.took_ns > left.ns
        wanted = min(n_blocks, LEAST_CONFIRM) if hurried else n_blocks
        # Up to three more for dropped blocks; a plan that fails more often is not shipped.
        if sum(not b.dropped for b in blocks) >= wanted or attempts >= wanted + 3:
            break
        if race.took_ns > left.ns + beyond_ns:
            break
        # In the first of every eight, so the shortest confirmation has two.
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


def confirm_alone(
    race: Halving, winner: Entry, first: int, trial_ns: float, blocks: list[Block]
) -> Steps[None]:
    """Yield blocks of the winner and its reference with one process at a time, as the winner will be used.

    Taking turns could hide a gain or loss of a process that runs alone (warm caches, higher clock rates). As many
    blocks run as fit in the time left, or none if fewer than ``LEAST_ALONE`` fit.

    Args:
        race: The race with the plan.
        winner: The confirmed plan.
        first: Index of the first block.
        trial_ns: Duration of a trial.
        blocks: List to which the blocks are appended.
    """
    # The reference is what the user would replace: the current plan if there is one.
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
    """Compare two arms by the exact Wilcoxon signed-rank test; return None without blocks.

    The interval is Hodges-Lehmann's. The verdict is "inconclusive" if there are fewer blocks than a confirmation needs,
    or no controls.
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
        smallest_effect_ratio=detect.reported_effect(smallest, interval),
        phase="confirm",
        verdict=intervals.verdict(interval, delta) if claims else "inconclusive",
    )
