"""Blocks: one trial of each arm, adjacent, in fresh random order; and the log ratios read off them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Literal, Protocol

import msgspec
import numpy as np

from ortune.records import Block, BlockTrial, Failed, Measured, Outcome
from ortune.search.figures import figure

BASE, NEW, IDENTICAL, SPIKE = "base", "new", "identical", "spike"
TRIAL_FAILED = "a trial in it failed"
CONTROLS_FAILED = "its calibration failed"


class Execute(Protocol):
    """Runs one trial of an arm."""

    def __call__(self, arm: str, /) -> Outcome:
        """One fresh process; a failure is an outcome too."""
        ...


def run_block(
    execute: Execute,
    arms: Sequence[str],
    rng: random.Random,
    index: int,
    phase: Literal["calibration", "race", "confirm"],
    stop: Callable[[], bool] = lambda: False,
    *,
    whole: bool = True,
) -> Block | None:
    """Runs the arms once each in random order. None when a stop was asked for in the middle.

    A block with a failed trial is dropped whole, whichever arm failed, and counted. With ``whole`` False (a
    field of many plans) only a failed baseline drops it: the others do not depend on the one that failed.
    """
    order = list(arms)
    rng.shuffle(order)
    trials = []
    for arm in order:
        if stop():
            return None
        trials.append(BlockTrial(arm=arm, outcome=execute(arm)))
    failed = any(isinstance(t.outcome, Failed) and (whole or t.arm == BASE) for t in trials)
    return Block(index=index, phase=phase, trials=tuple(trials), dropped=TRIAL_FAILED if failed else "")


def measured(blocks: Sequence[Block], arm: str) -> list[Measured]:
    """An arm's completed trials in the blocks that count, in order."""
    return [
        t.outcome
        for b in blocks
        if not b.dropped
        for t in b.trials
        if t.arm == arm and isinstance(t.outcome, Measured)
    ]


def failures(blocks: Sequence[Block], arm: str) -> list[Failed]:
    """An arm's failed trials, dropped blocks included."""
    return [t.outcome for b in blocks for t in b.trials if t.arm == arm and isinstance(t.outcome, Failed)]


def log_ratios(
    blocks: Sequence[Block], arm: str, estimand: str, *, base: str = BASE, case: str | None = None
) -> np.ndarray:
    """log(arm / base) of every block that counts and holds both, in order; shape (n,)."""
    found = []
    for block in blocks:
        if block.dropped:
            continue
        values = {
            t.arm: figure(t.outcome, estimand, case) for t in block.trials if isinstance(t.outcome, Measured)
        }
        ours, theirs = values.get(arm), values.get(base)
        if ours and theirs:
            found.append(np.log(ours / theirs))
    return np.asarray(found, dtype=float)


def recorded_waits(blocks: Sequence[Block], arm: str, estimand: str) -> np.ndarray:
    """What an arm's recorded waits amount to in each block that counts: log(with / without), shape (n,).

    In the estimand's own terms: a wait that was itself interrupted must not count for a median.
    """
    found = []
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
        found.append(np.log((figure(trial, estimand) or np.nan) / (figure(bare, estimand) or np.nan)))
    return np.asarray(found, dtype=float)
