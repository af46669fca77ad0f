"""Open loop: starts at given times, latency from the intended start, what waited and what was late."""

from __future__ import annotations

import threading

import pytest

from fake_clock import FakeClock
from ortune.worker import arrivals

MS = 1_000_000


def test_calls_that_end_before_the_next_start_wait_for_nothing() -> None:
    clock = FakeClock()
    played = arrivals.play([0, 10 * MS, 20 * MS], [lambda _: clock.call(4 * MS)], clock)
    assert played.latencies == [4 * MS] * 3
    assert played.waited == played.late == [0, 0, 0]
    assert played.busy_ns == 12 * MS
    assert played.own_cpu_ns == 3000  # of the sleeps, not of the calls


def test_a_call_that_finds_the_caller_busy_counts_from_its_intended_start() -> None:
    clock = FakeClock()
    played = arrivals.play([0, 1 * MS, 2 * MS], [lambda _: clock.call(4 * MS)], clock)
    assert played.latencies == [4 * MS, 7 * MS, 10 * MS]
    assert played.waited == [0, 3 * MS, 6 * MS]
    assert played.late == [0, 0, 0]


def test_a_generator_that_wakes_too_late_is_told_from_a_queue() -> None:
    clock = FakeClock(late_ns=2 * MS)
    played = arrivals.play([0, 3 * MS, 20 * MS], [lambda _: clock.call(4 * MS)], clock)
    assert played.late == [2 * MS, 0, 2 * MS]
    assert played.waited == [0, 3 * MS, 0]
    assert played.latencies == [6 * MS, 7 * MS, 6 * MS]


def test_each_arrival_is_called_once_by_one_of_several_callers() -> None:
    made: list[int] = []
    played = arrivals.play([0] * 40, [made.append] * 4)
    assert sorted(made) == list(range(40))
    assert all(latency >= waited + late for latency, waited, late in zip(
        played.latencies, played.waited, played.late, strict=True))  # fmt: skip


def test_a_second_caller_takes_what_the_first_has_no_time_for() -> None:
    second = threading.Event()

    def call(i: int) -> None:
        # The first call ends only after the second, which one caller alone could never make.
        if i == 0:
            assert second.wait(60)
        else:
            second.set()

    arrivals.play([0, 0], [call, call])


def test_a_call_that_fails_ends_the_schedule() -> None:
    made: list[int] = []

    def fail(i: int) -> None:
        made.append(i)
        raise ValueError("no such input")

    with pytest.raises(ValueError, match="no such input"):
        arrivals.play([0] * 1000, [fail, fail])
    assert len(made) <= 2
