"""Sessions are created and never called.

What it is: sessions that have no call, neither in the process that created them nor in one that inherited them through
    a fork. Only what is certain is reported: a program that was ended from outside, or failed, might have called a
    session later, so only sessions that it freed are counted. A session that writes an optimised model is left out,
    and so is one of several processes if another of them calls its own.
Why it costs: creating a session reads, optimises and allocates the model and starts a thread pool. Its memory stays in
    use as long as the session exists.
Evidence: the number of sessions, the time of their creations, and the growth of the resident memory, as recorded.
Fix and its safety: advice: create the session where it is first needed, or not at all. Pass execution providers when
    creating a session: ``set_providers`` creates it a second time.
Example: a library that loads a model for a step that its configuration turns off
References: ONNX Runtime documentation, "Python API: InferenceSession".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ortune.printable import amount
from ortune.records import Finding, RecordedSession, Recording
from ortune.rules._recordings import (
    frames_of,
    group_equal,
    is_whole,
    key_of,
    model_identity,
    model_name,
    place,
    process_of,
    stack,
)
from ortune.rules._words import duration, percent
from ortune.rules.facts import Facts

CODE = "APP017"


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding for each place of a recording that creates sessions without a call."""
    recording = facts.recording
    if recording is None:
        return
    places: dict[tuple[object, int, bool], list[RecordedSession]] = {}
    for session in _never_called(recording):
        identity = model_identity(recording.models[session.model])
        places.setdefault((identity, session.place, session.recreated), []).append(session)
    for (_, _, recreated), sessions in places.items():
        yield _finding(recording, sessions, recreated=recreated)


def _never_called(recording: Recording) -> Iterator[RecordedSession]:
    called, lossy = _called(recording), _lossy(recording)
    elsewhere: dict[tuple[object, int], set[int]] = {}
    copies: set[tuple[object, int]] = set()
    for session in recording.sessions:
        if session.n_calls:
            identity = model_identity(recording.models[session.model])
            elsewhere.setdefault((identity, session.place), set()).add(session.process)
            if not session.creation_ns and not session.inherited:
                copies.add((identity, session.process))
    for session in recording.sessions:
        if session.error or session.inherited or not session.creation_ns or session.writes_model:
            continue
        if key_of(session) in called or session.process in lossy:
            continue
        if not (is_whole(recording) or _was_freed(recording, session)):
            continue
        identity = model_identity(recording.models[session.model])
        others = elsewhere.get((identity, session.place), set()) - {session.process}
        if not others and (identity, session.process) not in copies:
            yield session


def _called(recording: Recording) -> set[tuple[int, int]]:
    """Return the sessions with calls, also those called by a forked process, or reported as created for a few calls.

    A call through a copy of a session's object is one of a session whose creation was not recorded.
    """
    known = {key_of(session): session for session in recording.sessions}
    called = set()
    for group in group_equal(recording):
        called |= {key_of(session) for few in group.for_few_calls() for session in few.sessions}
    for each in recording.sessions:
        session: RecordedSession | None = each if each.n_calls else None
        while session is not None and key_of(session) not in called:
            called.add(key_of(session))
            parent = process_of(recording, session).parent
            session = known.get((parent, session.inherited)) if session.inherited else None
    return called


def _lossy(recording: Recording) -> set[int]:
    """Return the processes whose calls were not all recorded, and those from which they were forked."""
    lossy: set[int] = set()
    for number, process in enumerate(recording.processes):
        each = number if process.stopped or process.lost_events else -1
        while each >= 0 and each not in lossy:
            lossy.add(each)
            each = recording.processes[each].parent
    return lossy


def _was_freed(recording: Recording, session: RecordedSession) -> bool:
    """Return whether a session was freed while its process continued to use ONNX Runtime."""
    if session.end_ns is None:
        return False
    others = [each.start_ns for each in recording.sessions if each.process == session.process]
    calls = [call.start_ns for call in process_of(recording, session).arrivals]
    return max(*others, *calls, 0) > session.end_ns


def _finding(recording: Recording, sessions: Sequence[RecordedSession], *, recreated: bool) -> Finding:
    frames = frames_of(recording, sessions[0])
    creation_ns = sum(session.creation_ns for session in sessions)
    share = min(1.0, creation_ns / max(recording.elapsed_ns, 1))
    known = [session.memory_bytes for session in sessions if session.memory_bytes is not None]
    grown = sum(size for size in known if size > 0)
    memory = f"; memory grew by {max(1, round(grown / 2**20))} MiB" if grown else ""
    n = len(sessions)
    processes = len({session.process for session in sessions})
    within = f" in {processes} processes" if processes > 1 else ""
    return Finding(
        code=CODE,
        what=(
            f"{amount(n, 'session')} of {model_name(recording.models[sessions[0].model])} "
            f"{'was' if n == 1 else 'were'} created and never called ({place(frames)}): creation took "
            f"{percent(share)} of the time"
        ),
        where=stack(frames),
        evidence=f"{duration(creation_ns)} of {duration(recording.elapsed_ns)}{within}{memory}",
        fix=(
            "pass the execution providers when creating the session: set_providers creates it again"
            if recreated
            else "create the session on first use, or not at all"
        ),
        share_ratio=share,
    )
