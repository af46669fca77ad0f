"""Which bytes come from memory, and which a cache still holds: what fits between one use of a value and the next.

A value that the node before has just made lies in the last-level cache if it fits, and so does a weight of the run
before if little was touched since. What was touched in between pushes the oldest out. The cache is taken for as good as
one can be (all of it is the model's, the least recently used goes first, of a value that fits partly that part stays),
because this is for floors: what must come from memory at least.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One node as it runs: bytes of the values that it reads and makes, by any key of the values."""

    node: str
    reads: Mapping[int, int] = field(default_factory=dict)
    writes: Mapping[int, int] = field(default_factory=dict)


def from_memory(steps: Sequence[Step], weights: Mapping[str, float], cache: int) -> dict[str, float]:
    """Estimate the bytes that each node moves to and from memory in a steady run.

    What a cache lost before it was read was written to memory as well: that counts for the node that made it.
    """
    # Two passes, each of which touches a node's weights, what it reads and what it makes.
    uses = _Uses(2 * sum(2 + len(step.reads) + len(step.writes) for step in steps))
    moved: dict[str, float] = {}
    # The first pass leaves the caches as an earlier run does; the second is counted.
    for counts in (False, True):
        maker: dict[int, str] = {}
        for step in steps:
            moved[step.node] = 0.0
            constants: tuple[Hashable, float] = (("weights", step.node), weights.get(step.node, 0.0))
            for value, size in (constants, *step.reads.items()):
                # Used since then, and the value itself: by as much as that is more than the cache holds, it
                # has been pushed out.
                missed = min(size, max(0.0, uses.since(value) + size - cache)) if counts else 0.0
                moved[step.node] += missed
                if isinstance(value, int) and value in maker:
                    moved[maker.pop(value)] += missed
                uses.touch(value, size)
            for value, size in step.writes.items():
                uses.touch(value, size)
                maker[value] = step.node
    return moved


class _Uses:
    """Bytes of different values that were used since the last use of one: sums over a binary indexed tree."""

    def __init__(self, most: int) -> None:
        self._sums = [0.0] * (most + 1)
        self._last: dict[Hashable, tuple[int, float]] = {}
        self._now = 0
        self._all = 0.0

    def since(self, value: Hashable) -> float:
        """Infinite for what was not used before."""
        if value not in self._last:
            return float("inf")
        at, total = self._last[value][0], 0.0
        while at:
            total += self._sums[at]
            at -= at & -at
        return self._all - total

    def touch(self, value: Hashable, size: float) -> None:
        """Use it now."""
        if value in self._last:
            at, before = self._last[value]
            self._add(at, -before)
        self._now += 1
        self._last[value] = (self._now, size)
        self._add(self._now, size)

    def _add(self, at: int, size: float) -> None:
        self._all += size
        while at < len(self._sums):
            self._sums[at] += size
            at += at & -at
