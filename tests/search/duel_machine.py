"""A machine of a table of nanoseconds, on which a sequential schedule runs."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from groups import OneByOne
from ortune.measuring.budget import Budget
from ortune.measuring.driver import drive
from ortune.records import CaseTimes, Failed, Measured, Outcome, TrialDone
from ortune.search import duel
from ortune.search.blocks import BASE, IDENTICAL, NEW, SPIKE
from ortune.search.sequential import Sequential

TRIAL_NS = 500_000_000
RUN_NS = 5_000_000


class Machine(OneByOne):
    """Runs trials of arms whose latencies are the given factors, with noise between and within processes."""

    def __init__(
        self, seed: int, factors: dict[str, float], *, noise: float = 0.01, trial_ns: int = TRIAL_NS
    ) -> None:
        self.rng = np.random.default_rng(seed)
        self.factors = {BASE: 1.0, NEW: 1.0, IDENTICAL: 1.0, SPIKE: 1.0} | factors
        self.noise = noise
        self.trial_ns = trial_ns
        self.now = 0
        self.calls: list[str] = []
        self.fail: dict[str, int] = {}

    def clock(self) -> int:
        return self.now

    def trial(self, arm: str) -> Outcome:
        self.now += self.trial_ns
        self.calls.append(arm)
        if self.fail.get(arm, 0) > 0:
            self.fail[arm] -= 1
            return Failed(plan=arm, reason="crash", what="killed by SIGSEGV while running", phase="running")
        level = RUN_NS * self.factors[arm] * np.exp(self.noise * self.rng.standard_normal())
        runs = level * np.exp(0.02 * np.abs(self.rng.standard_normal(20)))
        waits = runs * 0.05 if arm == SPIKE else np.zeros(0)
        total = runs + waits if arm == SPIKE else runs
        case = CaseTimes(
            case="x",
            weight=1.0,
            latency_ns=tuple(int(v) for v in total),
            first_ns=RUN_NS,
            waits_ns=tuple(int(v) for v in waits),
        )
        done = TrialDone(
            load_ns=RUN_NS,
            cases=(case,),
            cpu_ns=int(total.sum()),
            wall_ns=int(total.sum()),
            n_runs=20,
            peak_bytes=10**8,
        )
        return Measured(plan=arm, done=done, elapsed_ns=self.trial_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed(duel.Rules):
    """Rules of a comparison with the time of all its blocks together."""

    budget_ns: int = 120_000_000_000


def design(trial_ns: float, rules: Timed, spent_ns: float = 0.0, n_new: int = 1) -> duel.Design:
    """What the time holds of trials of that length."""
    late_trials = 1e9 * duel.overrun_s(1e-9 * rules.budget_ns) / trial_ns
    return duel.design((rules.budget_ns - spent_ns) / trial_ns, rules, n_new, late_trials=late_trials)


def fight(
    machine: Machine,
    rules: Timed,
    seed: int = 0,
    *,
    plan: duel.Design | None = None,
    arms: Sequence[str] = (NEW,),
    stop: Callable[[], bool] = lambda: False,
    on_block: Callable[[duel.Duel], None] = lambda state: None,
    schedule: Sequential | None = None,
) -> duel.Duel:
    schedule = schedule or Sequential(rules, plan or design(machine.trial_ns, rules), arms)
    drive(
        schedule,
        machine,
        rng=random.Random(seed),
        budget=Budget(total_s=1e-9 * rules.budget_ns, spent_ns=machine.clock),
        stop=stop,
        on_block=lambda block: on_block(schedule.state),
    )
    return schedule.state


def rules(**changes: object) -> Timed:
    return Timed(**changes)  # type: ignore[arg-type]
