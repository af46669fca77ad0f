"""Outputs of a model are requested and never read.

What it is: calls that request several outputs, in code that reads only some of them: an index right after the call, an
    unpacking with variables that are not used, or a variable that is only indexed. All other code is unknown.
Why it costs: each requested output is copied into an array of its own. Sequences and maps, such as the probabilities
    of scikit-learn's classifiers, are converted into Python objects.
Evidence: the bytecode of the calling code, and the shapes of the outputs, as recorded.
Fix and its safety: advice: pass the names of the outputs that are read to ``run``.
Example: ``session.run(None, inputs)[0]`` for a model with three outputs
References: ONNX Runtime documentation, "Python API: InferenceSession.run".
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.records import Finding, RecordedCalls
from ortune.rules._recordings import model_name, place, stack
from ortune.rules._words import are
from ortune.rules.facts import Facts

CODE = "APP019"
_LEAST_CALLS = 4


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding for each model and place of a recording with outputs that the calling code does not read."""
    recording = facts.recording
    if recording is None:
        return
    places: dict[tuple[int, int], list[RecordedCalls]] = {}
    for session in recording.sessions:
        for calls in session.calls:
            if calls.count > calls.failed:
                places.setdefault((session.model, calls.place), []).append(calls)
    for (model, where), every in places.items():
        unread = _unread(every)
        count = sum(calls.count for calls in every)
        if not unread or count < _LEAST_CALLS:
            continue
        frames = recording.places[where] if where >= 0 else ()
        outputs = every[0].outputs
        kinds = ", ".join(
            f"output {n}: {outputs[n].dtype} {list(outputs[n].shape or ())}" for n in unread[:3]
        )
        yield Finding(
            code=CODE,
            severity="note",
            what=(
                f"{len(unread)} of {len(outputs)} outputs of {model_name(recording.models[model])} "
                f"{are(len(unread))} never read ({place(frames)})"
            ),
            where=stack(frames),
            evidence=f"{count:,} calls; {kinds}{', ...' if len(unread) > 3 else ''}",
            fix="pass only the names of the outputs that are read to run()",
        )


def _unread(every: list[RecordedCalls]) -> list[int]:
    """Return the indices of the outputs that none of the calls reads; [] if unknown of any, or their outputs differ."""
    numbers = {len(calls.outputs) for calls in every}
    known = [calls.outputs_read for calls in every if calls.outputs_read is not None]
    if len(numbers) != 1 or len(known) != len(every):
        return []
    return [n for n in range(numbers.pop()) if not any(n in read for read in known)]
