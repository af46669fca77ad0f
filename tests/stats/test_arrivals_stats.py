"""Schedules of an open loop, and what the calls tell of the load."""

from __future__ import annotations

import numpy as np
import pytest

from ortune.errors import OrtuneError
from ortune.records import LoadFigures
from ortune.stats import arrivals

MS = 1_000_000


def gaps(kind: str, n: int = 20_000) -> np.ndarray:
    return np.diff(arrivals.schedule(kind, 50, n, (1,)), prepend=0)


def test_constant_arrivals_are_a_gap_apart() -> None:
    assert arrivals.schedule("constant", 50, 4, (0,)) == (0, 20 * MS, 40 * MS, 60 * MS)


@pytest.mark.parametrize(("kind", "cv"), [("poisson", 1.0), ("gamma:0.5", 0.5), ("gamma:2", 2.0)])
def test_random_gaps_have_the_rate_and_the_variation_that_were_asked(kind: str, cv: float) -> None:
    found = gaps(kind)
    assert found.mean() == pytest.approx(20 * MS, rel=0.05)
    assert found.std() / found.mean() == pytest.approx(cv, rel=0.05)
    assert (found >= 0).all()


def test_equal_seeds_give_equal_schedules_and_others_do_not() -> None:
    first = arrivals.schedule("poisson", 50, 10, (1, 2))
    assert (
        first == arrivals.schedule("poisson", 50, 10, (1, 2)) != arrivals.schedule("poisson", 50, 10, (1, 3))
    )


@pytest.mark.parametrize(
    "kind", ["gamma", "gamma:", "gamma:0", "gamma:x", "gamma:1e9", "uniform", "poisson:1"]
)
def test_what_is_no_kind_of_arrivals_is_refused(kind: str) -> None:
    with pytest.raises(OrtuneError):
        arrivals.schedule(kind, 1, 1, (0,))


def test_a_rate_must_be_above_zero() -> None:
    with pytest.raises(OrtuneError):
        arrivals.schedule("constant", 0, 1, (0,))


def test_recorded_arrivals_keep_their_pattern_at_another_rate() -> None:
    assert arrivals.scaled((5, 15, 45), 2e9 / 80) == (0, 20, 80)
    assert arrivals.scaled((), 1) == () and arrivals.scaled((7,), 1) == (7,)


def test_recorded_calls_get_drawn_times_or_keep_theirs() -> None:
    recorded = (0, 10 * MS, 40 * MS)
    assert arrivals.RecordedArrivals(kind="recorded", rate_per_s=None).starts(recorded, (1,)) == recorded
    faster = arrivals.RecordedArrivals(kind="recorded", rate_per_s=100)
    assert faster.starts(recorded, (1,)) == (0, 5 * MS, 20 * MS)
    drawn = arrivals.RecordedArrivals(kind="poisson", rate_per_s=100)
    assert drawn.starts(recorded, (1, 2)) == arrivals.schedule("poisson", 100, 3, (1, 2))


def load(
    latency: list[int], waited: list[int], late: list[int], busy_ns: int, callers: int = 1
) -> LoadFigures:
    return arrivals.load_of(
        latency,
        waited,
        late,
        busy_ns=busy_ns,
        own_cpu_ns=MS,
        wall_ns=100 * MS,
        rate_per_s=50,
        callers=callers,
    )


def verdict(found: LoadFigures) -> str:
    return arrivals.verdict(late_share=found.late_share, offered_share=found.offered_share)


def test_latency_is_waiting_lateness_and_the_call() -> None:
    found = load([10 * MS, 30 * MS], [0, 18 * MS], [0, 2 * MS], 20 * MS)
    assert (found.waited_share, found.late_share) == (pytest.approx(0.45), pytest.approx(0.05))
    assert found.offered_share == pytest.approx(0.5)  # 50 calls of 10 ms a second
    assert found.served_per_s == pytest.approx(100)
    assert found.own_cpu_share == pytest.approx(0.01)
    assert verdict(found) == "measured"


def test_a_generator_that_is_late_leaves_no_answer() -> None:
    assert verdict(load([10 * MS] * 2, [0, 0], [2 * MS] * 2, 16 * MS)) == "generator"


def test_more_calls_than_the_callers_can_serve_are_an_overload() -> None:
    calls = [40 * MS] * 2
    assert verdict(load(calls, [20 * MS] * 2, [0, 0], 40 * MS)) == "overloaded"
    assert verdict(load(calls, [20 * MS] * 2, [0, 0], 40 * MS, callers=2)) == "measured"
