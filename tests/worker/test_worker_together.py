"""Callers at the same time: what is timed is the time in which all of them are at work."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from ortune.worker import together
from ortune.worker.cases import TimedCase


def caller(*run: Callable[..., Any], weights: tuple[float, ...] = (1.0,)) -> list[TimedCase]:
    """The cases of one caller, each with what a run of it does."""
    found = []
    for i, (do, weight) in enumerate(zip(run, weights, strict=True)):
        found.append(TimedCase({"name": str(i), "weight": weight}, do, list))
    return found


def sleeping(ms: float) -> Callable[..., None]:
    return lambda *_: time.sleep(ms / 1e3)


def request(weights: tuple[float, ...] = (1.0,), gap_ns: int = 0) -> dict[str, Any]:
    feeds = [{"weight": weight} for weight in weights]
    return {"feeds": feeds, "gap_ns": gap_ns, "wait_ratio": 0.0}


def test_a_fast_caller_goes_on_until_the_slow_one_is_through() -> None:
    callers = [caller(sleeping(2)), caller(sleeping(10))]
    wall_ns = together.run(callers, request(), 8).wall_ns
    fast, slow = (each[0].latencies for each in callers)
    assert len(slow) == 8 and len(fast) > 16
    # What began in that time and did not end in it is missing, and what lies between runs on a busy machine.
    for latencies in (fast, slow):
        assert 0.8 * wall_ns - 2 * max(latencies) < sum(latencies) <= wall_ns


def test_a_pause_after_the_last_run_does_not_lose_it() -> None:
    callers = [caller(sleeping(1)), caller(sleeping(20))]
    wall_ns = together.run(callers, request(gap_ns=20_000_000), 4).wall_ns
    fast = callers[0][0].latencies
    assert wall_ns - len(fast) * 20e6 - sum(fast) < 25e6


def test_what_ends_before_the_last_caller_can_say_that_it_is_through_does_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def late() -> int:
        time.sleep(0.1)  # its CPU was taken between the two clocks
        return 0

    monkeypatch.setattr(time, "process_time_ns", late)
    callers = [caller(sleeping(2)), caller(sleeping(10))]
    wall_ns = together.run(callers, request(), 3).wall_ns
    fast = callers[0][0]
    assert sum(fast.latencies) <= wall_ns and fast.turns == [len(fast.latencies)]


def test_what_runs_on_keeps_the_proportions_of_the_mix() -> None:
    weights = (0.75, 0.25)
    callers = [caller(sleeping(1), sleeping(1), weights=weights), caller(*[sleeping(8)] * 2, weights=weights)]
    together.run(callers, request(weights), 8)
    often, seldom = (len(case.latencies) for case in callers[0])
    assert [len(case.latencies) for case in callers[1]] == [12, 4]
    assert often > 24 and often == pytest.approx(3 * seldom, abs=4)


def test_one_caller_makes_what_it_is_due() -> None:
    alone = caller(sleeping(1))
    wall_ns = together.run([alone], request(), 5).wall_ns
    assert len(alone[0].latencies) == 5 and sum(alone[0].latencies) <= wall_ns
    assert together.run([caller(sleeping(1)), caller(sleeping(1))], request(), 0).wall_ns < 1e9


def test_a_caller_that_fails_does_not_keep_the_others_running() -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        together.run([caller(sleeping(1)), caller(fail)], request(), 5)
