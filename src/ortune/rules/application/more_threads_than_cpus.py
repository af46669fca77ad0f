"""Thread pools have more threads than the process, or all processes together, may use CPUs.

What it is: a pool that is larger than the CPUs of a process, by its affinity or by the quota of its control group; or
    several processes that call sessions at the same time, whose pools together are larger.
Why it costs: the default pool has one thread per core of the machine. Threads that wait for a CPU delay those that
    have one: each operator ends with its last thread. A quota is used up early, and then all threads stop.
Evidence: the threads of each session, the CPUs and the quota, as recorded.
Fix and its safety: advice: set the number of threads such that their sum fits.
Example: a web server with four workers that leave intra_op_num_threads at its default
References: microsoft/onnxruntime#22271.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from ortune.records import Finding, RecordedSession, Recording
from ortune.rules._recordings import allowed_cpus, frames_of, model_name, place, stack
from ortune.rules.facts import Facts

CODE = "APP007"
_LEAST_CALLS = 5


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding if one session of a recording, or the busy processes together, have more threads than CPUs."""
    recording = facts.recording
    if recording is None:
        return
    called = [s for s in recording.sessions if s.threads and not s.inherited and s.n_calls >= _LEAST_CALLS]
    alone = [
        s for s in called if 1 + (s.threads or 0) > allowed_cpus(recording, recording.processes[s.process])
    ]
    if alone:
        worst = max(alone, key=lambda session: session.threads or 0)
        allowed = allowed_cpus(recording, recording.processes[worst.process])
        limit = "the quota of its control group" if recording.cpu_quota is not None else "its affinity"
        yield Finding(
            code=CODE,
            what=(
                f"a session of {model_name(recording.models[worst.model])} runs on {1 + (worst.threads or 0)} threads, "
                f"but {limit} allows {allowed} CPU{'s' * (allowed != 1)} ({place(frames_of(recording, worst))})"
            ),
            where=stack(frames_of(recording, worst)),
            fix=f"set intra_op_num_threads={allowed}",
        )
        return
    yield from _together(recording, called)


def _together(recording: Recording, called: list[RecordedSession]) -> Iterator[Finding]:
    largest: dict[int, RecordedSession] = {}
    for session in called:
        now = largest.get(session.process)
        if now is None or (session.threads or 0) > (now.threads or 0):
            largest[session.process] = session
    at_once = _busiest(recording, largest)
    if len(at_once) < 2:
        return
    threads = sum(1 + (session.threads or 0) for session in at_once)
    allowed = max(allowed_cpus(recording, recording.processes[session.process]) for session in at_once)
    if threads <= allowed:
        return
    fair = max(1, math.floor(allowed / len(at_once)))
    frames = frames_of(recording, at_once[0])
    yield Finding(
        code=CODE,
        what=(
            f"{len(at_once)} processes call sessions at the same time with {threads} threads in all on {allowed} "
            f"CPU{'s' * (allowed != 1)} ({place(frames)})"
        ),
        where=stack(frames),
        fix=f"set intra_op_num_threads={fair} in each of them",
    )


def _busiest(recording: Recording, largest: dict[int, RecordedSession]) -> list[RecordedSession]:
    """Return one session per process, for the largest set of processes whose calls often overlapped in time."""
    changes: list[tuple[int, int, int]] = []
    for process in largest:
        for call in recording.processes[process].arrivals:
            changes += [(call.start_ns, 1, process), (call.start_ns + call.took_ns, -1, process)]
    inside = dict.fromkeys(largest, 0)
    overlaps: dict[frozenset[int], int] = {}
    for _, change, process in sorted(changes):
        inside[process] += change
        busy = frozenset(number for number, calls in inside.items() if calls > 0)
        if len(busy) > 1 and change > 0:
            overlaps[busy] = overlaps.get(busy, 0) + 1
    often = [(len(busy), sorted(busy)) for busy, times in overlaps.items() if times >= _LEAST_CALLS]
    return [largest[process] for process in max(often)[1]] if often else []
