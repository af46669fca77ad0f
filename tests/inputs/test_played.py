"""From a recording to the steps of its processes."""

from __future__ import annotations

from typing import Any

from ortune.inputs.played import IDLE_NS, ReplayPart, batched, scripts_of
from ortune.records import (
    Arrival,
    RecordedCalls,
    RecordedInput,
    RecordedModel,
    RecordedProcess,
    RecordedSession,
    Recording,
)

MS = 1_000_000


def calls(key: int, n: int = 1) -> RecordedCalls:
    return RecordedCalls(key=key, count=10, inputs=(RecordedInput(name="x", shape=(n, 3)),))


def session(number: int, *keys: int, start: int = 0, took: int = 10, **more: object) -> RecordedSession:
    own = tuple(calls(key) for key in keys)
    return RecordedSession(
        id=number, model=0, calls=own, start_ns=start * MS, creation_ns=took * MS, **{"process": 0, **more}
    )  # type: ignore[arg-type]


def call(key: int, start: int, took: int = 5, thread: int = 0) -> Arrival:
    return Arrival(key=key, start_ns=start * MS, took_ns=took * MS, thread=thread, active=1)


def played(
    sessions: list[RecordedSession],
    *arrivals: list[Arrival],
    most_ms: float = 1e9,
    open_loop: bool = False,
    **more: Any,
) -> ReplayPart:
    recording = Recording(
        processes=tuple(RecordedProcess(pid=i, arrivals=tuple(own)) for i, own in enumerate(arrivals)),
        sessions=tuple(sessions),
        models=(RecordedModel(sha256="aa" * 32), RecordedModel(sha256="bb" * 32)),
    )
    return scripts_of(recording, frozenset({0}), most_ms * MS, open_loop=open_loop, **more)


def steps(found: ReplayPart, process: int = 0) -> list[tuple[int, str, int, float]]:
    return [(s.thread, s.do, s.session, s.at_ns / MS) for s in found.scripts[process].steps]


def test_a_call_follows_the_step_before_it_in_its_thread_after_the_recorded_gap() -> None:
    found = played([session(1, 1, start=100)], [call(1, 113), call(1, 120), call(1, 130, thread=1)])
    assert steps(found) == [(0, "create", 0, 0), (0, "call", 0, 3), (0, "call", 0, 2), (1, "call", 0, 30)]
    assert (found.calls, found.span_ns) == (3, 35 * MS)


def test_an_open_loop_counts_from_the_first_call_of_sessions_that_exist() -> None:
    found = played([session(1, 1, start=100)], [call(1, 113), call(1, 120)], open_loop=True)
    assert steps(found) == [(0, "call", 0, 0), (0, "call", 0, 7)]
    assert found.scripts[0].before == {0} and found.span_ns == 12 * MS


def test_sessions_of_an_open_loop_are_created_where_the_program_creates_them_again_and_again() -> None:
    # The first session is released before the last call, the second is created after the first call.
    found = played(
        [session(1, 1, end_ns=20 * MS), session(2, 2, start=25)], [call(1, 15), call(2, 40)], open_loop=True
    )
    assert steps(found) == [
        (0, "create", 0, 0),
        (0, "call", 0, 15),
        (0, "close", 0, 20),
        (0, "create", 1, 25),
        (0, "call", 1, 40),
    ]
    assert found.scripts[0].before == frozenset()


def test_an_open_loop_leaves_out_the_release_at_the_end_and_keeps_sessions_without_calls() -> None:
    found = played([session(1, 1, end_ns=90 * MS), session(2)], [call(1, 15)], open_loop=True)
    assert steps(found) == [(0, "call", 0, 0)]
    assert found.scripts[0].before == {0, 1} and found.scripts[0].sessions == (0, 1)


def test_a_number_of_calls_ends_a_part() -> None:
    arrivals = [call(1, 20 + 10 * i) for i in range(5)]
    found = played([session(1, 1)], arrivals, open_loop=True, most_calls=3.9)
    assert (found.calls, found.turns) == (3, 1)
    assert played([session(1, 1)], arrivals, open_loop=True, most_calls=0.9).calls == 0


def test_calls_that_a_thread_cannot_serve_are_limited_by_its_time() -> None:
    arrivals = [call(1, 20 + 10 * i, took=5) for i in range(4)]
    found = played([session(1, 1)], arrivals, open_loop=True, least_calls=100, most_busy_ns=32 * MS)
    assert (found.calls, found.turns) == (6, 2)
    found = played([session(1, 1)], arrivals, open_loop=True, most_busy_ns=12 * MS)
    assert found.calls == 2


def test_a_short_recording_is_repeated_with_its_pattern() -> None:
    found = played([session(1, 1)], [call(1, 20), call(1, 40)], open_loop=True, least_calls=5, most_calls=5)
    assert (found.calls, found.turns, found.of_calls) == (5, 3, 10)
    # Between two turns is the mean gap between calls.
    assert [at for _, _, _, at in steps(found)] == [0, 20, 40, 60, 80]
    assert found.scripts[0].sessions == (0,)


