"""Memory use over the nodes of a run: the peak, and the owners of memory at the peak."""

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
"""Producer index of values that exist before the first node (inputs)."""
_CHUNK = 256
"""Granularity of ONNX Runtime's arena in bytes; it allocates multiples of this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifetime:
    """The lifetime of a value in a graph; nodes are numbered in execution order.

    Attributes:
        name: Name of the value.
        bytes: Size of the value in bytes.
        first: Index of the producer, or ``BEFORE``.
        last: Index of the last reader, or the number of nodes for a graph output. A value without a reader is freed
            after its producer, and ``last`` equals ``first``.
    """

    name: str
    bytes: int
    first: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Resident:
    """Resident memory of the profiled process.

    Attributes:
        peak_bytes: Peak of the resident memory.
        base_bytes: Resident memory before the session was created.
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
    """Build the memory profile from the allocator's statistics; return None if the trace lacks them.

    Statistics are taken after each node, before its inputs are freed, from the allocator with the most memory;
    temporary buffers of a node are not visible. From the second run with the same shapes on, ONNX Runtime allocates one
    planned block, and the statistics hardly change; the first run with these shapes is then used. ``peak_bytes`` is the
    peak of all runs with these shapes, ``held_bytes`` that of all runs.

    Args:
        trace: The profile.
        run: Index of the run.
        nodes: Nodes of the executed graph, as for ``liveness``.
        values: Lifetimes of values, to name the owners at the peak. Without these, the owners are nodes whose outputs
            had probably not been freed at the peak.
        weights_bytes: Bytes of the weights; a trace lacks weights that were packed when the model was loaded.
        resident: Resident memory of the process, if it was measured.
    """
    there = _allocator(trace)
    if not len(there):
        return None
    most_held = int(trace.held_bytes[there].max())
    alike = there[np.isin(trace.run[there], _runs_with_same_shapes(trace, there, run))]
    rows = _telling(trace, alike, run)
    if not len(rows):
        return None
    names = [trace.name[row] for row in rows.tolist()]
    in_use, arena = trace.in_use_bytes[rows], trace.held_bytes[rows]
    at = int(np.argmax(in_use))
    step = _step(trace, int(rows[at]), nodes)
    # Inputs belong to the caller and are not in the allocator's statistics.
    inside = [value for value in values if value.first != BEFORE]
    if inside and step is not None:
        alive = _alive(inside, step)
        before = _beyond_values(trace, rows, nodes, inside)
    else:
        alive = _outputs_alive(names[: at + 1], in_use[: at + 1], trace.output_bytes[rows][: at + 1])
        made_bytes = trace.output_bytes[rows].tolist()
        # Memory in use before any value was created: the minimum, excluding a node's own output.
        before = min(int(n) - _rounded(size) for n, size in zip(in_use, made_bytes, strict=True))
    peak_bytes = int(trace.in_use_bytes[alike].max())
    of_values = sum(size for _, size in alive)
    # Values may share memory and then sum to more than is in use; nothing remains for the session.
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
        owners += _owners_outside_allocator(
            sum(owner.bytes for owner in owners), weights_bytes or 0, inputs, resident
        )
    else:
        resident = None  # resident memory does not include the device
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
    """Build the memory profile from value sizes and last uses, without allocator statistics.

    Inputs are counted throughout, since the caller keeps them, and outputs until the end. Temporary buffers and memory
    kept by the arena are not included.
    """
    in_use = _in_use(values, len(nodes))
    at = int(np.argmax(in_use)) if len(in_use) else 0
    alive = _alive(values, at)
    owners = [
        *_named(alive),
        *_owners_outside_allocator(sum(n for _, n in alive), weights_bytes or 0, 0, resident),
    ]
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
    """Return the minimum over ``rows`` of the memory in use beyond the values that exist at that row."""
    by_node: list[int] = _in_use([replace(v, bytes=_rounded(v.bytes)) for v in values], len(nodes)).tolist()
    steps = [(row, _step(trace, row, nodes)) for row in rows.tolist()]
    return min(int(trace.in_use_bytes[row]) - by_node[step] for row, step in steps if step is not None)


def _in_use(values: Sequence[Lifetime], n_nodes: int) -> Numbers:
    """Return the bytes of the values that exist while each node runs (nodes,)."""
    # Sizes are added where values begin and subtracted after their last reader, then accumulated.
    change = np.zeros(n_nodes + 1, dtype=np.int64)
    for value in values:
        first = max(value.first, 0)
        change[min(first, n_nodes)] += value.bytes
        # A value exists while its last reader runs.
        end = n_nodes if value.first == BEFORE else min(max(value.last, first) + 1, n_nodes)
        if end < n_nodes:
            change[end] -= value.bytes
    in_use: Numbers = np.cumsum(change)[:n_nodes]
    return in_use


def _named(alive: Sequence[tuple[str, int]]) -> list[MemoryOwner]:
    """Return one owner for each of the largest values, and one for all others combined."""
    owners = [MemoryOwner(kind="value", name=name, bytes=size) for name, size in alive[:OWNERS]]
    rest = alive[OWNERS:]
    return [*owners, MemoryOwner(kind="values", bytes=sum(size for _, size in rest), count=len(rest))]


