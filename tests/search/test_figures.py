"""Figures of one side: what is described, with its interval where there are processes enough."""

from __future__ import annotations

import numpy as np
import pytest

from ortune.records import CaseTimes, Measured, TrialDone
from ortune.search.figures import describe


def trials(n: int, spread: float = 1.5) -> list[Measured]:
    """Processes whose runs lie evenly between 1 ms and a little more than ``spread`` times that."""
    rng = np.random.default_rng(4)
    found = []
    for _ in range(n):
        runs = np.linspace(1.0, spread, 101) * 1e6 * np.exp(0.05 * rng.standard_normal())
        case = CaseTimes(case="x", weight=1.0, latency_ns=tuple(int(v) for v in runs), first_ns=10**6)
        done = TrialDone(
            load_ns=10**7, cases=(case,), cpu_ns=10**8, wall_ns=10**8, n_runs=101, peak_bytes=10**8
        )
        found.append(Measured(plan="p", done=done, elapsed_ns=10**9))
    return found


def test_the_spread_within_a_process_comes_with_an_interval_over_processes() -> None:
    found = describe(trials(9), "median")
    assert found.spread_ratio == pytest.approx((1 + 0.9 * 0.5) / (1 + 0.1 * 0.5), rel=1e-3)
    assert found.spread_low_ratio is not None
    assert found.spread_high_ratio is not None
    # However fast each process was: the spread is relative, so here it is the same in all of them.
    assert found.spread_low_ratio == pytest.approx(found.spread_high_ratio, rel=1e-3)


def test_too_few_processes_give_no_interval() -> None:
    found = describe(trials(5), "median")
    assert found.spread_ratio is not None
    assert found.spread_low_ratio is None
