"""Memory over the nodes of a run: its peak, and what holds it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from ortune.catalogue.providers import ON_CPU
from ortune.records import MemoryOwner, MemoryPoint, MemoryProfile
from ortune.trace.table import ABSENT, NO_PARENT, NO_RUN, Numbers, Trace

POINTS = 500
OWNERS = 10
BEFORE = -1
"""A value that is there before the first node: an input."""
_CHUNK = 256
"""ONNX Runtime's arena gives out multiples of this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifetime:
    """A value of a graph and how long it is needed; nodes are numbered in the order in which they run.

    Attributes:
        name: The value's.
        bytes: Its size.
        first: The node that makes it, or ``BEFORE``.
        last: The last node that reads it; the number of nodes for an output of the graph. What nobody reads is gone
            after the node that makes it: ``last`` is ``first`` then.
    """

    name: str
    bytes: int
    first: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Resident:
    """Resident memory of the process that was profiled.

    Attributes:
        peak_bytes: Most that it was.
        base_bytes: What it was before there was a session.
    """

    peak_bytes: int
    base_bytes: int


def memory(
    trace: Trace,
    run: int,
    nodes: Sequence[str] = (),
    values: Sequence[Lifetime] = (),
    weights_bytes: int | None = None,
    resident: Resident | None = None,
) -> MemoryProfile | None:
    """Build the memory profile from the allocator's figures; None if the trace lacks them.

    They are those after each node, before its inputs are given back, of the allocator that holds most: scratch space
    that a node takes and returns does not show. From the second run with the same shapes on ONNX Runtime takes one
    block for all that it planned, and the figures hardly move; the first run with these shapes is then used.
    ``peak_bytes`` is that of all runs with them, ``held_bytes`` that of all runs.

    Args:
        trace: The profile.
        run: The run to tell of, from 0.
        nodes: Of the graph that ran, as for ``liveness``.
        values: The same, to name those that hold the peak. Without them nodes are named, whose outputs nothing of that
            size was given back for since.
        weights_bytes: Of the parameters; a trace does not tell those that were packed when the model was loaded.
        resident: Of the process, where it was watched.
    """
    there = _allocator(trace)
    if not len(there):
        return None
    most_held = int(trace.held_bytes[there].max())
    alike = there[np.isin(trace.run[there], _alike(trace, there, run))]
    rows = _telling(trace, alike, run)
    if not len(rows):
        return None
    names = [trace.name[row] for row in rows.tolist()]
    in_use, arena = trace.in_use_bytes[rows], trace.held_bytes[rows]
    at = int(np.argmax(in_use))
    step = _step(trace, int(rows[at]), nodes)
    # Inputs are the caller's: they are not in the allocator's figures.
    inside = [value for value in values if value.first != BEFORE]
    if inside and step is not None:
        alive = _alive(inside, step)
        before = _beyond_values(trace, rows, nodes, inside)
    else:
        alive = _outputs_alive(names[: at + 1], in_use[: at + 1], trace.output_bytes[rows][: at + 1])
        made_bytes = trace.output_bytes[rows].tolist()
        # The least that was in use beside a node's own output: what was there before any value was made.
        before = min(int(n) - _rounded(size) for n, size in zip(in_use, made_bytes, strict=True))
    peak_bytes = int(trace.in_use_bytes[alike].max())
    of_values = sum(size for _, size in alive)
    # Values may share memory, so that they sum up to more than is in use: then nothing is left for the session.
    before = max(0, min(before, int(in_use[at]) - of_values))
    rest = int(in_use[at]) - before - of_values
    owners = [
        *_named(alive),
        MemoryOwner(kind="session", bytes=before),
        MemoryOwner(kind="rounding" if rest > 0 else "shared", bytes=rest),
        MemoryOwner(kind="planned", bytes=peak_bytes - int(in_use[at])),
    ]
    if trace.provider[int(rows[at])] in ON_CPU:
        inputs = sum(value.bytes for value in values if value.first == BEFORE)
        owners += _beside(sum(owner.bytes for owner in owners), weights_bytes or 0, inputs, resident)
    else:
        resident = None  # the process does not tell of the device
    return MemoryProfile(
        source="profile",
        run=int(trace.run[rows[0]]),
        peak_bytes=peak_bytes,
        peak_node=names[at],
        held_bytes=most_held if most_held != ABSENT else None,
        weights_bytes=weights_bytes,
        at_peak=tuple(alive[:OWNERS]),
        **_sum(owners, resident),
        points=_points(names, in_use.tolist(), arena.tolist()),
    )


