"""Sessions are created on an event loop that already serves calls.

What it is: sessions that a thread with a running asyncio event loop created after the first call of the process.
Why it costs: creating a session takes milliseconds to seconds, and all other tasks of the event loop wait for it.
    A creation at start-up, before the first call, is not reported.
Evidence: the number of these sessions and the time of their creations, as recorded.
Fix and its safety: advice: create the session at start-up, or in a thread: ``await asyncio.to_thread(...)``.
Example: an ``async def`` that creates an object with its own session for each connection
References: Python documentation, "Developing with asyncio: Running Blocking Code".
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.records import Finding, RecordedSession
from ortune.rules._recordings import frames_of, model_name, place, stack
from ortune.rules.facts import Facts

CODE = "APP004"
_LEAST_NS = 20_000_000
"""Minimum total creation time to report."""


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding for sessions of a recording that were created on the event loop after the first call."""
    recording = facts.recording
    if recording is None:
        return
    late: dict[tuple[int, int], list[RecordedSession]] = {}
    for session in recording.sessions:
        process = recording.processes[session.process]
        first_ns = min((call.start_ns for call in process.arrivals), default=session.start_ns)
        if session.on_event_loop and not session.inherited and session.start_ns > first_ns:
            late.setdefault((session.model, session.place), []).append(session)
    for sessions in late.values():
        took_ns = sum(session.creation_ns for session in sessions)
        if took_ns < _LEAST_NS:
            continue
        frames = frames_of(recording, sessions[0])
        model = model_name(recording.models[sessions[0].model])
        many = (
            f"1 session of {model} was" if len(sessions) == 1 else f"{len(sessions)} sessions of {model} were"
        )
        longest_ns = max(session.creation_ns for session in sessions)
        yield Finding(
            code=CODE,
            what=(
                f"{many} created on the event loop after the first call ({place(frames)}): it was blocked for "
                f"{took_ns / 1e6:.0f} ms"
            ),
            where=stack(frames),
            evidence=f"at most {longest_ns / 1e6:.0f} ms at a time",
            fix="create the session at start-up, or in a thread (asyncio.to_thread)",
        )
