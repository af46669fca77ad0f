"""A run's time divided among a closed set of categories, and among the nodes: the parts add up to the whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, get_args

import numpy as np

from ortune.records import Category, CategoryName
from ortune.trace.categories import categories
from ortune.trace.overlap import shares
from ortune.trace.table import CONTROL_FLOW, NO_PARENT, Trace

Floats = np.ndarray[Any, np.dtype[np.float64]]
Integers = np.ndarray[Any, np.dtype[np.int64]]

NAMES: tuple[CategoryName, ...] = get_args(CategoryName)
USUAL_GAP = 5.0
SHORT_GAP_NS = 20_000
"""A gap between two nodes is the executor's up to ``USUAL_GAP`` times what it usually is at that place and this
more; beyond that something else had the CPU, which no profile explains."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribution:
    """Where the time of each run goes. Shapes: n nodes of ``Trace.name.texts``, r runs, c of ``NAMES``.

    Attributes:
        runs: The runs that count.
        wall_ns: Of each (r,).
        by_category: Nanoseconds (c, r); each column sums to the run's wall time.
        by_node: Own time of each node (n, r), waiting included.
        wait: The part of ``by_node`` that is thread-wait (n, r).
        calls: Executions of each node a run (n,), the mean.
        category: Of each node (n,).
    """

    runs: range
    wall_ns: Floats
    by_category: Floats
    by_node: Floats
    wait: Floats
    calls: Floats
    category: tuple[CategoryName, ...]

    @property
    def mean_wall_ns(self) -> float:
        """The mean run: means add up, medians do not."""
        return float(self.wall_ns.mean()) if len(self.wall_ns) else 0.0

    def categories(self) -> tuple[Category, ...]:
        """Every category in the mean run, in a fixed order; they sum to ``mean_wall_ns``."""
        means = self.by_category.mean(axis=1) if len(self.wall_ns) else np.zeros(len(NAMES))
        return tuple(Category(name=name, ns=float(ns)) for name, ns in zip(NAMES, means, strict=True))


def attribute(trace: Trace, runs: range, wall_ns: Floats | None = None) -> Attribution:
    """Divides runs.

    Args:
        trace: The profile.
        runs: The runs that count: the steady ones.
        wall_ns: Wall time around each of them (r,); without it ONNX Runtime's own, and nothing is outside the run.
    """
    n_nodes, n_runs = len(trace.name.texts), len(runs)
    inside = np.isin(trace.run, np.arange(runs.start, runs.stop))
    column = trace.run[inside] - runs.start
    node = trace.name.codes[inside].astype(np.int64)
    own = shares(trace, runs)[inside]
    waited = np.minimum(np.maximum(trace.wait_ns[inside], 0), own)
    # What a node that runs bodies waits for is its bodies' work.
    flow = [i for i, text in enumerate(trace.op_type.texts) if text in CONTROL_FLOW]
    waited[np.isin(trace.op_type.codes[inside], flow)] = 0.0

    by_node, wait = np.zeros((n_nodes, n_runs)), np.zeros((n_nodes, n_runs))
    np.add.at(by_node, (node, column), own)
    np.add.at(wait, (node, column), waited)
    calls = np.bincount(node, minlength=n_nodes) / max(1, n_runs)

    kinds = categories(trace.nodes)
    found = np.zeros((len(NAMES), n_runs))
    for number, kind in enumerate(kinds):
        found[NAMES.index(kind)] += by_node[number] - wait[number]
    found[NAMES.index("thread-wait")] += wait.sum(axis=0)

    run_ns = trace.run_ns[runs.start : runs.stop].astype(np.float64)
    wall = run_ns if wall_ns is None else np.asarray(wall_ns, dtype=np.float64)
    idle = np.maximum(run_ns - by_node.sum(axis=0), 0.0)
    strange = np.minimum(_strange_gaps(trace, runs), idle)
    found[NAMES.index("between-nodes")] = idle - strange
    found[NAMES.index("outside-run")] = np.maximum(wall - run_ns, 0.0)
    found[NAMES.index("unexplained")] = wall - found.sum(axis=0)
    return Attribution(
        runs=runs,
        wall_ns=wall,
        by_category=found,
        by_node=by_node,
        wait=wait,
        calls=calls,
        category=tuple(kinds),
    )


def _strange_gaps(trace: Trace, runs: range) -> Floats:
    """Nanoseconds of each run in gaps that are far longer than usual at their place (r,)."""
    rows = np.flatnonzero((trace.parent == NO_PARENT) & np.isin(trace.run, np.arange(runs.start, runs.stop)))
    found = np.zeros(len(runs))
    if len(rows) < 2:
        return found
    rows = rows[np.lexsort((trace.start_ns[rows], trace.run[rows]))]
    run = trace.run[rows]
    # In order of their starts; overlapping nodes leave no gap.
    end = trace.start_ns[rows] + trace.duration_ns[rows]
    gap = trace.start_ns[rows][1:] - end[:-1]
    within = (run[1:] == run[:-1]) & (gap > 0)
    pair = trace.name.codes[rows][:-1].astype(np.int64) * len(trace.name.texts) + trace.name.codes[rows][1:]
    _, place = np.unique(pair, return_inverse=True)
    usual = _medians(place[within], gap[within], int(place.max()) + 1)
    excess = gap - (USUAL_GAP * usual[place] + SHORT_GAP_NS)
    strange = within & (excess > 0)
    np.add.at(found, run[1:][strange] - runs.start, excess[strange])
    return found


def _medians(place: Integers, values: Integers, n: int) -> Floats:
    """Median of the values at each place (n,); 0 where there is none."""
    found = np.zeros(n)
    order = np.lexsort((values, place))
    place, values = place[order], values[order]
    starts = np.searchsorted(place, np.arange(n))
    ends = np.searchsorted(place, np.arange(n), side="right")
    there = ends > starts
    low, high = (ends - 1 + starts)[there] // 2, (ends + starts)[there] // 2
    found[there] = (values[low] + values[high]) / 2
    return found
