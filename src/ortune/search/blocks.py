"""Blocks: one trial of each arm, alive together and taking turns; and the log ratios that are read off them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from ortune.records import Block, Failed, Measured
from ortune.search.figures import compared

BASE, NEW, IDENTICAL, SPIKE = "base", "new", "identical", "spike"
LETTERS = {BASE: "A", NEW: "B"} | {f"{NEW}-{letter.lower()}": letter for letter in "CDEFGH"}
"""Names of the sides of a comparison, by arm: the base, and those compared with it."""
TRIAL_FAILED = "a trial in it failed"
CONTROLS_FAILED = "its calibration failed"
AWAKE_SHARE = 0.2
"""Share of CPU time in the wall time of waiting trials from which on an alert is raised; thread clocks are coarse."""


def measured(blocks: Sequence[Block], arm: str) -> list[Measured]:
    """Return an arm's completed trials in the blocks that count, in order."""
    return [
        t.outcome
        for b in blocks
        if not b.dropped
        for t in b.trials
        if t.arm == arm and isinstance(t.outcome, Measured)
    ]


def failures(blocks: Sequence[Block], arm: str) -> list[Failed]:
    """Return an arm's failed trials, dropped blocks included."""
    return [t.outcome for b in blocks for t in b.trials if t.arm == arm and isinstance(t.outcome, Failed)]


def log_ratios(
    blocks: Sequence[Block], arm: str, statistic: str, *, base: str = BASE, case: str | None = None
) -> np.ndarray:
    """log(arm / base) of every block that counts and holds both, in order; shape (n,)."""
    ratios = (log_ratio(block, arm, statistic, base=base, case=case) for block in blocks if not block.dropped)
    return np.asarray([ratio for ratio in ratios if ratio is not None], dtype=float)


def log_ratio(
    block: Block, arm: str, statistic: str, *, base: str = BASE, case: str | None = None
) -> float | None:
    """log(arm / base) of one block; None if it does not hold both, or the figure was not measured."""
    both = pair(block, arm, base)
    return compared(*both, statistic, case) if both else None


def pair(block: Block, arm: str, base: str = BASE) -> tuple[Measured, Measured] | None:
    """Return the arm's trial and the one of the base that it took turns with; None if one was not measured.

    Where memory holds neither in the other's group, the base's first trial of the block.
    """
    ours = next((t for t in block.trials if t.arm == arm and isinstance(t.outcome, Measured)), None)
    bases = [t for t in block.trials if t.arm == base and isinstance(t.outcome, Measured)]
    if ours is None or not bases:
        return None
    # Where memory does not hold a block at once, it runs as several groups, each with its own base. Only the
    # base of the same group shared the arm's rounds, and with them its noise.
    theirs = next((t for t in bases if t.group == ours.group), bases[0])
    assert isinstance(ours.outcome, Measured)
    assert isinstance(theirs.outcome, Measured)
    return ours.outcome, theirs.outcome


def pairs(blocks: Sequence[Block], arm: str, base: str = BASE) -> list[tuple[Measured, Measured]]:
    """Return every block's pair, of those that count and hold one."""
    trials = (pair(block, arm, base) for block in blocks if not block.dropped)
    return [both for both in trials if both is not None]


def awake(blocks: Sequence[Block]) -> list[str]:
    """Warns where trials did not sleep while others had their turn.

    Judged by the median over trials of CPU time / time in which others had their turn: one trial that was caught
    between two turns says nothing.
    """
    done = [t.outcome.done for b in blocks for t in b.trials if isinstance(t.outcome, Measured)]
    # Of a shorter wait, one tick of the kernel's CPU accounting (up to 10 ms) would be a share of AWAKE_SHARE or
    # more.
    shares = [d.waiting_cpu_ns / d.waiting_ns for d in done if d.waiting_ns > 50_000_000]
    share = float(np.median(shares)) if shares else 0.0
    if share < AWAKE_SHARE:
        return []
    return [f"waiting trials kept {100 * share:.0f} % of a CPU busy and disturbed the others"]


def recorded_waits(blocks: Sequence[Block], arm: str, statistic: str) -> np.ndarray:
    """Return an arm's recorded waits as log(with / without), one per block that counts; shape (n,).

    In the statistic's own terms: a wait that was itself interrupted must not count for a median.
    """
    waits = []
    for trial in measured(blocks, arm):
        cases = tuple(
            msgspec.structs.replace(
                c, latency_ns=tuple(t - w for t, w in zip(c.latency_ns, c.waits_ns, strict=True)), waits_ns=()
            )
            for c in trial.done.cases
        )
        # Callers wait side by side: the process as a whole loses each caller's share only.
        waited = sum(sum(c.waits_ns) for c in trial.done.cases) // trial.done.n_callers
        done = msgspec.structs.replace(trial.done, cases=cases, wall_ns=trial.done.wall_ns - waited)
        bare = msgspec.structs.replace(trial, done=done)
        ratio = compared(trial, bare, statistic)
        waits.append(np.nan if ratio is None else ratio)
    return np.asarray(waits, dtype=float)
