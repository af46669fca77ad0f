"""Peak memory of a process that is fed several sizes in turn, in words, for all verbs that show a peak."""

from __future__ import annotations

import math

from ortune.records import OneSize, PeakInTurn
from ortune.show.numbers import memory

_ONE_SIZE: dict[OneSize, str] = {
    "given": "measured at the given input size",
    "unguessed": "measured at one input size",
    "refused": "measured at one input size, because the model accepts no other",
    "budget": "measured at one input size, because the budget is too small for several",
}


def sizes(peak: PeakInTurn) -> str:
    """Return the sizes that were fed in turn: "3 sizes in turn: frames=50; frames=100; frames=200"."""
    return f"{len(peak.sizes)} sizes in turn: {'; '.join(peak.sizes)}"


def peak_remark(peak: PeakInTurn | None) -> str:
    """Return a remark on the sizes behind a peak memory; "" if the model's sizes are fixed."""
    if peak is None:
        return ""
    if peak.peak_bytes is None:
        return _ONE_SIZE[peak.one_size]
    return f"{memory(peak.peak_bytes)} with {sizes(peak)}{largest(peak)}"


def largest(peak: PeakInTurn) -> str:
    """Return a phrase on the peak of a cold start with the largest size; "" if it was not measured."""
    if peak.largest_bytes is None:
        return ""
    return f"; {memory(peak.largest_bytes)} for a cold start with {peak.largest}"


def size(n_bytes: int) -> str:
    """Return a size in MiB, or in KiB if it is less than one MiB."""
    return memory(n_bytes) if abs(n_bytes) >= 2**20 else f"{math.ceil(n_bytes / 1024)} KiB"
