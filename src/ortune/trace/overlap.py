"""Division of time among nodes that run simultaneously, so that the parts of all nodes sum to the time of the run."""

from __future__ import annotations

import numpy as np

from ortune.trace.table import NO_PARENT, Floats, Numbers, Trace


def shares(trace: Trace, runs: range) -> Floats:
    """Return the part of the run's wall time that each row accounts for, in nanoseconds (rows,).

    If nodes run one after another, this is the self time. If nodes overlap (parallel execution mode), each instant is
    divided equally among the nodes that run at that instant.
    """
    own = trace.self_ns.astype(np.float64)
    of_these = np.flatnonzero((trace.run >= runs.start) & (trace.run < runs.stop))
    if not len(of_these) or (trace.thread[of_these] == trace.thread[of_these[0]]).all():
        # On one thread, nodes run one after another.
        return own
    order = of_these[np.argsort(trace.run[of_these], kind="stable")]
    borders = np.searchsorted(trace.run[order], np.arange(runs.start, runs.stop + 1))
    for begin, end in zip(borders[:-1].tolist(), borders[1:].tolist(), strict=True):
        rows = order[begin:end]
        if _overlap(trace, rows):
            own[rows] = _divided(trace, rows)
    return own


def _overlap(trace: Trace, rows: Numbers) -> bool:
    """Return whether any main-graph nodes overlap in time by more than one clock step."""
    first = rows[trace.parent[rows] == NO_PARENT]
    if not len(first) or (trace.thread[rows] == trace.thread[rows[0]]).all():
        return False
    first = first[np.argsort(trace.start_ns[first], kind="stable")]
    ends = trace.start_ns[first] + trace.duration_ns[first]
    return bool((trace.start_ns[first][1:] + trace.resolution_ns < ends[:-1]).any())


def _divided(trace: Trace, rows: Numbers) -> Floats:
    """Divide a run's time among the active rows (n,); a parent is active while none of its children is.

    While n rows are active, each gets 1/n of the elapsed time. This quotient is accumulated over the run, and each row
    gets the difference between the accumulated values at its end and at its start.
    """
    n = len(rows)
    start, duration = trace.start_ns[rows], trace.duration_ns[rows]
    order, times = _borders(start, duration)
    place = {row: i for i, row in enumerate(rows.tolist())}
    parent = [place.get(row, NO_PARENT) for row in trace.parent[rows].tolist()]
    children, there = [0] * n, [False] * n
    since: list[float | None] = [None] * n
    own = np.zeros(n)
    passed, working, last = 0.0, 0, 0

    def begin(row: int) -> None:
        nonlocal working
        since[row] = passed
        working += 1

    def stop(row: int) -> None:
        nonlocal working
        began = since[row]
        if began is not None:
            own[row] += passed - began
            since[row] = None
            working -= 1

    # A sweep over all starts and ends: indices below n are ends, from n on starts.
    for i in order.tolist():
        now, row, opens = times[i], i % n, i >= n
        if working and now > last:
            # ``passed`` grows for all active rows at once, so the cost per event is constant.
            passed += (now - last) / working
        last = now
        around = parent[row]
        there[row] = opens
        if opens:
            if not children[row]:
                begin(row)
        else:
            stop(row)
        if around != NO_PARENT:
            children[around] += 1 if opens else -1
            # A parent pauses while any child runs, and continues when the last one has ended.
            if opens:
                stop(around)
            elif not children[around] and there[around]:
                begin(around)
    return own


def _borders(start: Numbers, duration: Numbers) -> tuple[Numbers, list[int]]:
    """Return border indices (ends from 0 to n, starts from n to 2n) in sweep order, and each border's time."""
    n = len(start)
    first = int(start.min())
    begins = start - first
    empty = duration == 0
    times = np.concatenate([begins + duration, begins])
    opens = np.arange(2 * n) >= n
    none = np.concatenate([empty, empty])
    # At the same time, ends come before starts, but an execution of zero length starts before it ends.
    order = np.lexsort((none & ~opens, opens & ~none, times))
    return order, times.tolist()
