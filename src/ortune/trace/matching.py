"""Which nodes of two optimised graphs do the same work."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ortune.trace.naming import stem

Item = tuple[Any, Any]
"""A node as (side, number), side 0 or 1; or ("origin", name), a node of the user's model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SideNode:
    """One node of one side of a profile comparison.

    Attributes:
        originals: Nodes of the user's model that it replaces.
        purpose: What an inserted node is for, "" for others and where not known.
        ns: Mean self time in each profiled process, nanoseconds (processes,).
        work: Operations and bytes of one run; None if not known.
    """

    name: str
    op_type: str
    originals: tuple[str, ...]
    purpose: str = ""
    ns: np.ndarray[Any, np.dtype[np.float64]]
    work: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Matches:
    """Groups of nodes, each with what it has on either side.

    Attributes:
        by_name: Pairs that were joined by name and operator, since an origin was missing.
        by_order: Pairs that were joined because they are the next of their operator on either side.
    """

    groups: list[tuple[list[SideNode], list[SideNode]]]
    by_name: int
    by_order: int


def match(
    a: Sequence[SideNode], b: Sequence[SideNode], counterparts: Mapping[str, str] | None = None
) -> Matches:
    """Pair the nodes of two profiles by their original nodes, and inserted nodes by purpose.

    A fused node on one side meets all its parts on the other. A node whose origin is not known is looked for among the
    origins of the other side, since a fused node often keeps a name of the model. What has met nobody then meets nodes
    of the same operator and name (in order, where names differ in a number that ONNX Runtime gave), and after these
    nodes of the same operator in order: the latter not where both sides have their origins from one model, as a node
    that is not in the other graph has really gone.

    Args:
        a: One side.
        b: The other.
        counterparts: Nodes of B's model to those of A's model that they are; None if both have theirs from one
            model, or where that is not known: then equal names are one node.
    """
    sides = (a, b)

    def known_as(side: int, name: str) -> Hashable:
        return name if counterparts is None or side == 0 else counterparts.get(name, ("in B alone", name))

    # First by origin: nodes of both sides that share an original node form one group, so a fused node meets its parts.
    groups = _Groups()
    for side, nodes in enumerate(sides):
        for number, node in enumerate(nodes):
            groups.add((side, number))
            for origin in node.originals:
                groups.join((side, number), ("origin", known_as(side, origin)))
            if node.purpose and not node.originals:
                what, _, near = node.purpose.partition(" for ")
                key = ("inserted", node.op_type, what, known_as(side, near) if near else "")
                groups.join((side, number), ("origin", key))
    origins = [
        {known_as(side, origin) for node in nodes for origin in node.originals}
        for side, nodes in enumerate(sides)
    ]
    # With origins of one model, a node without a counterpart was really removed and must not be paired by order.
    one_model = bool(origins[0] & origins[1])
    # A fused node often keeps the name of one of its parts, which tells its origin where nothing else does.
    by_name = 0
    for side, nodes in enumerate(sides):
        for number, node in enumerate(nodes):
            if not node.originals and node.name in origins[1 - side]:
                groups.join((side, number), ("origin", node.name))
                by_name += 1
    by_name += _pair(
        groups,
        sides,
        lambda node: (stem(node.name), node.op_type),
        # An inserted node has met its like by purpose already. A node with origins may still be looked for by name,
        # unless it is known which nodes of the two models are one: then its name must not contradict that.
        lambda node: not (one_model and (node.purpose or (counterparts is not None and node.originals))),
    )
    by_order = _pair(
        groups,
        sides,
        lambda node: node.op_type,
        # Order is the weakest tie: only for nodes of which nothing else is known.
        lambda node: not (one_model and (node.originals or node.purpose)),
    )
    pairs = []
    for members in groups.all():
        mine = [a[number] for side, number in members if side == 0]
        theirs = [b[number] for side, number in members if side == 1]
        if mine or theirs:
            pairs.append((mine, theirs))
    return Matches(groups=pairs, by_name=by_name, by_order=by_order)


def _pair(
    groups: _Groups,
    sides: Sequence[Sequence[SideNode]],
    key: Callable[[SideNode], Hashable],
    may: Callable[[SideNode], bool],
) -> int:
    """Joins nodes of equal keys in order, those that may and whose group is on one side alone; how many pairs."""
    # Queues, so that of several nodes of one key the first meets the first: both graphs have kept the user's order.
    waiting: dict[Hashable, deque[int]] = {}
    for number, node in enumerate(sides[1]):
        if may(node) and groups.one_sided((1, number)):
            waiting.setdefault(key(node), deque()).append(number)
    pairs = 0
    for number, node in enumerate(sides[0]):
        if not may(node) or not groups.one_sided((0, number)):
            continue
        same = waiting.get(key(node))
        while same and not groups.one_sided((1, same[0])):
            same.popleft()  # another node of its group has met somebody meanwhile
        if same:
            groups.join((0, number), (1, same.popleft()))
            pairs += 1
    return pairs


class _Groups:
    """Disjoint sets of items, each with the sides that it has nodes of."""

    def __init__(self) -> None:
        self._parent: dict[Item, Item] = {}
        self._members: dict[Item, list[Item]] = {}
        self._sides: dict[Item, set[Any]] = {}

    def add(self, item: Item) -> None:
        """Add an item as a set of its own, where it is not there yet."""
        if item not in self._parent:
            self._parent[item] = item
            self._members[item] = [item]
            self._sides[item] = {item[0]} - {"origin"}

    def join(self, one: Item, other: Item) -> None:
        """Make one set of two."""
        self.add(one)
        self.add(other)
        # The smaller set into the larger one, so that a graph of tens of thousands of nodes is joined in a moment.
        small, large = sorted((self._root(one), self._root(other)), key=lambda r: len(self._members[r]))
        if small != large:
            self._parent[small] = large
            self._members[large] += self._members.pop(small)
            self._sides[large] |= self._sides.pop(small)

    def one_sided(self, item: Item) -> bool:
        """Return whether an item's set has nodes of one side alone."""
        return len(self._sides[self._root(item)]) == 1

    def all(self) -> Iterable[list[Item]]:
        """Return every set."""
        return self._members.values()

    def _root(self, item: Item) -> Item:
        while self._parent[item] != item:
            # Path halving: every second item on the way points to its grandparent from now on.
            self._parent[item] = self._parent[self._parent[item]]
            item = self._parent[item]
        return item
