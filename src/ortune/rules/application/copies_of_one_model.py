"""Several sessions of one model exist at the same time in one process.

What it is: sessions of one model with the same settings and providers that exist and are called in one process at the
    same time.
Why it costs: each has its own copy of the weights, its own memory arena and its own thread pool. One session can be
    called from several threads at the same time.
Evidence: the number of sessions that existed at the same time, as recorded.
Fix and its safety: advice: share one session. Keep separate ones only if they must not wait for each other's threads.
Example: an object per connection that creates its own session
References: ONNX Runtime documentation, "Thread management".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ortune.records import Finding
from ortune.rules._recordings import frames_of, group_equal, place, stack
from ortune.rules.facts import Facts

CODE = "APP002"


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding for each model with several live, called sessions in one process of a recording."""
    recording = facts.recording
    if recording is None:
        return
    for every in group_equal(recording):
        group = every.without(every.for_few_calls())
        called = [session for session in group.sessions if session.n_calls]
        live = replace(group, sessions=called).live()
        if live < 2:
            continue
        frames = frames_of(recording, group.sessions[-1])
        yield Finding(
            code=CODE,
            what=f"{live} sessions of {group.name} exist at the same time in one process ({place(frames)})",
            where=stack(frames),
            evidence=f"{len(group.sessions)} sessions were created in process {group.process.pid}",
            fix="share one session: it can be called from several threads at the same time",
        )
