"""Fast end of executions: the time that executions take without disturbances.

A machine's peak is the best of many tries, so it is compared with the best times of a node, not the mean: other
programs, interrupts and falling clock rates only slow an execution down. The fast end is the mean of the fastest
twentieth: with two threads and four other programs on two CPUs, about one execution in ten is undisturbed, so a tenth
would include disturbed executions. With fewer than forty runs, the fast end is the fastest execution. Each execution is
compared with the executions at the same place in other runs, which do the same work.
"""

from __future__ import annotations

import numpy as np

from ortune.trace.grouping import combined
from ortune.trace.table import Floats, Numbers

TWENTIETH = 0.05


def of_nodes(
    node: Numbers, run: Numbers, start: Numbers, own: Floats, wait: Floats, shape: tuple[int, int]
) -> tuple[Floats, Floats]:
    """Return each node's (time, waiting included in it) per run at its fast end, in nanoseconds (n,)."""
    n_nodes, n_runs = shape
    if not len(node):
        return np.zeros(n_nodes), np.zeros(n_nodes)
    # A node may run several times per run (in a loop). The k-th execution is compared with the k-th of other runs,
    # since later ones may have more or less to do.
    order = np.lexsort((start, run, node))
    _, both = combined((node, n_nodes), (run, n_runs))
    place = np.empty(len(node), dtype=np.int64)
    place[order] = _counted(both[order])
    _, alike = combined((node, n_nodes), (place, int(place.max()) + 1))
    size = np.bincount(alike)
    # Sorted by time within each group, so a group's first are its fastest.
    order = np.lexsort((own, alike))
    chosen = order[_counted(alike[order]) < _n_fastest(size)[alike[order]]]
    # A place reached only by some runs (a loop that ends early) is weighted by its frequency. Example: 50 of 100
    # runs reach a place, so its two fastest are kept, each with weight 50 / 2 / 100 = 0.25: half of their mean for
    # an average run.
    weight = (size / _n_fastest(size) / n_runs)[alike[chosen]]
    fast = np.bincount(node[chosen], weights=own[chosen] * weight, minlength=n_nodes)
    waiting = np.bincount(node[chosen], weights=wait[chosen] * weight, minlength=n_nodes)
    return fast.astype(np.float64), waiting.astype(np.float64)


def of_rows(by_run: Floats) -> Floats:
    """Return the fast end of each row of a table (rows, runs); zeros if there are no runs."""
    n = by_run.shape[1]
    if not n:
        return np.zeros(by_run.shape[0])
    means: Floats = np.sort(by_run, axis=1)[:, : int(_n_fastest(np.array([n]))[0])].mean(axis=1)
    return means


def _n_fastest(size: Numbers) -> Numbers:
    return np.maximum(1, (TWENTIETH * size).astype(np.int64))


def _counted(groups: Numbers) -> Numbers:
    """Return, for each row, the number of preceding rows of its group; groups are contiguous."""
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    ranks: Numbers = np.arange(len(groups)) - np.repeat(starts, np.diff(np.append(starts, len(groups))))
    return ranks
