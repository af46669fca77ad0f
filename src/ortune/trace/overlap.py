"""Nodes that run at the same time share that time: what each has of a run adds up to the run."""

from __future__ import annotations

from typing import Any

import numpy as np

from ortune.trace.table import NO_PARENT, Trace

Floats = np.ndarray[Any, np.dtype[np.float64]]


def shares(trace: Trace, runs: range) -> Floats:
    """Each row's own part of the run's wall time, nanoseconds (rows,).

    In a run whose nodes follow each other this is the node's own time. Where nodes overlap (parallel execution mode)
    each instant is divided equally among those that run then.

    Args:
        trace: The profile.
        runs: The runs that count; rows of others get their own time.
    """
    found = trace.self_ns.astype(np.float64)
    top = trace.parent == NO_PARENT
    for run in runs:
        rows = np.flatnonzero(trace.run == run)
        if len(np.unique(trace.thread[rows])) < 2:
            continue
        first = rows[top[rows]]
        order = first[np.argsort(trace.start_ns[first], kind="stable")]
        ends = trace.start_ns[order] + trace.duration_ns[order]
        # One step of the clock may lie on both sides of a border.
        if (trace.start_ns[order][1:] + trace.resolution_ns >= ends[:-1]).all():
            continue
        found[rows] = _divided(trace, rows)
    return found


def _divided(trace: Trace, rows: np.ndarray[Any, np.dtype[np.int64]]) -> Floats:
    """The time of the run divided among the rows that are active; a parent is while none of its children is."""
    start = trace.start_ns[rows]
    end = start + trace.duration_ns[rows]
    times = np.concatenate([end, start])
    opens = np.concatenate([np.zeros(len(rows), bool), np.ones(len(rows), bool)])
    which = np.concatenate([np.arange(len(rows)), np.arange(len(rows))])
    # At the same instant ends come before starts, but a row that takes no time starts before it ends.
    empty = np.concatenate([start == end, np.zeros(len(rows), bool)])
    order = np.lexsort((empty, opens & ~np.concatenate([empty[: len(rows)], start == end]), times))
    place = {int(row): i for i, row in enumerate(rows)}
    parent = [place.get(int(p), NO_PARENT) for p in trace.parent[rows]]
    children = [0] * len(rows)
    active: set[int] = set()
    found = np.zeros(len(rows))
    last = 0
    for i in order.tolist():
        now, row = int(times[i]), int(which[i])
        if active and now > last:
            working = [r for r in active if not children[r]]
            for r in working:
                found[r] += (now - last) / len(working)
        last = now
        step = 1 if opens[i] else -1
        if step > 0:
            active.add(row)
        else:
            active.discard(row)
        if parent[row] != NO_PARENT:
            children[parent[row]] += step
    return found
