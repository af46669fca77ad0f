"""Where the time went: two sides of a comparison, category by category, operator by operator, node by node."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ortune.records import DifferenceRow, ProfileDifference
from ortune.trace.matching import SideNode, match

Floats = np.ndarray[Any, np.dtype[np.float64]]
Quantile = Callable[[float], float]
"""Two-sided 95 % quantile of Student's t for that many degrees of freedom."""

FEWEST = 3  # processes a side from which on a difference has an interval
MOST_ROWS = 2000


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
    """B minus A. Rows of ``nodes``, ``same_ns`` and ``rest_ns`` sum to the difference of the time that is in nodes."""
    categories = [
        _row(name, a.categories.get(name), b.categories.get(name), quantile)
        for name in dict.fromkeys([*a.categories, *b.categories])
    ]
    matches = match(a.nodes, b.nodes)
    matched = [_node_row(group, quantile) for group in matches.groups]
    told = _sorted(row for row in matched if _told(row))
    return ProfileDifference(
        a=a.label,
        b=b.label,
        a_wall_ns=float(a.wall_ns.mean()),
        b_wall_ns=float(b.wall_ns.mean()),
        a_processes=len(a.wall_ns),
        b_processes=len(b.wall_ns),
        categories=_sorted(row for row in categories if row.a_ns or row.b_ns),
        operators=_sorted(_operators(a.nodes, b.nodes, quantile)),
        nodes=told[:MOST_ROWS],
        by_name=matches.by_name,
        by_order=matches.by_order,
        same_ns=sum(row.difference_ns for row in matched if not _told(row)),
        rest_ns=sum(row.difference_ns for row in told[MOST_ROWS:]),
        only_a=tuple(n for row in matched if row.b_ns is None for n in row.a_nodes),
        only_b=tuple(n for row in matched if row.a_ns is None for n in row.b_nodes),
    )


def _node_row(group: tuple[list[SideNode], list[SideNode]], quantile: Quantile) -> DifferenceRow:
    a, b = group
    origins = list(dict.fromkeys(o for node in [*a, *b] for o in node.originals))
    first = (a or b)[0]
    name = origins[0] if origins else f"inserted: {first.purpose}" if first.purpose else first.name
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
    by_operator: dict[str, tuple[list[SideNode], list[SideNode]]] = {}
    for side, nodes in enumerate((a, b)):
        for node in nodes:
            by_operator.setdefault(node.op_type, ([], []))[side].append(node)
    for op, (mine, theirs) in by_operator.items():
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
