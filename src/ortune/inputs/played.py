"""Converts an application's recording to the steps of a replay, with order, gaps and threads.

Periods in which no process of the application is in ONNX Runtime are shortened to ``IDLE_NS``: spinning threads have
stopped by then, and nothing else happens in ONNX Runtime. All other times keep their order and overlap.
"""

from __future__ import annotations

import bisect
import math
from collections import Counter
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ortune.inputs.recording_file import Shapes, counted_values, shapes_of
from ortune.records import PlayedStep, RecordedProcess, RecordedSession, Recording

IDLE_NS = 100_000_000
_LIST = "list of "
"""Prefix of the recorded type of an input that was a Python list."""
FeedKey = tuple[int, Shapes, int]
"""Model, shapes, and number of the recorded values: the key of the input values of a call."""
BURST_NS = 1_000_000
"""Maximum gap between two calls of a thread that could be joined into one call."""
MOST_BATCH = 8


@dataclass(frozen=True, slots=True, order=True)
class Feed:
    """Inputs of one replayed call, by shape and by the recorded values.

    Attributes:
        model: Index of the model in the recording.
        shapes: Shapes of the inputs.
        number: Index of the recorded values with these shapes.
        lists: Names of inputs that are Python lists.
        strided: Whether arrays are not contiguous.
        batch: Number of recorded calls that are merged into one.
    """

    model: int
    shapes: Shapes
    number: int = 0
    lists: tuple[str, ...] = ()
    strided: bool = False
    batch: int = 1

    @property
    def values(self) -> FeedKey:
        """The key of the input values."""
        return self.model, self.shapes, self.number


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """The steps of one process.

    Attributes:
        process: Index of the process in the recording.
        sessions: Indices of the process's sessions in the recording; steps refer to sessions by position in this tuple.
            A session that is created again has an entry for each time.
        before: Positions of the sessions that existed when the script began.
        feeds: Inputs of the process's calls; steps refer to feeds by position.
        steps: The steps, by start time.
    """

    process: int
    sessions: tuple[int, ...]
    before: frozenset[int]
    feeds: tuple[Feed, ...]
    steps: tuple[PlayedStep, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayPart:
    """The part of a recording that is replayed.

    Attributes:
        scripts: Scripts of the processes that create or call sessions.
        span_ns: Time from the first step to the end of the last step, as recorded but with shortened idle time, or as
            scheduled by ``retimed``.
        cut_ns: Idle time that was removed.
        calls, of_calls: Number of replayed calls, and number of recorded calls.
        without_shapes: Number of calls that are omitted because their shapes are unknown.
        turns: Number of turns of a recording that is repeated, of which the last may be incomplete.
        rate_per_s: Calls per second, on average, if calls start at given times; None otherwise, and for a single call.
    """

    scripts: tuple[Script, ...]
    span_ns: int
    cut_ns: int
    calls: int
    of_calls: int
    without_shapes: int = 0
    turns: int = 1
    rate_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class _Event:
    """A step at its recorded time, or with ``do`` "exist" the creation of a session that exists before the steps."""

    start_ns: int
    end_ns: int
    thread: int
    do: str
    session: int
    feed: Feed | None = None
    turn: int = 0

    def at(self, start_ns: int, turn: int = 0) -> _Event:
        """Return the same step at another time, in the first or another turn of a repeated recording."""
        return replace(self, start_ns=start_ns, end_ns=start_ns + self.end_ns - self.start_ns, turn=turn)


class _Warp:
    """Maps recorded times to replay times, in which periods with all processes idle are shortened."""

    def __init__(self, events: Iterable[_Event]) -> None:
        self.ends: list[int] = []  # ends of busy periods before a cut
        self.cuts: list[int] = []  # total time cut up to each of them, inclusive
        busy_until = None
        for event in sorted(events, key=lambda event: event.start_ns):
            if busy_until is not None and event.start_ns - busy_until > IDLE_NS:
                self.ends.append(busy_until)
                before = self.cuts[-1] if self.cuts else 0
                self.cuts.append(before + event.start_ns - busy_until - IDLE_NS)
            busy_until = event.end_ns if busy_until is None else max(busy_until, event.end_ns)

    def at(self, time_ns: int) -> int:
        """Return the replay time of a recorded time."""
        n = bisect.bisect_left(self.ends, time_ns)
        return time_ns - (self.cuts[n - 1] if n else 0)


def scripts_of(
    recording: Recording,
    models: frozenset[int],
    most_ns: float,
    *,
    open_loop: bool = False,
    most_calls: float = math.inf,
    least_calls: int = 0,
    most_busy_ns: float = math.inf,
    feeds: Container[FeedKey] | None = None,
) -> ReplayPart:
    """Return the steps of an application's processes, beginning with the application's first session.

    In an open loop, sessions that a process created before its first call and kept until its last call exist from the
    beginning, since their creation is not part of the load.

    Args:
        recording: The recording.
        models: Indices of the models that can be opened; sessions of other models are omitted.
        most_ns: Recorded time to replay, without idle time.
        open_loop: Whether calls start at their recorded times instead of after a gap.
        most_calls: Maximum number of calls to replay.
        least_calls: Number of calls up to which the recording is repeated if it has fewer.
        most_busy_ns: Recorded time of the busiest thread in its steps, which limits the number of calls.
        feeds: Keys of the inputs that can be replayed; calls with other inputs are omitted. None for all.
    """
    events, without_shapes = {}, 0
    for number, process in enumerate(recording.processes):
        own, missing = _events(recording, number, process, models, feeds)
        events[number] = _with_existing(own) if open_loop else own
        without_shapes += missing
    warp = _Warp(event for own in events.values() for event in own if event.do != "exist")
    events = {number: [event.at(warp.at(event.start_ns)) for event in own] for number, own in events.items()}
    n_calls = len(_starts(events, "call"))
    if n_calls:
        # A rate that the program cannot serve takes as long as its busiest thread needs.
        most_calls = min(most_calls, most_busy_ns * n_calls / max(1, _busiest_ns(events)))
        least_calls = math.ceil(min(least_calls, most_calls))
    turns = max(1, math.ceil(least_calls / n_calls)) if n_calls else 1
    if turns > 1:
        events = _repeated(events, turns)
    first_ns = min(_starts(events, "call", "create"), default=0)
    end_ns, starts_ns = first_ns + most_ns, _starts(events, "call")
    if most_calls < len(starts_ns):
        end_ns = min(end_ns, starts_ns[int(most_calls)])
    played = {number: [event for event in own if event.start_ns < end_ns] for number, own in events.items()}
    scripts = tuple(
        _script(number, own, first_ns, open_loop=open_loop)
        for number, own in played.items()
        if any(event.do != "close" for event in own)
    )
    kept = [event for own in played.values() for event in own]
    last_ns = max((event.end_ns for event in kept if event.do != "exist"), default=0)
    return ReplayPart(
        scripts=scripts,
        span_ns=max(0, last_ns - first_ns),
        cut_ns=warp.cuts[-1] if warp.cuts else 0,
        calls=sum(event.do == "call" for event in kept),
        of_calls=sum(session.n_calls for session in recording.sessions),
        without_shapes=without_shapes,
        turns=turns,
    )


def _starts(events: Mapping[int, Sequence[_Event]], *do: str) -> list[int]:
    """Return the start times of some kinds of steps of all processes, in ascending order."""
    return sorted(event.start_ns for own in events.values() for event in own if event.do in do)


def _busiest_ns(events: Mapping[int, Sequence[_Event]]) -> int:
    """Return the time of the busiest thread in its steps."""
    busy: Counter[tuple[int, int]] = Counter()
    for number, own in events.items():
        for event in own:
            if event.do != "exist":
                busy[number, event.thread] += event.end_ns - event.start_ns
    return max(busy.values(), default=0)


def _released(events: Sequence[_Event]) -> set[int]:
    """Return the sessions of a process that were released before its last call began."""
    last_ns = max((event.start_ns for event in events if event.do == "call"), default=-math.inf)
    return {event.session for event in events if event.do == "close" and event.start_ns <= last_ns}


def _with_existing(events: Sequence[_Event]) -> list[_Event]:
    """Return the events of a process in which sessions exist that were created before all calls and kept for them."""
    first_ns = min((event.start_ns for event in events if event.do == "call"), default=math.inf)
    early = {event.session for event in events if event.do == "create" and event.start_ns < first_ns}
    kept = early - _released(events)
    return [
        replace(event, do="exist") if event.do == "create" and event.session in kept else event
        for event in events
        if event.do != "close" or event.session not in kept
    ]


def _repeated(events: Mapping[int, Sequence[_Event]], turns: int) -> dict[int, list[_Event]]:
    """Return the events of a recording that is repeated.

    Sessions that were created and released are created and released in each turn; the others stay.
    """
    calls_ns, all_ns = _starts(events, "call"), _starts(events, "call", "create", "close")
    gap_ns = (calls_ns[-1] - calls_ns[0]) // max(1, len(calls_ns) - 1)
    period_ns = all_ns[-1] - all_ns[0] + max(1, gap_ns)
    found: dict[int, list[_Event]] = {}
    for number, own in events.items():
        again = _released(own) & {event.session for event in own if event.do == "create"}
        found[number] = [
            event.at(event.start_ns + turn * period_ns, turn if event.session in again else 0)
            for turn in range(turns)
            for event in own
            if event.session in again or event.do == "call" or (event.do != "close" and turn == 0)
        ]
    return found


def _events(
    recording: Recording,
    number: int,
    process: RecordedProcess,
    models: frozenset[int],
    feeds: Container[FeedKey] | None,
) -> tuple[list[_Event], int]:
    """Return the events of a process by start time, and the number of calls with unknown shapes."""
    own = [
        (index, session)
        for index, session in enumerate(recording.sessions)
        if session.process == number and session.model in models and not session.error
    ]
    events = [
        _Event(session.start_ns, session.start_ns + session.creation_ns, session.thread, "create", index)
        for index, session in own
        if _is_created(session)
    ]
    by_key = {calls.key: (index, session, calls) for index, session in own for calls in session.calls}
    last: dict[int, _Event] = {}
    missing = 0
    values = counted_values(recording)
    turns: Counter[tuple[int, Shapes]] = Counter()
    for call in process.arrivals:
        if call.key not in by_key:
            continue
        index, session, calls = by_key[call.key]
        shapes = shapes_of(calls)
        if not shapes or len(shapes) < len(calls.inputs):
            missing += 1
            continue
        turn = turns[session.model, shapes]
        turns[session.model, shapes] += 1
        feed = Feed(
            session.model,
            shapes,
            turn % max(1, values[recording.models[session.model].sha256, shapes]),
            tuple(value.name for value in calls.inputs if value.dtype.startswith(_LIST)),
            2 * calls.not_contiguous > calls.inspected,
        )
        if feeds is not None and feed.values not in feeds:
            continue
        event = _Event(call.start_ns, call.start_ns + call.took_ns, call.thread, "call", index, feed)
        events.append(event)
        if index not in last or event.start_ns > last[index].start_ns:
            last[index] = event
    for index, session in own:
        if session.end_ns is not None:
            # Closed by the thread that used the session last, since the thread that released it is unknown.
            thread = last[index].thread if index in last else session.thread
            events.append(_Event(session.end_ns, session.end_ns, thread, "close", index))
    return sorted(events, key=lambda event: (event.start_ns, event.do == "close")), missing


def _is_created(session: RecordedSession) -> bool:
    """Return whether the session's creation was recorded, which it is not for inherited and earlier sessions."""
    return not session.inherited and session.creation_ns > 0


def _script(number: int, events: Sequence[_Event], first_ns: int, *, open_loop: bool) -> Script:
    sessions = sorted({(event.turn, event.session) for event in events})
    created = {(event.turn, event.session) for event in events if event.do == "create"}
    feeds = sorted({event.feed for event in events if event.feed is not None})
    place = {session: index for index, session in enumerate(sessions)}
    steps: list[PlayedStep] = []
    before_ns: dict[int, int] = {}
    for event in events:
        if event.do == "exist":
            continue
        since_ns = first_ns if open_loop else before_ns.get(event.thread, first_ns)
        steps.append(
            PlayedStep(
                thread=event.thread,
                do=event.do,  # type: ignore[arg-type]
                session=place[event.turn, event.session],
                feed=feeds.index(event.feed) if event.feed is not None else -1,
                at_ns=max(0, event.start_ns - since_ns),
            )
        )
        before_ns[event.thread] = event.end_ns
    return Script(
        process=number,
        sessions=tuple(session for _, session in sessions),
        before=frozenset(place[session] for session in sessions if session not in created),
        feeds=tuple(feeds),
        steps=tuple(steps),
    )


def batched(script: Script, models: Collection[int]) -> Script:
    """Return a script in which calls that closely follow each other are merged into calls with larger batches.

    Args:
        script: The steps of a process.
        models: Indices of the models whose inputs and outputs have a dynamic first dimension.
    """
    steps: list[PlayedStep] = []
    feeds = list(script.feeds)
    places = {feed: place for place, feed in enumerate(feeds)}
    open_by_thread: dict[int, tuple[int, int]] = {}  # step that calls join, and its calls
    for step in script.steps:
        at, count = open_by_thread.get(step.thread, (-1, 0))
        feed = script.feeds[step.feed] if step.do == "call" else None
        if feed is None or feed.model not in models or any(shape[:1] != (1,) for _, shape in feed.shapes):
            open_by_thread.pop(step.thread, None)
            steps.append(step)
            continue
        first = steps[at] if at >= 0 else None
        joins = (
            first is not None
            and count < MOST_BATCH
            and step.at_ns <= BURST_NS
            and first.session == step.session
            and feeds[first.feed].values == feed.values
        )
        if first is None or not joins:
            open_by_thread[step.thread] = len(steps), 1
            steps.append(step)
            continue
        larger = replace(feed, batch=count + 1)
        if larger not in places:
            places[larger] = len(feeds)
            feeds.append(larger)
        steps[at] = PlayedStep(
            thread=first.thread,
            do="call",
            session=first.session,
            feed=places[larger],
            at_ns=first.at_ns + step.at_ns,
        )
        open_by_thread[step.thread] = at, count + 1
    return replace(script, feeds=tuple(feeds), steps=tuple(steps))
