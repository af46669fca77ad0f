"""The threads of a session use more CPU time between its calls than in them.

What it is: a session with a thread pool that spins (the default) and is called with pauses.
Why it costs: after each operator the threads wait for work in a loop, for milliseconds, before they sleep. With pauses
    between calls this costs a CPU per thread, heat, and the time of other threads.
Evidence: CPU time of the session's own threads in sampled calls and between two sampled calls.
Fix and its safety: advice: allow_spinning=0, or one thread, which means no pool.
Example: a voice activity model that is called every 32 ms with the default settings
References: ONNX Runtime documentation, "Thread management: thread spinning".
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.records import Finding, RecordedSession
from ortune.rules._recordings import frames_of, is_spinning, model_name, place, stack
from ortune.rules.facts import Facts

CODE = "APP008"
_LEAST_NS = 10_000_000
"""Minimum CPU time between sampled calls to report."""
_LEAST_SHARE = 0.02
"""Minimum fraction of the application's CPU time to report."""
_LEAST_GAP_NS = 200_000
"""Minimum mean gap between calls; in shorter gaps, most CPU time is the recorder's."""


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding for sessions, by place of creation, that use more CPU time between calls than in them."""
    recording = facts.recording
    if recording is None:
        return
    places: dict[tuple[int, int], list[RecordedSession]] = {}
    for session in recording.sessions:
        if is_spinning(session) and session.threads:
            places.setdefault((session.model, session.place), []).append(session)
    for sessions in places.values():
        calls = [calls for session in sessions for calls in session.calls]
        inside_ns = sum(each.pool_in_ns for each in calls)
        between_ns = sum(each.pool_between_ns for each in calls)
        gaps_ns = sum(each.pool_between_wall_ns for each in calls)
        inspected = sum(each.inspected for each in calls)
        if between_ns < _LEAST_NS or between_ns <= inside_ns or gaps_ns < _LEAST_GAP_NS * inspected:
            continue
        of_all_ns = between_ns * sum(each.count for each in calls) / max(1, inspected)
        if of_all_ns < _LEAST_SHARE * recording.cpu_ns:
            continue
        frames = frames_of(recording, sessions[0])
        name = model_name(recording.models[sessions[0].model])
        yield Finding(
            code=CODE,
            what=(
                f"the threads of {name} use {between_ns / 1e6:.0f} ms of CPU time between sampled calls and "
                f"{inside_ns / 1e6:.0f} ms in them ({place(frames)})"
            ),
            where=stack(frames),
            evidence=f"{inspected} sampled calls",
            fix="set session.intra_op.allow_spinning=0 or intra_op_num_threads=1",
        )
