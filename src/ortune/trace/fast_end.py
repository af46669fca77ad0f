"""What executions take when nothing disturbs them: their fast end.

A peak is the best of many tries, so what is set against it is the best that a node did, not its mean: other programs,
interrupts and clocks that fall only ever add to an execution. It is the fastest twentieth: with two threads and four
other programs on two CPUs about one execution in ten is left alone, and a tenth would hold some that are not. Of many
runs no single reading of the clock decides; of fewer than forty it is the fastest one. Each execution is compared with
those at the same place of other runs, which do the same work.
"""

from __future__ import annotations

import numpy as np

from ortune.trace.grouping import combined
from ortune.trace.table import Floats, Numbers

TWENTIETH = 0.05


def of_nodes(
    node: Numbers, run: Numbers, start: Numbers, own: Floats, wait: Floats, shape: tuple[int, int]
) -> tuple[Floats, Floats]:
    """Return each node's time per run at its fast end, and the waiting in it (n,)."""
    n_nodes, n_runs = shape
    if not len(node):
        return np.zeros(n_nodes), np.zeros(n_nodes)
    # A node may run several times in a run (in a loop): the k-th execution of one run is held against the k-th of the
    # others, since later ones may have more or less to do.
    order = np.lexsort((start, run, node))
    _, both = combined((node, n_nodes), (run, n_runs))
    place = np.empty(len(node), dtype=np.int64)
    place[order] = _counted(both[order])
    _, alike = combined((node, n_nodes), (place, int(place.max()) + 1))
    size = np.bincount(alike)
    # Sorted by time within each group, the first of a group are its fastest.
    order = np.lexsort((own, alike))
    chosen = order[_counted(alike[order]) < _kept(size)[alike[order]]]
    # A place that only some runs come to (a loop that ends early) counts as often as they do.
    # Example: 50 of 100 runs come to a place, so its two fastest are kept. Each weighs 50 / 2 / 100 = 0.25,
    # which makes half of their mean for an average run.
    weight = (size / _kept(size) / n_runs)[alike[chosen]]
    fast = np.bincount(node[chosen], weights=own[chosen] * weight, minlength=n_nodes)
    waiting = np.bincount(node[chosen], weights=wait[chosen] * weight, minlength=n_nodes)
    return fast.astype(np.float64), waiting.astype(np.float64)


def of_rows(by_run: Floats) -> Floats:
    """Return the fast end of each row of a table (rows, runs)."""
    n = by_run.shape[1]
    if not n:
        return np.zeros(by_run.shape[0])
    means: Floats = np.sort(by_run, axis=1)[:, : int(_kept(np.array([n]))[0])].mean(axis=1)
    return means


def _kept(size: Numbers) -> Numbers:
    return np.maximum(1, (TWENTIETH * size).astype(np.int64))


def _counted(groups: Numbers) -> Numbers:
    """Return how many of its group are before each row; rows of a group follow each other."""
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    ranks: Numbers = np.arange(len(groups)) - np.repeat(starts, np.diff(np.append(starts, len(groups))))
    return ranks
