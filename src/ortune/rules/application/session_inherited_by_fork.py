"""A session that was created before a fork is called in the child, where its threads do not exist.

What it is: a session with a thread pool that a process created before it forked, and that the child calls.
Why it costs: fork copies memory and not threads. The child's copy of the session runs on the calling thread alone, and
    ONNX Runtime gives no warning.
Evidence: the threads of the session in the parent, and its calls in the children, as recorded.
Fix and its safety: advice: create the session in the child, for example in gunicorn's post_fork hook or in the
    initializer of a multiprocessing pool; or set intra_op_num_threads=1 if one thread is meant.
Example: ``gunicorn --preload`` with a session in a module of the application
References: Python documentation, "os.fork".
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.printable import amount
from ortune.records import Finding, RecordedSession
from ortune.rules._recordings import frames_of, model_name, place, stack
from ortune.rules.facts import Facts

CODE = "APP003"


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding for sessions of a recording that forked processes inherited and call."""
    recording = facts.recording
    if recording is None:
        return
    places: dict[tuple[int, int], list[RecordedSession]] = {}
    for session in recording.sessions:
        if session.inherited and session.inherited_threads and session.n_calls:
            places.setdefault((session.model, session.place), []).append(session)
    for sessions in places.values():
        frames = frames_of(recording, sessions[0])
        children = {session.process for session in sessions}
        calls, threads = sum(session.n_calls for session in sessions), sessions[0].inherited_threads
        processes = amount(len(children), "forked process calls", "forked processes call")
        yield Finding(
            code=CODE,
            what=(
                f"{processes} a session of {model_name(recording.models[sessions[0].model])} that was created before "
                f"the fork ({place(frames)}): its {threads + 1} threads became 1"
            ),
            where=stack(frames),
            evidence=f"{calls} calls on one thread each",
            fix="create the session after the fork, or set intra_op_num_threads=1",
        )
