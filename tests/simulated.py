"""A machine that is none: plans with known times, trials that scatter, and schedules run on it."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from groups import OneByOne
from ortune.measuring.budget import Budget
from ortune.measuring.driver import drive
from ortune.records import Block, CaseTimes, Failed, Measured, Outcome, TrialDone
from ortune.search.blocks import BASE, IDENTICAL, SPIKE
from ortune.search.halving import CURRENT, Halving
from ortune.search.schedule import Steps

TRIAL_NS = 400_000_000
T = TypeVar("T")


@dataclass(kw_only=True)
class Raced(Halving):
    """A race on a machine with a clock of its own.

    Attributes:
        end_ns: Of the time, by its clock.
        wrong: Arms whose outputs are others.
        ran: Is told of each block.
    """

    machine: OneByOne
    end_ns: float = 300e9
    wrong: Collection[str] = ()
    stop: Callable[[], bool] = lambda: False
    ran: Callable[[Block], None] = lambda block: None
    statistic: str = "median"
    worth: float = 0.01
    scale: float = 0.01
    first_trial_ns: float = TRIAL_NS
    rng: random.Random = field(default_factory=lambda: random.Random(1))

    def go(self, steps: Steps[T]) -> T:
        """Runs the blocks of a stage; what came of it."""
        results: list[T] = []

        def stage() -> Steps[None]:
            results.append((yield from steps))

        def on_block(block: Block) -> None:
            for arm in {trial.arm for trial in block.trials} & set(self.wrong):
                self.entries[arm].eliminate("wrong-output", "output 'y' differs")
            self.ran(block)

        self.begin(stage())
        drive(
            self,
            self.machine,
            rng=self.rng,
            budget=Budget(total_s=1e-9 * self.end_ns, spent_ns=lambda: self.machine.now),
            stop=self.stop,
            on_block=on_block,
        )
        return results[0]


class Field(OneByOne):
    """Plans with known factors on a machine with noise; the clock moves with the trials."""

    def __init__(self, factors: dict[str, float], seed: int = 0, noise: float = 0.01) -> None:
        self.factors = {BASE: 1.0, IDENTICAL: 1.0, SPIKE: 1.05, CURRENT: 1.3} | factors
        self.memory: dict[str, float] = {}
        self.rng = np.random.default_rng(seed)
        self.noise = noise
        self.trial_ns = TRIAL_NS
        self.now = 0
        self.failing: dict[str, str] = {}
        self.hanging: dict[str, int] = {}
        self.calls: list[str] = []

    def trial(self, arm: str) -> Outcome:
        self.now += self.trial_ns
        self.calls.append(arm)
        if arm in self.hanging:
            self.now += self.hanging[arm] - self.trial_ns
            return Failed(plan=arm, reason="timeout", what="not done", elapsed_ns=self.hanging[arm])
        if arm in self.failing:
            return Failed(plan=arm, reason="crash", what=self.failing[arm])
        level = 5e6 * self.factors[arm] * np.exp(self.noise * self.rng.standard_normal())
        runs = tuple(int(v) for v in level * np.exp(0.02 * self.rng.standard_normal(15)))
        case = CaseTimes(case="x", weight=1.0, latency_ns=runs, first_ns=runs[0])
        done = TrialDone(
            load_ns=10**7,
            cases=(case,),
            cpu_ns=sum(runs),
            wall_ns=sum(runs),
            n_runs=15,
            peak_bytes=int(10**8 * self.memory.get(arm, 1.0)),
        )
        return Measured(plan=arm, done=done, elapsed_ns=self.trial_ns)
