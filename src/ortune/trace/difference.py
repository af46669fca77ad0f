"""Where the time went: two sides of a comparison, category by category, operator by operator, node by node."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ortune.records import DifferenceRow, ProfileDifference

Floats = np.ndarray[Any, np.dtype[np.float64]]
Quantile = Callable[[float], float]
"""Two-sided 95 % quantile of Student's t for that many degrees of freedom."""

FEWEST = 3  # processes a side from which on a difference has an interval
MOST_ROWS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class SideNode:
    """One node of one side: mean own time in each profiled process, nanoseconds (processes,)."""

    name: str
    op_type: str
    originals: tuple[str, ...]
    ns: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class SideTimes:
    """One side, profiled in one process or more.

    Attributes:
        label: What it is called.
        wall_ns: Mean steady run of each process (processes,).
        categories: Of each process, by name (processes,).
        nodes: Every node of its optimised graph.
    """

    label: str
    wall_ns: Floats
    categories: Mapping[str, Floats]
    nodes: Sequence[SideNode]


def difference(a: SideTimes, b: SideTimes, quantile: Quantile) -> ProfileDifference:
    """B minus A. The rows of ``nodes`` sum to the difference of the time that is in nodes.

    Nodes are matched by the nodes of the user's model that they stand for; a fused node on one side meets all its
    parts on the other. Nodes without a known origin meet those of the same name and operator, then, in order, those
    of the same operator that are left.
    """
    categories = [
        _row(name, a.categories.get(name), b.categories.get(name), quantile)
        for name in dict.fromkeys([*a.categories, *b.categories])
    ]
    matched = [_node_row(group, quantile) for group in match(a.nodes, b.nodes)]
    told, noise = [row for row in matched if _told(row)], [row for row in matched if not _told(row)]
    return ProfileDifference(
        a=a.label,
        b=b.label,
        a_wall_ns=float(a.wall_ns.mean()),
        b_wall_ns=float(b.wall_ns.mean()),
        a_processes=len(a.wall_ns),
        b_processes=len(b.wall_ns),
        categories=_sorted(row for row in categories if row.a_ns or row.b_ns),
        operators=_sorted(_operators(a.nodes, b.nodes, quantile)),
        nodes=_sorted(told)[:MOST_ROWS],
        same_ns=sum(row.difference_ns for row in noise),
        only_a=tuple(n for row in matched if row.b_ns is None for n in row.a_nodes),
        only_b=tuple(n for row in matched if row.a_ns is None for n in row.b_nodes),
    )


def match(a: Sequence[SideNode], b: Sequence[SideNode]) -> list[tuple[list[SideNode], list[SideNode]]]:
    """Groups of nodes that do the same work, each with what it has on either side."""
    groups = _Groups()
    for side, nodes in enumerate((a, b)):
        for number, node in enumerate(nodes):
            groups.find((side, number))
            for origin in node.originals:
                groups.join((side, number), ("origin", origin))
    loose = [
        [n for n in range(len(nodes)) if len(groups.members((side, n))) == 1 and not nodes[n].originals]
        for side, nodes in enumerate((a, b))
    ]
    for key in (lambda node: (node.name, node.op_type), lambda node: node.op_type):
        waiting: dict[Any, list[int]] = {}
        for n in loose[1]:
            waiting.setdefault(key(b[n]), []).append(n)
        left: list[list[int]] = [[], []]
        for n in loose[0]:
            same = waiting.get(key(a[n]))
            if same:
                groups.join((0, n), (1, same.pop(0)))
            else:
                left[0].append(n)
        left[1] = [n for rest in waiting.values() for n in rest]
        loose = left
    found = []
    for members in groups.all():
        mine = [a[m[1]] for m in members if m[0] == 0]
        theirs = [b[m[1]] for m in members if m[0] == 1]
        if mine or theirs:
            found.append((mine, theirs))
    return found


class _Groups:
    """Disjoint sets."""

    def __init__(self) -> None:
        self.parent: dict[Any, Any] = {}
        self._members: dict[Any, list[Any]] = {}

    def find(self, item: Any) -> Any:
        if item not in self.parent:
            self.parent[item] = item
            self._members[item] = [item]
        while self.parent[item] != item:
            self.parent[item] = self.parent[self.parent[item]]
            item = self.parent[item]
        return item

    def join(self, one: Any, other: Any) -> None:
        small, large = sorted((self.find(one), self.find(other)), key=lambda r: len(self._members[r]))
        if small != large:
            self.parent[small] = large
            self._members[large] += self._members.pop(small)

    def members(self, item: Any) -> list[Any]:
        return self._members[self.find(item)]

    def all(self) -> Iterable[list[Any]]:
        return self._members.values()


def _node_row(group: tuple[list[SideNode], list[SideNode]], quantile: Quantile) -> DifferenceRow:
    a, b = group
    origins = list(dict.fromkeys(o for node in [*a, *b] for o in node.originals))
    name = origins[0] if origins else (a or b)[0].name
    if len(origins) > 1:
        name = f"{name} (+{len(origins) - 1})"
    kinds = [" + ".join(dict.fromkeys(n.op_type for n in side)) for side in (a, b)]
    op = kinds[0] if kinds[0] == kinds[1] or not kinds[1] else " -> ".join(k for k in kinds if k)
    row = _row(name, _total(a), _total(b), quantile)
    return DifferenceRow(
        name=name,
        op_type=op,
        a_ns=row.a_ns,
        b_ns=row.b_ns,
        difference_ns=row.difference_ns,
        low_ns=row.low_ns,
        high_ns=row.high_ns,
        a_nodes=tuple(n.name for n in a),
        b_nodes=tuple(n.name for n in b),
    )


def _operators(a: Sequence[SideNode], b: Sequence[SideNode], quantile: Quantile) -> Iterable[DifferenceRow]:
    for op in dict.fromkeys(node.op_type for node in [*a, *b]):
        mine, theirs = ([n for n in side if n.op_type == op] for side in (a, b))
        yield _row(op, _total(mine), _total(theirs), quantile)


def _total(nodes: Sequence[SideNode]) -> Floats | None:
    return np.sum([node.ns for node in nodes], axis=0) if nodes else None


def _row(name: str, a: Floats | None, b: Floats | None, quantile: Quantile) -> DifferenceRow:
    """One row, with Welch's interval over processes."""
    means = [None if side is None else float(side.mean()) for side in (a, b)]
    change = (means[1] or 0.0) - (means[0] or 0.0)
    sides = [side for side in (a, b) if side is not None]
    low = high = None
    if sides and all(len(side) >= FEWEST for side in sides):
        parts = [float(side.var(ddof=1)) / len(side) for side in sides]
        error = sum(parts)
        weights = sum(p * p / (len(side) - 1) for p, side in zip(parts, sides, strict=True))
        width = quantile(error * error / weights) * error**0.5 if weights else 0.0
        low, high = change - width, change + width
    return DifferenceRow(
        name=name, a_ns=means[0], b_ns=means[1], difference_ns=change, low_ns=low, high_ns=high
    )


def _told(row: DifferenceRow) -> bool:
    """Whether the difference is more than noise, or is not known to be noise."""
    return row.low_ns is None or row.high_ns is None or not row.low_ns <= 0.0 <= row.high_ns


def _sorted(rows: Iterable[DifferenceRow]) -> tuple[DifferenceRow, ...]:
    return tuple(sorted(rows, key=lambda row: (-abs(row.difference_ns), row.name)))
