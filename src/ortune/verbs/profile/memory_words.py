"""Sentences about the memory of a profiled run at its peak, by owner."""

from __future__ import annotations

from collections.abc import Mapping

from ortune.records import MemoryKind, MemoryOwner, MemoryProfile, ProfileResult
from ortune.show.memory_words import size
from ortune.show.numbers import shorten
from ortune.show.profile_nodes import NAME, names

SOURCES = {
    "profile": "allocator figures",
    "liveness": "estimated from sizes and lifetimes, because the profile has no allocator figures",
}
"""Description of each source of memory sizes."""
VALUES = "values"
OWNERS: dict[MemoryKind, str] = {
    "value": VALUES,
    "values": VALUES,
    "weights": "weights, as stored",
    "session": "held before the run, such as packed weights",
    "inputs": "inputs",
    "rounding": "the arena's rounding and gaps",
    "planned": "gaps in the block planned for later runs",
    "shared": "buffers that two values share",
    "libraries": "the process before the session",
    "runtime": "ONNX Runtime itself, loading included",
}
"""Description of each kind of memory owner."""


def memory_line(result: ProfileResult) -> str:
    """Return a sentence on the peak memory, its owners, and the unused part of the arena; "" if memory is unknown."""
    m = result.memory
    if m is None:
        return ""
    called = names(result)
    text = f"{size(memory_total(m))} at most"
    parts = {words: sum(o.bytes for o in m.owners if OWNERS[o.kind] == words) for words in OWNERS.values()}
    owners = []
    for words, size_bytes in sorted(parts.items(), key=lambda part: -part[1]):
        if size_bytes:
            owners.append(f"{words} {size(size_bytes)}{_largest(m, called) if words == VALUES else ''}")
    text += f": {', '.join(owners)}" if owners else _largest(m, called)
    untouched = memory_total(m) - (m.resident_bytes or memory_total(m))
    text += f"; {size(untouched)} of it never used" if untouched > 0 else ""
    text += f"; the arena holds {size(m.held_bytes)}" if m.held_bytes is not None else ""
    return f"{text} ({memory_source(m)})"


def memory_total(memory_profile: MemoryProfile) -> int:
    """Return the bytes of all memory at the peak, or the allocator's peak if the total was not computed."""
    return memory_profile.peak_bytes if memory_profile.total_bytes is None else memory_profile.total_bytes


def memory_owner(owner: MemoryOwner, called: Mapping[str, str]) -> str:
    """Return the name of a memory owner: the user's node, or a description."""
    if owner.kind == "value":
        return called.get(owner.name, owner.name)
    return f"{owner.count} smaller values" if owner.kind == "values" else OWNERS[owner.kind]


def _largest(memory_profile: MemoryProfile, called: Mapping[str, str]) -> str:
    """Return a parenthesis with the node at which values use the most memory and the largest values at that point."""
    first = [f"{shorten(called.get(name, name), 32)} {size(n)}" for name, n in memory_profile.at_peak[:2]]
    parts = (
        [f"at {shorten(called.get(memory_profile.peak_node, memory_profile.peak_node), NAME)}"]
        if memory_profile.peak_node
        else []
    )
    parts += [f"largest: {', '.join(first)}"] if first else []
    return f" ({'; '.join(parts)})" if parts else ""


def memory_source(memory_profile: MemoryProfile) -> str:
    """Return the source of the memory sizes and the run that they describe, as text."""
    run = "" if memory_profile.run is None else f"run {memory_profile.run + 1}, "
    return f"{run}{SOURCES[memory_profile.source]}"