def _owners_outside_allocator(
    in_use: int, weights_bytes: int, inputs_bytes: int, resident: Resident | None
) -> list[MemoryOwner]:
    """Return the owners of the process's memory outside the allocator: weights, inputs, libraries and runtime."""
    owners = [
        MemoryOwner(kind="weights", bytes=weights_bytes),
        MemoryOwner(kind="inputs", bytes=inputs_bytes),
    ]
    if resident is not None:
        accounted = in_use + weights_bytes + inputs_bytes + resident.base_bytes
        owners.append(MemoryOwner(kind="libraries", bytes=resident.base_bytes))
        # Negative if some allocated memory was never touched.
        owners.append(MemoryOwner(kind="runtime", bytes=max(0, resident.peak_bytes - accounted)))
    return owners


def _sum(owners: Sequence[MemoryOwner], resident: Resident | None) -> dict[str, Any]:
    """Return the fields of a memory profile that depend on its owners."""
    there = sorted((owner for owner in owners if owner.bytes), key=lambda owner: -owner.bytes)
    return {
        "owners": tuple(there),
        "total_bytes": sum(owner.bytes for owner in there),
        "resident_bytes": None if resident is None else resident.peak_bytes,
    }


def _allocator(trace: Trace) -> Numbers:
    """Return the rows with statistics of the allocator with the most memory; each provider has its own."""
    there = trace.in_use_bytes != ABSENT
    if not there.any():
        return np.empty(0, dtype=np.int64)
    most = int(np.argmax(np.where(there, trace.in_use_bytes, ABSENT)))
    rows: Numbers = np.flatnonzero(there & (trace.provider.codes == trace.provider.codes[most]))
    return rows


def _runs_with_same_shapes(trace: Trace, there: Numbers, run: int) -> Numbers:
    """Return the runs with the same shapes as ``run``, including ``run``, judged by equal sums of tensor sizes."""
    mine = there[trace.run[there] != NO_RUN]
    of, n = trace.run[mine], max(trace.n_runs, run + 1)
    # Equal sums of sizes indicate equal shapes, which the allocator's statistics lack.
    figures = [
        np.bincount(of, weights=weights, minlength=n)
        for weights in (None, trace.output_bytes[mine], trace.activation_bytes[mine])
    ]
    alike: Numbers = np.flatnonzero(np.all([figure == figure[run] for figure in figures], axis=0))
    return alike


def _telling(trace: Trace, rows: Numbers, run: int) -> Numbers:
    """Return the rows of a run, or of the first similar run if ONNX Runtime had planned the run's memory by then."""
    asked: Numbers = rows[trace.run[rows] == run]
    first: Numbers = rows[trace.run[rows] == trace.run[rows].min(initial=run)]
    # Graph outputs are outside the planned block, so some figures still change. Fewer than half as many changes as
    # in the first run mean that the block was planned.
    planned = 2 * _moves(trace.in_use_bytes[asked]) < _moves(trace.in_use_bytes[first])
    return first if planned else asked


def _moves(in_use: Numbers) -> int:
    return int(np.count_nonzero(np.diff(in_use)))


def _step(trace: Trace, row: int, nodes: Sequence[str]) -> int | None:
    """Return the index in ``nodes`` of a row's node or of the enclosing node; None if ``nodes`` contains neither."""
    places = {name: place for place, name in enumerate(nodes)}
    while row != NO_PARENT:
        if trace.name[row] in places:
            return places[trace.name[row]]
        row = int(trace.parent[row])
    return None


def _alive(values: Sequence[Lifetime], step: int) -> list[tuple[str, int]]:
    """Return the values that exist while a node runs, largest first."""
    there = [v for v in values if v.first <= step and (v.first == BEFORE or step <= max(v.last, v.first))]
    return [(v.name, v.bytes) for v in sorted(there, key=lambda v: (-v.bytes, v.name)) if v.bytes]


def _outputs_alive(names: Sequence[str], in_use: Numbers, output_bytes: Numbers) -> list[tuple[str, int]]:
    """Return the outputs that exist after the last of these nodes, largest first.

    A node adds its outputs to the memory in use; if the increase is smaller, the rest was freed since the previous
    node. The allocator does not record which outputs were freed: the largest that fit are assumed, the newest first if
    sizes are equal. A buffer that is reused in place looks the same and passes to its new owner.
    """
    alive: list[tuple[str, int]] = []
    before = int(in_use[0]) - _rounded(int(output_bytes[0]))
    for name, now, size in zip(names, in_use.tolist(), output_bytes.tolist(), strict=True):
        size_kept = _rounded(size)
        # 10 MB in use, an output of 4 MB, then 12 MB in use: 2 MB were freed.
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
    """Return at most ``POINTS`` points: the highest of each of several equal stretches of nodes, so no peak is lost."""
    n = len(names)
    edges = np.linspace(0, n, min(n, POINTS) + 1).astype(int).tolist()
    highest = [max(range(a, b), key=in_use.__getitem__) for a, b in pairwise(edges)]
    return tuple(
        MemoryPoint(
            node=names[i], in_use_bytes=in_use[i], held_bytes=None if arena[i] == ABSENT else arena[i]
        )
        for i in highest
    )
