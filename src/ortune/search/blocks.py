"""Blocks, in which one trial of each arm takes turns with the others, and the log ratios computed from them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from ortune.records import Block, Failed, Measured, messages
from ortune.search.figures import trial_log_ratio

BASE, NEW, IDENTICAL, SPIKE = "base", "new", "identical", "spike"
LETTERS = {BASE: "A", NEW: "B"} | {f"{NEW}-{letter.lower()}": letter for letter in "CDEFGH"}
"""Letters of the sides of a comparison, by arm; A is the base."""
TRIAL_FAILED = "a trial in it failed"
CONTROLS_FAILED = "its calibration failed"
AWAKE_SHARE = 0.2
"""Minimum fraction of the waiting time of trials that is CPU time for a warning; thread clocks are coarse."""


def measured(blocks: Sequence[Block], arm: str) -> list[Measured]:
    """Return an arm's measured trials in blocks that were not dropped, in order."""
    return [
        t.outcome
        for b in blocks
        if not b.dropped
        for t in b.trials
        if t.arm == arm and isinstance(t.outcome, Measured)
    ]


def failures(blocks: Sequence[Block], arm: str) -> list[Failed]:
    """Return an arm's failed trials, including those in dropped blocks."""
    return [t.outcome for b in blocks for t in b.trials if t.arm == arm and isinstance(t.outcome, Failed)]


def log_ratios(
    blocks: Sequence[Block], arm: str, statistic: str, *, base: str = BASE, case: str | None = None
) -> np.ndarray:
    """Return log(arm / base) of every block with both arms that was not dropped, in order; shape (n,)."""
    ratios = (log_ratio(block, arm, statistic, base=base, case=case) for block in blocks if not block.dropped)
    return np.asarray([ratio for ratio in ratios if ratio is not None], dtype=float)


def log_ratio(
    block: Block, arm: str, statistic: str, *, base: str = BASE, case: str | None = None
) -> float | None:
    """Return log(arm / base) of one block; None if an arm is missing or the statistic was not measured."""
    both = pair(block, arm, base)
    return trial_log_ratio(*both, statistic, case) if both else None


def pair(block: Block, arm: str, base: str = BASE) -> tuple[Measured, Measured] | None:
    """Return the trials of an arm and of the base that took turns; None if either was not measured.

    If no base trial in the arm's group was measured, the block's first base trial is returned.
    """
    ours = next((t for t in block.trials if t.arm == arm and isinstance(t.outcome, Measured)), None)
    bases = [t for t in block.trials if t.arm == base and isinstance(t.outcome, Measured)]
    if ours is None or not bases:
        return None
    # If a block does not fit into memory, it runs as several groups, each with its own base. Only the base of
    # the same group shared the arm's rounds, and therefore its noise.
    theirs = next((t for t in bases if t.group == ours.group), bases[0])
    assert isinstance(ours.outcome, Measured)
    assert isinstance(theirs.outcome, Measured)
    return ours.outcome, theirs.outcome


def pairs(blocks: Sequence[Block], arm: str, base: str = BASE) -> list[tuple[Measured, Measured]]:
    """Return the pairs of trials in all blocks that have a pair and were not dropped."""
    trials = (pair(block, arm, base) for block in blocks if not block.dropped)
    return [both for both in trials if both is not None]


def awake_warning(blocks: Sequence[Block]) -> list[messages.Message]:
    """Return a warning if trials did not sleep during the turns of others.

    The criterion is the median over trials of CPU time / waiting time, so that a single trial that was caught between
    two turns has no effect.
    """
    done = [t.outcome.done for b in blocks for t in b.trials if isinstance(t.outcome, Measured)]
    # For shorter waits, one tick of the kernel's CPU accounting (up to 10 ms) could exceed AWAKE_SHARE.
    shares = [d.waiting_cpu_ns / d.waiting_ns for d in done if d.waiting_ns > 50_000_000]
    share = float(np.median(shares)) if shares else 0.0
    if share < AWAKE_SHARE:
        return []
    return [messages.AwakeTrials(share_ratio=share)]


def recorded_waits(blocks: Sequence[Block], statistic: str) -> np.ndarray:
    """Return log(with / without) of the waits that the sensitivity check recorded, one per block that was not dropped.

    The shape is (n,). The logarithm is of the statistic, so that one wait that was itself interrupted does not affect a
    median.
    """
    waits = []
    for trial in measured(blocks, SPIKE):
        cases = tuple(
            msgspec.structs.replace(
                c, latency_ns=tuple(t - w for t, w in zip(c.latency_ns, c.waits_ns, strict=True)), waits_ns=()
            )
            for c in trial.done.cases
        )
        # Callers wait in parallel: the process as a whole loses only each caller's share.
        waited = sum(sum(c.waits_ns) for c in trial.done.cases) // trial.done.n_callers
        done = msgspec.structs.replace(trial.done, cases=cases, wall_ns=trial.done.wall_ns - waited)
        bare = msgspec.structs.replace(trial, done=done)
        ratio = trial_log_ratio(trial, bare, statistic)
        waits.append(np.nan if ratio is None else ratio)
    return np.asarray(waits, dtype=float)
