"""Differences between two profiles, by category, operator and node."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from ortune.records import DifferenceRow, ProfileDifference, fused_with
from ortune.trace.matching import SideNode, match
from ortune.trace.table import Floats

Widths = Callable[[Floats, Floats, Floats], Floats]
"""Returns half-widths of simultaneous intervals from differences, standard errors and degrees of freedom (n,)."""

FEWEST = 3  # minimum samples per side for an interval
PARTS = 10
MOST_ROWS = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class SideTimes:
    """Times of one side, profiled in one or more processes; samples are process means, or the ``parts`` of one process.

    Attributes:
        label: Name of the side.
        processes: Number of processes.
        wall_ns: Mean time of a steady run in each sample (samples,).
        categories: Time by category, for each sample (samples,).
        nodes: Nodes of the optimized graph.
    """

    label: str
    processes: int
    wall_ns: Floats
    categories: Mapping[str, Floats]
    nodes: Sequence[SideNode]


def parts(by_run: Floats) -> Floats:
    """Average a table (rows, runs) over each of up to ``PARTS`` consecutive parts of the runs; shape (rows, parts).

    Neighbouring runs are correlated, so treating them as independent would overstate the evidence. The mean of the
    parts equals that of all runs.
    """
    runs = by_run.shape[1]
    if not runs:
        return np.zeros((by_run.shape[0], 1))
    n = min(PARTS, runs)
    # Parts of equal length: leading runs that do not fill one are omitted here, and included by the mean below.
    means = by_run[:, runs % n :].reshape(by_run.shape[0], n, -1).mean(axis=2)
    whole: Floats = means + (by_run.mean(axis=1) - means.mean(axis=1))[:, None]
    return whole


def difference(
    a: SideTimes, b: SideTimes, widths: Widths, counterparts: Mapping[str, str] | None = None
) -> ProfileDifference:
    """Return the difference B minus A; ``nodes``, ``same_ns`` and ``rest_ns`` sum to the difference in node time."""
    names = dict.fromkeys([*a.categories, *b.categories])
    (wall,) = _rows([("", a.wall_ns, b.wall_ns)], widths)
    matches = match(a.nodes, b.nodes, counterparts)
    matched = _node_rows(matches.groups, widths, counterparts or {})
    rows = _sorted(row for row in matched if _is_real(row))
    # Without intervals every row is shown, and rows of different work come first.
    rows = tuple(sorted(rows, key=lambda row: row.low_ns is None and row.same_work))
    return ProfileDifference(
        a=a.label,
        b=b.label,
        a_wall_ns=float(a.wall_ns.mean()),
        b_wall_ns=float(b.wall_ns.mean()),
        low_ns=wall.low_ns,
        high_ns=wall.high_ns,
        a_processes=a.processes,
        b_processes=b.processes,
        categories=_sorted(
            row
            for row in _rows(
                [(name, a.categories.get(name), b.categories.get(name)) for name in names], widths
            )
            if row.a_ns or row.b_ns
        ),
        operators=_sorted(_rows(_operators(a.nodes, b.nodes), widths)),
        nodes=rows[:MOST_ROWS],
        by_name=matches.by_name,
        by_order=matches.by_order,
        same_ns=sum(row.difference_ns for row in matched if not _is_real(row)),
        rest_ns=sum(row.difference_ns for row in rows[MOST_ROWS:]),
        only_a=tuple(n for row in matched if row.b_ns is None for n in row.a_nodes),
        only_b=tuple(n for row in matched if row.a_ns is None for n in row.b_nodes),
    )


def _node_rows(
    groups: Sequence[tuple[list[SideNode], list[SideNode]]],
    widths: Widths,
    counterparts: Mapping[str, str],
) -> list[DifferenceRow]:
    rows = _rows([(_name(a, b, counterparts), _total(a), _total(b)) for a, b in groups], widths)
    works = [(_work(a), _work(b)) for a, b in groups]
    return [
        msgspec.structs.replace(
            row,
            op_type=_operator(a, b),
            a_nodes=tuple(node.name for node in a),
            b_nodes=tuple(node.name for node in b),
            a_flops=mine[0],
            a_bytes=mine[1],
            b_flops=theirs[0],
            b_bytes=theirs[1],
        )
        for row, (a, b), (mine, theirs) in zip(rows, groups, works, strict=True)
    ]


def _work(nodes: Sequence[SideNode]) -> tuple[float, float] | tuple[None, None]:
    """Return the total (operations, bytes) of nodes; (None, None) if the work of any is unknown or there are none."""
    work = [node.work for node in nodes if node.work is not None]
    if not nodes or len(work) < len(nodes):
        return None, None
    return sum(flops for flops, _ in work), sum(size for _, size in work)


def _name(a: Sequence[SideNode], b: Sequence[SideNode], counterparts: Mapping[str, str]) -> str:
    """Return a row name: A's original nodes, then those only in B; nodes with the most work come first in each part."""
    mine, theirs = (sorted(side, key=lambda node: -(node.work or (0.0, 0.0))[0]) for side in (a, b))
    names = [name for node in mine for name in node.originals]
    names += [counterparts.get(name, name) for node in theirs for name in node.originals]
    origins = list(dict.fromkeys(names))
    first = (mine or theirs)[0]
    name = origins[0] if origins else f"inserted: {first.purpose}" if first.purpose else first.name
    return f"{name} {fused_with(origins)}".rstrip()