def liveness(
    nodes: Sequence[str],
    values: Sequence[Lifetime],
    weights_bytes: int | None = None,
    resident: Resident | None = None,
) -> MemoryProfile:
    """Build the memory profile from value sizes and last uses, without allocator figures.

    Inputs are held throughout, as the caller holds them; outputs until the end. Scratch space and what the arena keeps
    are not in it.
    """
    in_use = _in_use(values, len(nodes))
    at = int(np.argmax(in_use)) if len(in_use) else 0
    alive = _alive(values, at)
    owners = [*_named(alive), *_beside(sum(n for _, n in alive), weights_bytes or 0, 0, resident)]
    return MemoryProfile(
        source="liveness",
        peak_bytes=int(in_use[at]) if len(in_use) else sum(v.bytes for v in values if v.first == BEFORE),
        peak_node=nodes[at] if nodes else "",
        weights_bytes=weights_bytes,
        at_peak=tuple(alive[:OWNERS]),
        **_sum(owners, resident),
        points=_points(nodes, in_use.tolist(), [ABSENT] * len(nodes)),
    )


def _beyond_values(trace: Trace, rows: Numbers, nodes: Sequence[str], values: Sequence[Lifetime]) -> int:
    """Return the memory in use at each of these rows, without the values that exist there."""
    by_node: list[int] = _in_use([replace(v, bytes=_rounded(v.bytes)) for v in values], len(nodes)).tolist()
    steps = [(row, _step(trace, row, nodes)) for row in rows.tolist()]
    return min(int(trace.in_use_bytes[row]) - by_node[step] for row, step in steps if step is not None)


def _in_use(values: Sequence[Lifetime], n_nodes: int) -> Numbers:
    """Return bytes of the values that are there while each node runs (nodes,)."""
    # Sizes are added where values begin and taken off behind their last reader: their running sum is what is
    # there.
    change = np.zeros(n_nodes + 1, dtype=np.int64)
    for value in values:
        first = max(value.first, 0)
        change[min(first, n_nodes)] += value.bytes
        # What the last reader still needs is there while it runs.
        end = n_nodes if value.first == BEFORE else min(max(value.last, first) + 1, n_nodes)
        if end < n_nodes:
            change[end] -= value.bytes
    in_use: Numbers = np.cumsum(change)[:n_nodes]
    return in_use


def _named(alive: Sequence[tuple[str, int]]) -> list[MemoryOwner]:
    """Return the largest values, and all others together."""
    owners = [MemoryOwner(kind="value", name=name, bytes=size) for name, size in alive[:OWNERS]]
    rest = alive[OWNERS:]
    return [*owners, MemoryOwner(kind="values", bytes=sum(size for _, size in rest), count=len(rest))]


def _beside(
    in_use: int, weights_bytes: int, inputs_bytes: int, resident: Resident | None
) -> list[MemoryOwner]:
    """Return the memory of a process outside of its allocator."""
    owners = [
        MemoryOwner(kind="weights", bytes=weights_bytes),
        MemoryOwner(kind="inputs", bytes=inputs_bytes),
    ]
    if resident is not None:
        accounted = in_use + weights_bytes + inputs_bytes + resident.base_bytes
        owners.append(MemoryOwner(kind="libraries", bytes=resident.base_bytes))
        # Less than nothing is left where some of what was taken was never touched.
        owners.append(MemoryOwner(kind="runtime", bytes=max(0, resident.peak_bytes - accounted)))
    return owners


def _sum(owners: Sequence[MemoryOwner], resident: Resident | None) -> dict[str, Any]:
    """Return the fields of a profile that owners fill."""
    there = sorted((owner for owner in owners if owner.bytes), key=lambda owner: -owner.bytes)
    return {
        "owners": tuple(there),
        "total_bytes": sum(owner.bytes for owner in there),
        "resident_bytes": None if resident is None else resident.peak_bytes,
    }


def _allocator(trace: Trace) -> Numbers:
    """Return rows with figures of the allocator that holds most: each provider has its own."""
    there = trace.in_use_bytes != ABSENT
    if not there.any():
        return np.empty(0, dtype=np.int64)
    most = int(np.argmax(np.where(there, trace.in_use_bytes, ABSENT)))
    rows: Numbers = np.flatnonzero(there & (trace.provider.codes == trace.provider.codes[most]))
    return rows


