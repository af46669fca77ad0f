"""Pruning and confirmation: only what is said here may be called a speed-up."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ortune.records import Block, Comparison
from ortune.search.blocks import BASE, failures, log_ratios, run_block
from ortune.search.budget import LEAST_CONFIRM
from ortune.search.figures import WORDS
from ortune.search.race import CURRENT, FAILURES_RETIRE, Entry, Race
from ortune.stats import detect, intervals, pairs

PRUNE_BLOCKS = 6


def prune(race: Race, winner: Entry, without: Sequence[Entry]) -> dict[str, np.ndarray]:
    """The winner beside each of its parts left out, in blocks of their own.

    Returns:
        Arm of the smaller plan -> log(smaller / winner) a block; fewer blocks when the time ran out.
    """
    first = len(race.blocks)
    for _ in range(PRUNE_BLOCKS):
        for i in range(0, len(without), 4):
            live = [e for e in without[i : i + 4] if e.live]
            if live and winner.live and not race.block([winner, *live]):
                break
    mine = race.blocks[first:]
    return {e.arm: log_ratios(mine, e.arm, race.estimand, base=winner.arm) for e in without}


def confirm(race: Race, winner: Entry, n_blocks: int, on_block: Callable[[Block, int], None]) -> list[Block]:
    """Fresh blocks of baseline, winner (and current), their number fixed beforehand. Stops early only by force."""
    arms = [BASE, winner.arm, *([CURRENT] if race.with_current else [])]
    blocks: list[Block] = []
    attempts = 0
    failed = 0
    while sum(not b.dropped for b in blocks) < n_blocks and attempts < n_blocks + 3:
        attempts += 1
        block = run_block(
            race.execute, arms, race.rng, len(race.blocks) + len(blocks), "confirm", lambda: False
        )
        if block is not None:
            blocks.append(block)
            on_block(block, n_blocks)
        failed = len(failures(blocks, winner.arm))
        if failed >= FAILURES_RETIRE:
            last = failures(blocks, winner.arm)[-1]
            winner.retire(
                "failed", f"failed {failed} times while it was confirmed: {last.reason}: {last.what}"
            )
            break
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