def test_a_repeated_recording_creates_again_what_it_released_and_keeps_what_it_kept() -> None:
    sessions = [session(1, 1, end_ns=30 * MS), session(2, 2, start=35, end_ns=99 * MS)]
    found = played(sessions, [call(1, 20), call(2, 50)], open_loop=True, least_calls=4)
    assert [(do, place) for _, do, place, _ in steps(found)] == [
        ("create", 0), ("call", 0), ("close", 0), ("create", 1), ("call", 1),
        ("create", 2), ("call", 2), ("close", 2), ("call", 1),
    ]  # fmt: skip
    assert found.scripts[0].sessions == (0, 1, 0)


def test_a_recording_without_calls_is_not_repeated() -> None:
    found = played([session(1, 1)], [], open_loop=True, least_calls=5)
    assert (found.calls, found.turns, found.span_ns) == (0, 1, 0)


def test_calls_whose_inputs_cannot_be_made_are_left_out_of_the_times() -> None:
    own = RecordedSession(id=1, model=0, process=0, creation_ns=10 * MS, calls=(calls(1), calls(2, n=4)))
    found = played([own], [call(1, 20), call(2, 30), call(1, 40)], feeds={(0, (("x", (1, 3)),), 0)})
    assert [at for _, do, _, at in steps(found) if do == "call"] == [10, 15]
    assert found.calls == 2


def test_only_what_is_idle_in_all_processes_is_shortened() -> None:
    one, other = session(1, 1), session(1, 2, process=1)
    # The second process works from 300 to 800 ms, so the first one's gap is idle only before and after that.
    found = played([one, other], [call(1, 1000)], [call(2, 300, took=500)])
    idle = IDLE_NS / MS
    assert found.cut_ns / MS == (300 - 10 - idle) + (1000 - 800 - idle)
    assert steps(found) == [(0, "create", 0, 0), (0, "call", 0, idle + 500 + idle)]
    assert steps(found, 1) == [(0, "create", 0, 0), (0, "call", 0, idle)]
    assert found.span_ns / MS == 10 + idle + 500 + idle + 5


def test_a_session_is_released_by_the_thread_that_used_it_last() -> None:
    found = played(
        [session(1, 1, end_ns=50 * MS), session(2, 2, start=60)],
        [call(1, 20), call(1, 30, thread=1), call(2, 75)],
    )
    assert (1, "close", 0, 15) in steps(found)


def test_calls_of_other_models_and_without_shapes_are_left_out() -> None:
    unknown = RecordedCalls(key=7, count=1, inputs=(RecordedInput(name="x", shape=None),))
    one = session(1, 1)
    one = RecordedSession(
        **{**{n: getattr(one, n) for n in one.__struct_fields__}, "calls": (*one.calls, unknown)}
    )
    other = RecordedSession(id=2, process=0, model=1, creation_ns=1, calls=(calls(3),))
    found = played([one, other], [call(1, 20), call(7, 30), call(3, 40)])
    assert [step[1] for step in steps(found)] == ["create", "call"]
    assert (found.calls, found.without_shapes) == (1, 1)


def test_sessions_from_before_a_fork_exist_already() -> None:
    forked = session(2, 2, process=1, took=0, inherited=1)
    found = played([session(1, 1), forked], [call(1, 20)], [call(2, 30)])
    assert found.scripts[1].before == {0}
    assert [step[1] for step in steps(found, 1)] == ["call"]


def test_sessions_that_could_not_be_created_are_left_out() -> None:
    found = played([session(1, error="Fail"), session(2, 2, start=40)], [call(2, 55)])
    assert [step[1] for step in steps(found)] == ["create", "call"]


def test_a_shorter_time_plays_the_beginning() -> None:
    arrivals = [call(1, 20 + 10 * i) for i in range(20)]
    found = played([session(1, 1)], arrivals, most_ms=60)
    assert (found.calls, found.of_calls) == (4, 10)
    assert played([session(1, 1)], [], most_ms=60).calls == 0


def test_calls_that_follow_each_other_closely_become_batches_of_at_most_eight() -> None:
    arrivals = [call(1, 20 + 5 * i) for i in range(10)] + [call(2, 70), call(1, 75), call(1, 90)]
    (script,) = played([session(1, 1), session(2, 2)], arrivals).scripts
    found = batched(script, {0})
    sizes = [(step.session, found.feeds[step.feed].batch) for step in found.steps if step.do == "call"]
    # Another session and a pause end a batch.
    assert sizes == [(0, 8), (0, 2), (1, 1), (0, 1), (0, 1)]
    assert found.steps[2].at_ns == script.steps[2].at_ns
    assert batched(script, set()) == script
    (wide,) = played(
        [RecordedSession(id=1, model=0, process=0, calls=(calls(1, n=2),), creation_ns=MS)], arrivals
    ).scripts
    assert [found.batch for found in batched(wide, {0}).feeds] == [1]


def test_the_form_of_inputs_is_kept() -> None:
    listed = RecordedCalls(
        key=1, inputs=(RecordedInput(name="x", dtype="list of int", shape=(1, 3)),), inspected=4
    )
    strided = RecordedCalls(
        key=2, inputs=(RecordedInput(name="x", shape=(1, 4)),), inspected=4, not_contiguous=3
    )
    own = RecordedSession(id=1, model=0, process=0, creation_ns=MS, calls=(listed, strided))
    (script,) = played([own], [call(1, 20), call(2, 30)]).scripts
    assert [(feed.lists, feed.strided) for feed in script.feeds] == [(("x",), False), ((), True)]