def _alike(trace: Trace, there: Numbers, run: int) -> Numbers:
    """The runs, this one among them, whose nodes read and make as many bytes: those of the same shapes."""
    mine = there[trace.run[there] != NO_RUN]
    of, n = trace.run[mine], max(trace.n_runs, run + 1)
    # Equal sums of sizes stand for equal shapes, which the allocator's figures do not have.
    figures = [
        np.bincount(of, weights=weights, minlength=n)
        for weights in (None, trace.output_bytes[mine], trace.activation_bytes[mine])
    ]
    alike: Numbers = np.flatnonzero(np.all([figure == figure[run] for figure in figures], axis=0))
    return alike


def _telling(trace: Trace, rows: Numbers, run: int) -> Numbers:
    """Return the rows that are the run's, or the first one's where ORT had planned all by then."""
    asked: Numbers = rows[trace.run[rows] == run]
    first: Numbers = rows[trace.run[rows] == trace.run[rows].min(initial=run)]
    # Outputs of the graph lie outside the planned block, so that some figures still move.
    # Fewer than half as many changes as in the first run: the block was planned by then.
    planned = 2 * _moves(trace.in_use_bytes[asked]) < _moves(trace.in_use_bytes[first])
    return first if planned else asked


def _moves(in_use: Numbers) -> int:
    return int(np.count_nonzero(np.diff(in_use)))


def _step(trace: Trace, row: int, nodes: Sequence[str]) -> int | None:
    """Return the place among these nodes of the one that ran in a row, or of the one whose body it was in."""
    places = {name: place for place, name in enumerate(nodes)}
    while row != NO_PARENT:
        if trace.name[row] in places:
            return places[trace.name[row]]
        row = int(trace.parent[row])
    return None


def _alive(values: Sequence[Lifetime], step: int) -> list[tuple[str, int]]:
    """Return the values that are there while a node runs, the largest first."""
    there = [v for v in values if v.first <= step and (v.first == BEFORE or step <= max(v.last, v.first))]
    return [(v.name, v.bytes) for v in sorted(there, key=lambda v: (-v.bytes, v.name)) if v.bytes]


def _outputs_alive(names: Sequence[str], in_use: Numbers, output_bytes: Numbers) -> list[tuple[str, int]]:
    """Return the outputs that are there after the last of these nodes, the largest first.

    A node adds its outputs; what the figure rose by less was given back since the node before. Which of the outputs
    that was the allocator does not say: the largest that fit into it, the newest of equal ones, are taken for it.
    A buffer reused in place looks the same, and passes to its new owner.
    """
    alive: list[tuple[str, int]] = []
    before = int(in_use[0]) - _rounded(int(output_bytes[0]))
    for name, now, size in zip(names, in_use.tolist(), output_bytes.tolist(), strict=True):
        size_kept = _rounded(size)
        # 10 MB in use, an output of 4 MB, and then 12 MB in use: 2 MB were given back.
        freed = before + size_kept - now
        while freed >= _CHUNK:
            fitting = [i for i, (_, size_alive) in enumerate(alive) if size_alive <= freed]
            if not fitting:
                break
            gone = max(fitting, key=lambda i: (alive[i][1], i))
            freed -= alive.pop(gone)[1]
        if size_kept:
            alive.append((name, size_kept))
        before = now
    return sorted(alive, key=lambda item: (-item[1], item[0]))


def _rounded(size: int) -> int:
    return -(-size // _CHUNK) * _CHUNK if size > 0 else 0


def _points(names: Sequence[str], in_use: Sequence[int], arena: Sequence[int]) -> tuple[MemoryPoint, ...]:
    """At most ``POINTS``: of more rows, the highest of each equal stretch, so that no peak is lost."""
    n = len(names)
    edges = np.linspace(0, n, min(n, POINTS) + 1).astype(int).tolist()
    highest = [max(range(a, b), key=in_use.__getitem__) for a, b in pairwise(edges)]
    return tuple(
        MemoryPoint(
            node=names[i], in_use_bytes=in_use[i], held_bytes=None if arena[i] == ABSENT else arena[i]
        )
        for i in highest
    )
