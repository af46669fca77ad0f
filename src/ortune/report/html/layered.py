"""Places for the nodes of a graph: rows from what reads nothing down to what is read last (Sugiyama's scheme).

Nodes that are not drawn are passed through: who reads one of them reads, further on, what it read.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

SWEEPS = 8
MOST_EDGES = 24
"""Into one node, where nodes that are left out have many readers and much that they read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Where nodes stand, in columns and rows of one box each; columns are fractions where that straightens lines.

    Attributes:
        places: (column, row) of each drawn node.
        edges: (from, to, whether nodes between them are left out).
        columns, rows: The size of it all.
    """

    places: Mapping[str, tuple[float, int]]
    edges: tuple[tuple[str, str, bool], ...]
    columns: float
    rows: int


def layout(reads: Mapping[str, Sequence[str]], drawn: set[str]) -> Layout:
    """Places the drawn nodes of a graph.

    Args:
        reads: What each node reads; names that are no key are left out, and so is what closes a circle.
        drawn: The nodes to place, out of these.
    """
    order = _in_order(reads)
    nearest, edges = _contracted(order, reads, drawn)
    row: dict[str, int] = {}
    for name in order:
        if name in drawn:
            row[name] = 1 + max((row[other] for other, _ in nearest[name]), default=-1)
    rows: list[list[str]] = [[] for _ in range(1 + max(row.values(), default=-1))]
    for name, at in row.items():
        rows[at].append(name)
    above = {name: [other for other, _ in nearest[name]] for name in row}
    below: dict[str, list[str]] = {name: [] for name in row}
    for start, end, _ in edges:
        below[start].append(end)
    column = {name: float(i) for each in rows for i, name in enumerate(each)}
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        for each in rows if down else reversed(rows):
            _straighten(each, above if down else below, column)
    least = min(column.values(), default=0.0)
    places = {name: (column[name] - least, row[name]) for name in row}
    width = 1 + max((at for at, _ in places.values()), default=-1.0)
    return Layout(places=places, edges=tuple(edges), columns=width, rows=len(rows))


def _in_order(reads: Mapping[str, Sequence[str]]) -> list[str]:
    """Every node after what it reads; a circle is cut where it closes."""
    order: list[str] = []
    state: dict[str, int] = {}
    for first in reads:
        waiting = [first]
        while waiting:
            name = waiting[-1]
            if state.get(name) is None:
                state[name] = 0
                waiting += [other for other in reversed(reads[name]) if other in reads and other not in state]
                continue
            waiting.pop()
            if state[name] == 0:
                state[name] = 1
                order.append(name)
    return order


def _contracted(
    order: Sequence[str], reads: Mapping[str, Sequence[str]], drawn: set[str]
) -> tuple[dict[str, list[tuple[str, bool]]], list[tuple[str, str, bool]]]:
    """What each drawn node reads, through those that are left out, and the same as edges."""
    position = {name: i for i, name in enumerate(order)}
    seen: dict[str, list[tuple[str, bool]]] = {}  # what each node leads back to
    edges = []
    for name in order:
        found: dict[str, bool] = {}
        for other in reads[name]:
            if other not in position or position[other] >= position[name]:
                continue
            for start, through in [(other, False)] if other in drawn else [(s, True) for s, _ in seen[other]]:
                found[start] = found.get(start, True) and through
        # The latest ones tell most of where a node stands.
        kept = sorted(found, key=position.__getitem__)[-MOST_EDGES:]
        seen[name] = [(start, found[start]) for start in kept]
        if name in drawn:
            edges += [(start, name, through) for start, through in seen[name]]
    return seen, edges


def _straighten(names: list[str], beside: Mapping[str, Sequence[str]], column: dict[str, float]) -> None:
    """Moves a row's nodes below (or above) the middle of their neighbours, a column apart at least."""
    wanted = {
        name: sum(column[other] for other in beside[name]) / len(beside[name])
        if beside[name]
        else column[name]
        for name in names
    }
    names.sort(key=lambda name: (wanted[name], column[name]))
    left, right = dict(wanted), dict(wanted)
    for before, name in itertools.pairwise(names):
        left[name] = max(left[name], left[before] + 1.0)
    for name, before in zip(names[-2::-1], names[:0:-1], strict=True):
        right[name] = min(right[name], right[before] - 1.0)
    for name in names:
        column[name] = (left[name] + right[name]) / 2
