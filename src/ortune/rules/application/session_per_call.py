"""A session is created for each call, or for each object that makes a few calls.

What it is: at least four sessions of one model, with the same settings and providers in one process, that have fewer
    than three calls each on average.
Why it costs: creating a session reads, optimises and allocates the model again, and starts a thread pool. For small
    models, this takes longer than the calls.
Evidence: the number of sessions and calls, the time of the creations, and the call stack, as recorded.
Fix and its safety: advice: create the session once and keep it, for example in a module-level cache. Sessions may be
    called from several threads at the same time.
Example: a function that begins with ``session = onnxruntime.InferenceSession(path)``
References: ONNX Runtime documentation, "Python API: InferenceSession".
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.printable import amount
from ortune.records import Finding
from ortune.rules._recordings import frames_of, group_equal, place, stack
from ortune.rules._words import percent
from ortune.rules.facts import Facts

CODE = "APP001"


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding for each place of a recording that creates sessions for a few calls each."""
    recording = facts.recording
    if recording is None:
        return
    for group in (few for every in group_equal(recording) for few in every.for_few_calls()):
        frames = frames_of(recording, group.sessions[-1])
        share = min(1.0, group.creation_ns / max(recording.elapsed_ns, 1))
        calls = amount(group.n_calls, "call")
        yield Finding(
            code=CODE,
            what=(
                f"{len(group.sessions)} sessions of {group.name} for {calls} ({place(frames)}): creating them takes "
                f"{percent(share)} of the time"
            ),
            where=stack(frames),
            evidence=(
                f"{group.creation_ns / 1e9:.3g} s of {recording.elapsed_ns / 1e9:.3g} s in process "
                f"{group.process.pid}"
            ),
            fix="create the session once and keep it for all calls",
            share_ratio=share,
        )
