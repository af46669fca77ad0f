"""Matching of nodes that do the same work in two optimized graphs."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ortune.trace.naming import stem

Item = tuple[Any, Any]
"""A node as (side, index), where side is 0 or 1, or an original node as ("origin", name)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SideNode:
    """A node on one side of a profile comparison.

    Attributes:
        originals: Original nodes that the node replaces.
        purpose: Purpose of an inserted node; "" for all other nodes, or if unknown.
        ns: Mean self time per run in each profiled process, in nanoseconds (processes,).
        work: Operations and bytes of one run; None if unknown.
    """

    name: str
    op_type: str
    originals: tuple[str, ...]
    purpose: str = ""
    ns: np.ndarray[Any, np.dtype[np.float64]]
    work: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Matches:
    """Groups of matched nodes, each with the nodes of both sides.

    Attributes:
        by_name: Number of pairs that were matched by name and operator, since an origin was missing.
        by_order: Number of pairs that were matched by the order of the nodes with the same operator.
    """

    groups: list[tuple[list[SideNode], list[SideNode]]]
    by_name: int
    by_order: int


def match(
    a: Sequence[SideNode], b: Sequence[SideNode], counterparts: Mapping[str, str] | None = None
) -> Matches:
    """Group the nodes of two profiles by their original nodes, and inserted nodes by purpose.

    A fused node is grouped with all its parts on the other side. A node without a known origin is looked up by name
    among the other side's origins, since a fused node often keeps an original name. Nodes still unmatched are paired by
    operator and name (in order, if names differ only in a number that ONNX Runtime added), then by operator in order.
    The last step is skipped if both sides have origins in one model, since a node missing in the other graph was then
    really removed.

    Args:
        a: Nodes of side A.
        b: Nodes of side B.
        counterparts: Maps node names in B's model to names of the same nodes in A's model; None if both sides have
            the same model, or this is unknown. Equal names are then the same node.
    """
    sides = (a, b)

    def known_as(side: int, name: str) -> Hashable:
        return name if counterparts is None or side == 0 else counterparts.get(name, ("in B alone", name))

    # By origin: nodes that share an original node form one group, so a fused node is grouped with its parts.
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
    # With origins in one model, a node without a counterpart was removed and must not be paired by order.
    one_model = bool(origins[0] & origins[1])
    # A fused node often keeps the name of one of its parts, which identifies its origin.
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
        # Inserted nodes were matched by purpose. A node with origins may still match by name, unless counterparts
        # are known: then its name must not contradict them.
        lambda node: not (one_model and (node.purpose or (counterparts is not None and node.originals))),
    )
    by_order = _pair(
        groups,
        sides,
        lambda node: node.op_type,
        # Order is the weakest criterion, used only for nodes without origins and purpose.
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
    """Pair, in order, nodes with equal keys of one-sided groups if ``may`` is true; return the number of pairs."""
    # Queues, so the first node of a key meets the first: both graphs preserve the original order.
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
            same.popleft()  # another node of its group was matched meanwhile
        if same:
            groups.join((0, number), (1, same.popleft()))
            pairs += 1
    return pairs


class _Groups:
    """Disjoint sets of items; each set records the sides of its nodes."""

    def __init__(self) -> None:
        self._parent: dict[Item, Item] = {}
        self._members: dict[Item, list[Item]] = {}
        self._sides: dict[Item, set[Any]] = {}

    def add(self, item: Item) -> None:
        """Add an item as a separate set, unless some set already contains it."""
        if item not in self._parent:
            self._parent[item] = item
            self._members[item] = [item]
            self._sides[item] = {item[0]} - {"origin"}

    def join(self, one: Item, other: Item) -> None:
        """Merge the sets of two items."""
        self.add(one)
        self.add(other)
        # The smaller set is merged into the larger one, to keep joining fast for graphs with tens of thousands of
        # nodes.
        small, large = sorted((self._root(one), self._root(other)), key=lambda r: len(self._members[r]))
        if small != large:
            self._parent[small] = large
            self._members[large] += self._members.pop(small)
            self._sides[large] |= self._sides.pop(small)

    def one_sided(self, item: Item) -> bool:
        """Return whether an item's set has nodes of only one side."""
        return len(self._sides[self._root(item)]) == 1

    def all(self) -> Iterable[list[Item]]:
        """Return the disjoint sets, each as a list of its members."""
        return self._members.values()

    def _root(self, item: Item) -> Item:
        while self._parent[item] != item:
            # Path halving: every second item on the path then points to its grandparent.
            self._parent[item] = self._parent[self._parent[item]]
            item = self._parent[item]
        return item
