"""Estimate of memory traffic: the bytes that a cache cannot retain between two uses of a value.

A value is in the last-level cache if it was just produced and fits, or if little data was touched since its last use
(such as a weight in the previous run). Newer data evicts the oldest. The cache is assumed to be ideal (used only by the
model, least recently used data evicted first, partial values kept), because floors need the minimum traffic.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutedNode:
    """One executed node, with the bytes of the values that it reads and writes, keyed by any id of the value."""

    node: str
    reads: Mapping[int, int] = field(default_factory=dict)
    writes: Mapping[int, int] = field(default_factory=dict)


def from_memory(steps: Sequence[ExecutedNode], weights: Mapping[str, float], cache: int) -> dict[str, float]:
    """Return the estimated bytes that each node moves to and from memory in a steady run, by node name.

    A value that was evicted before it was read must have been written to memory, which counts for its producer.
    """
    # Two passes, each touching a node's weights, inputs and outputs.
    uses = _Uses(2 * sum(2 + len(step.reads) + len(step.writes) for step in steps))
    moved: dict[str, float] = {}
    # The first pass leaves the cache as an earlier run does; the second is counted.
    for counts in (False, True):
        maker: dict[int, str] = {}
        for step in steps:
            moved[step.node] = 0.0
            constants: tuple[Hashable, float] = (("weights", step.node), weights.get(step.node, 0.0))
            for value, size in (constants, *step.reads.items()):
                # The excess of the value and everything used since over the cache size was evicted.
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
    """Computes the bytes of distinct values used since the last use of a value, with a binary indexed tree."""

    def __init__(self, most: int) -> None:
        self._sums = [0.0] * (most + 1)
        self._last: dict[Hashable, tuple[int, float]] = {}
        self._now = 0
        self._all = 0.0

    def since(self, value: Hashable) -> float:
        """Return the bytes used since the last use of a value; infinite if it was never used."""
        if value not in self._last:
            return float("inf")
        at, total = self._last[value][0], 0.0
        while at:
            total += self._sums[at]
            at -= at & -at
        return self._all - total

    def touch(self, value: Hashable, size: float) -> None:
        """Record that a value of ``size`` bytes is used now."""
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
