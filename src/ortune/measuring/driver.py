"""Runs what a schedule asks for: the one place where its blocks become processes."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Protocol

from ortune.measuring.budget import Budget
from ortune.records import Block, BlockTrial, Failed, Outcome
from ortune.search.blocks import TRIAL_FAILED
from ortune.search.controls import Judgement
from ortune.search.schedule import BudgetLeft, NextBlock, Schedule


class Execute(Protocol):
    """Runs a group of trials that take turns."""

    @property
    def most_alive(self) -> int:
        """How many trials memory holds at once; 1: they run one after another."""
        ...

    def __call__(self, arms: Sequence[str], stop: Callable[[], bool], /) -> tuple[Outcome, ...] | None:
        """A fresh process each, in the order in which they load; a failure is an outcome too. None when stopped."""
        ...


def drive(
    schedule: Schedule,
    execute: Execute,
    *,
    rng: random.Random,
    budget: Budget,
    stop: Callable[[], bool] = lambda: False,
    ready: Callable[[Sequence[str]], bool] = lambda arms: True,
    on_block: Callable[[Block], None] = lambda block: None,
    calibrated: Callable[[Judgement], None] = lambda judgement: None,
) -> None:
    """Ask for a block, run it and report the outcome, until the schedule ends.

    Args:
        schedule: Gives the next block and receives its outcome.
        execute: Runs a group.
        rng: Draws the order in which the arms of a group load.
        budget: Its time up to the last journalled step decides.
        stop: Whether the user stopped the session.
        ready: Prepares what arms need; False if that took time or withdrew an arm, so the schedule must choose again.
        on_block: Callback for each block, after the schedule received it.
        calibrated: Callback for a judgement, before the first block that follows it and may hold other trials.

    Raises:
        MeasurementError, Interrupted: As ``Schedule.ask``.
    """
    stopped = False
    while True:
        judgement = schedule.judgement
        block = schedule.ask(BudgetLeft(ns=budget.left_ns, stop=stopped or stop()))
        if block is None:
            return
        if schedule.judgement is not None and schedule.judgement is not judgement:
            # Trials may be made shorter by it, so that another block is asked for than this one.
            calibrated(schedule.judgement)
            continue
        if not ready(block.arms):
            continue
        began_ns = budget.spent_ns()
        # ``ask`` knew of the stop when it gave a whole block: it runs to its end, since half of it would be
        # lost.
        ran = run_block(execute, block, rng, (lambda: False) if block.whole else stop)
        if ran is None:
            stopped = True
            continue
        schedule.tell(ran, int(budget.spent_ns() - began_ns))
        on_block(ran)


def run_block(
    execute: Execute, block: NextBlock, rng: random.Random, stop: Callable[[], bool] = lambda: False
) -> Block | None:
    """Run the arms once each, the baseline, which is the first, once a group. None when stopped in the middle.

    A block with a failed trial that is needed is dropped whole, and counted. In a field of many plans the others do
    not depend on the one that failed.
    """
    trials: list[BlockTrial] = []
    for number, group in enumerate(groups(block.arms, 1 if block.alone else execute.most_alive)):
        # A fixed order would be measured as a difference: an effect of order of 0.5 % led to 72 % false
        # verdicts.
        rng.shuffle(group)
        outcomes: list[Outcome] = []
        together = not block.alone and execute.most_alive > 1
        for arms in [group] if together else [[arm] for arm in group]:
            ended = execute(arms, stop)
            if ended is None:
                return None
            outcomes += ended
        trials += [
            BlockTrial(arm=arm, group=number, outcome=end) for arm, end in zip(group, outcomes, strict=True)
        ]
    needed = block.arms if block.needed is None else block.needed
    failed = any(isinstance(t.outcome, Failed) and t.arm in needed for t in trials)
    return Block(
        index=block.index, phase=block.phase, trials=tuple(trials), dropped=TRIAL_FAILED if failed else ""
    )


def groups(arms: Sequence[str], most_alive: int) -> list[list[str]]:
    """Return the arms of a block as memory holds them: all at once, or in several groups with a baseline each.

    Where not even two fit there is one group, whose trials run one after another.
    """
    if most_alive <= 1 or len(arms) <= most_alive:
        return [list(arms)]
    first, *others = arms
    # Example: six arms, four alive: base, 1, 2, 3, and then base, 4, 5.
    return [[first, *others[i : i + most_alive - 1]] for i in range(0, len(others), most_alive - 1)]