def _operator(a: Sequence[SideNode], b: Sequence[SideNode]) -> str:
    kinds = [" + ".join(dict.fromkeys(node.op_type for node in side)) for side in (a, b)]
    return kinds[0] if kinds[0] == kinds[1] or not kinds[1] else " -> ".join(k for k in kinds if k)


def _operators(
    a: Sequence[SideNode], b: Sequence[SideNode]
) -> list[tuple[str, Floats | None, Floats | None]]:
    by_operator: dict[str, tuple[list[SideNode], list[SideNode]]] = {}
    for side, nodes in enumerate((a, b)):
        for node in nodes:
            by_operator.setdefault(node.op_type, ([], []))[side].append(node)
    return [(op, _total(mine), _total(theirs)) for op, (mine, theirs) in by_operator.items()]


def _total(nodes: Sequence[SideNode]) -> Floats | None:
    return np.sum([node.ns for node in nodes], axis=0) if nodes else None


def _rows(sides: Sequence[tuple[str, Floats | None, Floats | None]], widths: Widths) -> list[DifferenceRow]:
    """Return rows with simultaneous intervals, which widen with the number of rows."""
    means = [tuple(None if side is None else float(side.mean()) for side in (a, b)) for _, a, b in sides]
    halves: Floats | None = None
    if all(side is None or len(side) >= FEWEST for _, a, b in sides for side in (a, b)):
        estimates = np.array([_estimate(a, b) for _, a, b in sides]).reshape(-1, 4)
        changes, errors, degrees, larger = estimates.T
        halves = widths(changes, errors, degrees)
        # A half-width of the log ratio, converted to nanoseconds by the larger mean, so the interval of the
        # difference excludes 0 exactly if that of the ratio excludes 1.
        halves = np.where(larger > 0.0, larger * -np.expm1(-halves), halves)
    rows = []
    for i, ((name, _, _), (a_ns, b_ns)) in enumerate(zip(sides, means, strict=True)):
        change = (b_ns or 0.0) - (a_ns or 0.0)
        half = None if halves is None else float(halves[i])
        rows.append(
            DifferenceRow(
                name=name,
                a_ns=a_ns,
                b_ns=b_ns,
                difference_ns=change,
                low_ns=None if half is None else change - half,
                high_ns=None if half is None else change + half,
            )
        )
    return rows


def _estimate(a: Floats | None, b: Floats | None) -> tuple[float, float, float, float]:
    """Return (change from A to B, its standard error, degrees of freedom (Welch), larger mean).

    Noise grows with the measured time, so both sides have similar noise on a logarithmic scale, and the change is the
    logarithm of B over A. If a side is missing or not positive, the change is B minus A, and the larger mean is 0.
    """
    there = [side for side in (a, b) if side is not None]
    means = [float(side.mean()) for side in there]
    ratio = len(there) == 2 and min(means) > 0.0
    scales = means if ratio else [1.0] * len(there)
    # The variance of the logarithm of a mean is that of the mean over its square (delta method).
    shares = [float(side.var(ddof=1)) / len(side) / s**2 for side, s in zip(there, scales, strict=True)]
    # Degrees of freedom by Welch and Satterthwaite.
    weights = sum(p * p / (len(side) - 1) for p, side in zip(shares, there, strict=True))
    degrees = sum(shares) ** 2 / weights if weights else 1.0
    if ratio:
        return math.log(means[1] / means[0]), sum(shares) ** 0.5, degrees, max(means)
    change = (float(b.mean()) if b is not None else 0.0) - (float(a.mean()) if a is not None else 0.0)
    return change, sum(shares) ** 0.5, degrees, 0.0


def _is_real(row: DifferenceRow) -> bool:
    """Return whether a row's difference exceeds noise, cannot be compared with noise, or is due to different work."""
    clear = row.low_ns is None or row.high_ns is None or not row.low_ns <= 0.0 <= row.high_ns
    return clear or not row.same_work


def _sorted(rows: Iterable[DifferenceRow]) -> tuple[DifferenceRow, ...]:
    return tuple(sorted(rows, key=lambda row: (-abs(row.difference_ns), row.name)))
