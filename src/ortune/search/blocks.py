"""Blocks: one trial of each arm, alive together and taking turns; and the log ratios read off them."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence
from typing import Literal, Protocol

import msgspec
import numpy as np

from ortune.records import Block, BlockTrial, Failed, Measured, Outcome
from ortune.search.figures import compared

BASE, NEW, IDENTICAL, SPIKE = "base", "new", "identical", "spike"
LETTERS = {BASE: "A", NEW: "B"} | {f"{NEW}-{letter.lower()}": letter for letter in "CDEFGH"}
"""What the sides of a comparison are called, by arm: the base, and those that are held against it."""
TRIAL_FAILED = "a trial in it failed"
CONTROLS_FAILED = "its calibration failed"
AWAKE_SHARE = 0.2
"""CPU time of waiting trials over their wall time from which on it is told; the clock of other threads has a grain."""


class Execute(Protocol):
    """Runs a group of trials that take turns."""

    @property
    def most_alive(self) -> int:
        """How many trials memory holds at once; 1: they run one after another."""
        ...

    def __call__(self, arms: Sequence[str], stop: Callable[[], bool], /) -> tuple[Outcome, ...] | None:
        """A fresh process each, in the order in which they load; a failure is an outcome too. None when stopped."""
        ...


def run_block(
    execute: Execute,
    arms: Sequence[str],
    rng: random.Random,
    index: int,
    phase: Literal["calibration", "race", "confirm"],
    stop: Callable[[], bool] = lambda: False,
    *,
    needed: Collection[str] | None = None,
    alone: bool = False,
) -> Block | None:
    """Runs the arms once each, the baseline, which is the first, once a group. None when stopped in the middle.

    A block with a failed trial is dropped whole, and counted, where that trial was needed: any of them, or those
    named (in a field of many plans the others do not depend on the one that failed). With ``alone`` no two processes
    live at once.
    """
    trials: list[BlockTrial] = []
    for number, group in enumerate(groups(arms, 1 if alone else execute.most_alive)):
        rng.shuffle(group)
        outcomes: list[Outcome] = []
        for together in [group] if not alone and execute.most_alive > 1 else [[arm] for arm in group]:
            found = execute(together, stop)
            if found is None:
                return None
            outcomes += found
        trials += [
            BlockTrial(arm=arm, group=number, outcome=end) for arm, end in zip(group, outcomes, strict=True)
        ]
    failed = any(isinstance(t.outcome, Failed) and (needed is None or t.arm in needed) for t in trials)
    return Block(index=index, phase=phase, trials=tuple(trials), dropped=TRIAL_FAILED if failed else "")


def groups(arms: Sequence[str], most_alive: int) -> list[list[str]]:
    """The arms of a block as memory holds them: all at once, or in several groups with a baseline each.

    Where not even two fit there is one group, whose trials run one after another.
    """
    if most_alive <= 1 or len(arms) <= most_alive:
        return [list(arms)]
    first, *others = arms
    return [[first, *others[i : i + most_alive - 1]] for i in range(0, len(others), most_alive - 1)]


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
    found = (log_ratio(block, arm, estimand, base=base, case=case) for block in blocks if not block.dropped)
    return np.asarray([ratio for ratio in found if ratio is not None], dtype=float)


def log_ratio(
    block: Block, arm: str, estimand: str, *, base: str = BASE, case: str | None = None
) -> float | None:
    """log(arm / base) of one block; None where it does not hold both, or the figure was not measured."""
    both = pair(block, arm, base)
    return compared(*both, estimand, case) if both else None


def pair(block: Block, arm: str, base: str = BASE) -> tuple[Measured, Measured] | None:
    """The arm's trial and the one of the base that it took turns with; None where one was not measured.

    Where memory holds neither in the other's group, the base's first trial of the block.
    """
    ours = next((t for t in block.trials if t.arm == arm and isinstance(t.outcome, Measured)), None)
    bases = [t for t in block.trials if t.arm == base and isinstance(t.outcome, Measured)]
    if ours is None or not bases:
        return None
    theirs = next((t for t in bases if t.group == ours.group), bases[0])
    assert isinstance(ours.outcome, Measured)
    assert isinstance(theirs.outcome, Measured)
    return ours.outcome, theirs.outcome


def pairs(blocks: Sequence[Block], arm: str, base: str = BASE) -> list[tuple[Measured, Measured]]:
    """Every block's pair, of those that count and hold one."""
    found = (pair(block, arm, base) for block in blocks if not block.dropped)
    return [both for both in found if both is not None]


def awake(blocks: Sequence[Block]) -> list[str]:
    """That trials did not sleep while others had their turn, where they did not.

    By the middle of all trials' CPU time over the time in which others had their turn: one trial that was caught
    between two turns says nothing.
    """
    done = [t.outcome.done for b in blocks for t in b.trials if isinstance(t.outcome, Measured)]
    shares = [d.waiting_cpu_ns / d.waiting_ns for d in done if d.waiting_ns > 50_000_000]
    share = float(np.median(shares)) if shares else 0.0
    if share < AWAKE_SHARE:
        return []
    return [
        f"trials that waited for their turn kept {100 * share:.0f} % of a CPU busy, which disturbed the others"
    ]


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
        ratio = compared(trial, bare, estimand)
        found.append(np.nan if ratio is None else ratio)
    return np.asarray(found, dtype=float)
