"""The totals of a play over its processes, and the load of calls at given times."""

from __future__ import annotations

from typing import Any

import pytest

from ortune.inputs.played import ReplayPart, Script
from ortune.measuring.play_totals import PlayTrial, totals
from ortune.records import PlayDone, PlayedStep, RecordedSession

MS = 1_000_000
SESSIONS = (RecordedSession(id=1, process=0, model=3), RecordedSession(id=2, process=0, model=4))


def script(process: int, *steps: tuple[int, str, int]) -> Script:
    made = (PlayedStep(thread=thread, do=do, session=session) for thread, do, session in steps)  # type: ignore[arg-type]
    return Script(process=process, sessions=(0, 1), before=frozenset(), feeds=(), steps=tuple(made))


def done(took: list[int], waited: list[int], late: list[int], **more: Any) -> PlayDone:
    took_ns, waited_ns, late_ns = (tuple(MS * value for value in values) for values in (took, waited, late))
    return PlayDone(
        took_ns=took_ns, waited_ns=waited_ns, late_ns=late_ns, wall_ns=200 * MS, cpu_ns=90 * MS, own_cpu_ns=MS, **more
    )  # fmt: skip


SCRIPTS = (
    script(0, (0, "create", 0), (0, "call", 0), (1, "call", 1), (0, "close", 0)),
    script(1, (0, "call", 1), (0, "call", 1)),
)
ENDED = (
    done([30, 10, 10, 1], [0, 20, 0, 0], [0, 0, 5, 0], peak_bytes=7, most_threads=2),
    done([10, 10], [0, 0], [1, 0], peak_bytes=8, most_threads=3),
)


def play(*, open_loop: bool, rate_per_s: float | None = 20.0) -> PlayTrial:
    part = ReplayPart(
        scripts=SCRIPTS,
        span_ns=0,
        cut_ns=0,
        calls=4,
        of_calls=4,
        rate_per_s=rate_per_s if open_loop else None,
    )
    return totals("kept", part, ENDED, SESSIONS, open_loop=open_loop)


def test_a_play_is_the_sum_of_its_processes() -> None:
    found = play(open_loop=False)
    total = found.play
    assert (total.variant, total.in_ort_ns, total.creating_ns) == ("kept", 71 * MS, 30 * MS)
    assert (total.cpu_ns, total.own_cpu_ns, total.wall_ns) == (180 * MS, 2 * MS, 200 * MS)
    assert (total.peak_bytes, total.most_threads, total.late_ns) == (15, 5, MS)
    assert found.details.created_ns == {3: [30 * MS]}
    # Without given times nothing waits for a call that begins late.
    assert found.details.called_ns == {3: [30 * MS], 4: [10 * MS, 10 * MS, 10 * MS]}
    assert found.details.load is None


def test_calls_at_given_times_count_from_their_intended_start() -> None:
    found = play(open_loop=True).details
    assert found.called_ns == {3: [30 * MS], 4: [15 * MS, 11 * MS, 10 * MS]}
    load = found.load
    assert load is not None
    assert load.waited_ns == 5 * MS and load.late_ns == 1.5 * MS
    assert load.late_share == pytest.approx(6 / 66)
    assert load.own_cpu_share == pytest.approx(0.01)


def test_the_busiest_thread_limits_the_rate_with_all_that_it_does() -> None:
    load = play(open_loop=True).details.load
    assert load is not None
    # Thread 0 of the first process: 41 ms for a creation, a call and a release; 4 calls at 20/s last 200 ms.
    assert load.offered_share == pytest.approx(41 / 200)
    assert load.served_per_s == pytest.approx(20 / load.offered_share)
    alone = play(open_loop=True, rate_per_s=None).details.load
    assert alone is not None and alone.offered_share == 0
