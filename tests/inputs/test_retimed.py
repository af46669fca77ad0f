"""Other start times for the calls of a replay."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ortune.inputs.played import ReplayPart, Script
from ortune.inputs.retimed import retimed
from ortune.records import PlayedStep
from ortune.stats.arrivals import RECORDED, RecordedArrivals

MS = 1_000_000


def step(do: str, at: float, thread: int = 0) -> PlayedStep:
    return PlayedStep(thread=thread, do=do, session=0, at_ns=round(at * MS))  # type: ignore[arg-type]


def part(*scripts: Sequence[PlayedStep], span: float) -> ReplayPart:
    return ReplayPart(
        scripts=tuple(
            Script(process=i, sessions=(0,), before=frozenset(), feeds=(), steps=tuple(own))
            for i, own in enumerate(scripts)
        ),
        span_ns=round(span * MS), cut_ns=0, calls=3, of_calls=3,
    )  # fmt: skip


def times(found: ReplayPart) -> list[list[tuple[int, str, float]]]:
    return [[(s.thread, s.do, s.at_ns / MS) for s in script.steps] for script in found.scripts]


TWO = part(
    [step("create", 0), step("call", 10), step("close", 14), step("call", 30, thread=1)],
    [step("create", 15), step("call", 20), step("close", 33)],
    span=35,
)


def test_calls_of_all_processes_take_the_new_times_in_their_order_and_other_steps_move_with_them() -> None:
    found = retimed(TWO, lambda old: [5 * MS, 9 * MS, 10 * MS] if len(old) == 3 else [], 500)
    assert times(found) == [
        # The release was 4 ms into the 10 ms between the first two calls, which are 4 ms apart now.
        [(0, "create", 0), (0, "call", 15), (0, "close", 16.6), (1, "call", 20)],
        [(0, "create", 17), (0, "call", 19), (0, "close", 23)],
    ]
    assert (found.rate_per_s, found.span_ns) == (500, 25 * MS)


def test_recorded_arrivals_are_kept_or_stretched_to_a_rate() -> None:
    as_recorded = retimed(TWO, lambda old: RecordedArrivals(kind=RECORDED, rate_per_s=None).starts(old, (1,)))
    assert times(as_recorded) == times(TWO) and as_recorded.span_ns == TWO.span_ns
    assert as_recorded.rate_per_s == pytest.approx(100)
    slower = RecordedArrivals(kind=RECORDED, rate_per_s=50)
    found = retimed(TWO, lambda old: slower.starts(old, (1,)), slower.rate_per_s)
    assert [at for script in times(found) for _, do, at in script if do == "call"] == [10, 50, 30]


def test_equal_times_of_two_processes_get_times_of_their_own() -> None:
    both = part([step("call", 0)], [step("call", 0)], span=1)
    found = retimed(both, lambda _: [0, 7 * MS])
    assert times(found) == [[(0, "call", 0)], [(0, "call", 7)]]
    assert found.rate_per_s == pytest.approx(1000 / 7)


def test_a_part_without_several_calls_has_no_rate_of_its_own() -> None:
    one = part([step("call", 0)], span=1)
    assert retimed(one, list).rate_per_s is None
    nothing = part([step("create", 0)], span=1)
    assert retimed(nothing, list, 50) is nothing
