"""Most of what a model is fed is padding.

What it is: an input with "mask" in its name in which more than half of the elements are zero, over the sampled calls.
    Counted are integer masks of shape [batch, tokens], which are the first two dimensions of another input. Boolean
    masks and those with "pad" in their name are left out, because many of them are 1 for padding. So are masks that
    are zero in all sampled calls of a place.
Why it costs: the model computes padding like any other element. A text of 6 tokens that is padded to 256 takes the
    time of 256.
Evidence: elements of the mask, and how many of them are not zero, over the sampled calls.
Fix and its safety: advice: pad to the longest text of the batch instead of a fixed length, and put texts of similar
    length into one batch. Outputs then have other shapes.
Example: ``tokenizer.enable_padding(length=256)``
References: Hugging Face Tokenizers documentation, "enable_padding".
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.records import Finding, RecordedCalls
from ortune.rules._recordings import model_name, place, stack
from ortune.rules._words import percent
from ortune.rules.facts import Facts

CODE = "APP009"
_FULL = 0.5
_LEAST_CALLS = 4


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding for each model and place with sampled calls that are mostly padding."""
    recording = facts.recording
    if recording is None:
        return
    places: dict[tuple[int, int], list[RecordedCalls]] = {}
    for session in recording.sessions:
        for calls in session.calls:
            if calls.mask_elements and _marks_tokens(calls):
                places.setdefault((session.model, calls.place), []).append(calls)
    for (model, where), every in places.items():
        inspected = sum(calls.inspected for calls in every)
        full = sum(calls.mask_set for calls in every) / sum(calls.mask_elements for calls in every)
        if inspected < _LEAST_CALLS or full >= _FULL:
            continue
        frames = recording.places[where] if where >= 0 else ()
        name = model_name(recording.models[model])
        yield Finding(
            code=CODE,
            severity="note",
            what=f"{percent(1 - full)} of the masked input of {name} is padding ({place(frames)})",
            where=stack(frames),
            evidence=f"the mask of {inspected} sampled calls",
            fix="pad to the longest text of each batch instead of a fixed length",
        )


def _marks_tokens(calls: RecordedCalls) -> bool:
    """Return whether the masks of the calls are known to be 1 for each token of a text and 0 for padding."""
    masks = [value for value in calls.inputs if "mask" in value.name.lower()]
    others = [value.shape[:2] for value in calls.inputs if value not in masks and value.shape is not None]
    return calls.mask_set > 0 and all(
        value.dtype != "bool"
        and "pad" not in value.name.lower()
        and value.shape is not None
        and len(value.shape) == 2
        and value.shape in others
        for value in masks
    )
