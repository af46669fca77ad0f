"""Attribution of a run's time to nodes and to a closed set of categories; the parts sum to the whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

import numpy as np

from ortune.records import Category, CategoryName
from ortune.trace import fast_end
from ortune.trace.categories import DEVICES, categories
from ortune.trace.grouping import combined, sums
from ortune.trace.overlap import shares
from ortune.trace.table import ABSENT, CONTROL_FLOW, NO_PARENT, Flags, Floats, Numbers, Trace

NAMES: tuple[CategoryName, ...] = get_args(CategoryName)
BESIDE_NODES: tuple[CategoryName, ...] = (
    "device-wait", "between-nodes", "device-idle", "outside-run", "unexplained",
)  # fmt: skip
"""Categories of time outside nodes."""
USUAL_GAP = 5.0
SHORT_GAP_NS = 20_000
"""Margin for gaps between two nodes, or at either end of a run. A gap of up to ``USUAL_GAP`` times the usual gap at the
same place plus this margin is time of the executor; in longer gaps, another program used the CPU.
"""
FEWEST_GAPS = 3
"""Minimum number of gaps at a place; with fewer, the median of all gaps between nodes is the usual gap."""
MOST_CELLS = 1 << 24
"""Maximum size of a table (nodes times runs); twice the number of executions in the trace is always allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribution:
    """Time of each run by node and category. Shapes: n nodes (``Trace.name.texts``), r runs, c categories (``NAMES``).

    Attributes:
        runs: The steady runs.
        wall_ns: Wall time of each run (r,).
        by_category: Nanoseconds in each category and run (c, r); each column sums to the run's wall time.
        by_node: Self time of each node in each run (n, r), waiting included.
        wait: The part of ``by_node`` that is thread-wait (n, r).
        imbalance: The part of ``wait`` at the end of parallel work, when other threads were not done (n, r).
        calls: Mean number of executions of each node per run (n,).
        category: Category of each node (n,).
        fast: Self time per run of each node without disturbances (n,), waiting included; see ``trace.fast_end``.
        fast_wait: The part of ``fast`` that is thread-wait (n,).
    """

    runs: range
    wall_ns: Floats
    by_category: Floats
    by_node: Floats
    wait: Floats
    imbalance: Floats
    calls: Floats
    category: tuple[CategoryName, ...]
    fast: Floats
    fast_wait: Floats

    @property
    def mean_wall_ns(self) -> float:
        """Mean wall time of a run. It is a mean because the means of the parts sum to the mean of the whole."""
        return float(self.wall_ns.mean()) if len(self.wall_ns) else 0.0

    def categories(self) -> tuple[Category, ...]:
        """Return the time of every category in the mean run; they sum to ``mean_wall_ns``."""
        return tuple(
            Category(name=name, ns=float(ns)) for name, ns in zip(NAMES, mean(self.by_category), strict=True)
        )

    def fast_categories(self) -> tuple[Category, ...]:
        """Return the time of every category at the fast end of the runs, which excludes disturbances."""
        times = dict.fromkeys(NAMES, 0.0)
        beside = fast_end.of_rows(self.by_category)
        times |= {name: float(beside[NAMES.index(name)]) for name in BESIDE_NODES if name != "unexplained"}
        for kind, ns, waited in zip(self.category, self.fast, self.fast_wait, strict=True):
            times[kind] += float(ns - waited)
        times["thread-wait"] += float(self.fast_wait.sum())
        return tuple(Category(name=name, ns=ns) for name, ns in times.items())


def mean(by_run: Floats) -> Floats:
    """Average a table (rows, runs) over runs; return zeros if there are no runs."""
    means: Floats = by_run.mean(axis=1) if by_run.shape[1] else np.zeros(by_run.shape[0])
    return means


def countable(trace: Trace, first: int) -> range:
    """Return the runs from ``first`` on, limited to as many of the last runs as fit in ``MOST_CELLS``."""
    # The last ones, since runs at the end are steady.
    most = max(MOST_CELLS, 2 * len(trace)) // max(1, len(trace.name.texts))
    return range(max(first, trace.n_runs - max(1, most)), trace.n_runs)


def attribute(trace: Trace, runs: range, wall_ns: Floats | None = None) -> Attribution:
    """Divide the wall time of runs among nodes and categories.

    Args:
        trace: The profile.
        runs: The steady runs.
        wall_ns: Wall time measured around each run (r,); None to use ONNX Runtime's run times, without "outside-run".
    """
    n_nodes, n_runs = len(trace.name.texts), len(runs)
    rows = np.flatnonzero((trace.run >= runs.start) & (trace.run < runs.stop))
    node = trace.name.codes[rows].astype(np.int64)
    column = trace.run[rows] - runs.start
    # A row's self time excludes its subgraphs, so rows sum to at most the run. Waiting times may exceed it by a
    # clock step and are limited to it.
    own = shares(trace, runs)[rows]
    waited = np.minimum(np.maximum(trace.wait_ns[rows], 0), own)
    # Waiting of a node with subgraphs is the work of its subgraphs.
    flow = [i for i, text in enumerate(trace.op_type.texts) if text in CONTROL_FLOW]
    waited[np.isin(trace.op_type.codes[rows], flow)] = 0.0

    late = np.minimum(np.maximum(trace.imbalance_ns[rows], 0), waited)
    by_node, wait, imbalance = (
        sums(node, column, values, (n_nodes, n_runs)) for values in (own, waited, late)
    )
    calls = np.bincount(node, minlength=n_nodes) / max(1, n_runs)
    fast, fast_wait = fast_end.of_nodes(
        node, column, trace.start_ns[rows], own, waited, (n_nodes, max(1, n_runs))
    )

    kinds = categories(trace.nodes)
    by_category = np.zeros((len(NAMES), n_runs))
    number = np.array([NAMES.index(kind) for kind in kinds], dtype=np.int64)
    for kind in np.unique(number):
        # Waiting is not work of the node's category: it has its own.
        by_category[kind] = (by_node[number == kind] - wait[number == kind]).sum(axis=0)
    by_category[NAMES.index("thread-wait")] += wait.sum(axis=0)

    # Time outside nodes is divided from the outside in, each part limited to what remains: around the executor, in
    # unusually long gaps, and the rest between nodes.
    run_ns = trace.run_ns[runs.start : runs.stop].astype(np.float64)
    wall = run_ns if wall_ns is None else np.asarray(wall_ns, dtype=np.float64)
    # Rounded clocks may sum to more than the run; idle time is not negative.
    idle = np.maximum(run_ns - by_node.sum(axis=0), 0.0)
    if trace.device_only:
        by_category[NAMES.index("device-idle")] = idle
    else:
        on_device = _on_device(trace, runs, rows)
        device = np.minimum(_around_executor(trace, runs, on_device), idle)
        strange = np.minimum(_strange_gaps(trace, runs, rows, on_device), idle - device)
        lost = trace.lost[runs.start : runs.stop]
        by_category[NAMES.index("device-wait")] = device
        by_category[NAMES.index("between-nodes")] = np.where(lost, 0.0, idle - device - strange)
        # A lost node ran in a gap, or inside the node that runs its subgraph.
        by_category[NAMES.index("control-flow"), lost] = 0.0
    by_category[NAMES.index("outside-run")] = np.maximum(wall - run_ns, 0.0)
    # Each column sums to the wall time, even if the clocks of nodes and of the run disagree.
    by_category[NAMES.index("unexplained")] = wall - by_category.sum(axis=0)
    return Attribution(
        runs=runs,
        wall_ns=wall,
        by_category=by_category,
        by_node=by_node,
        wait=wait,
        imbalance=imbalance,
        calls=calls,
        category=tuple(kinds),
        fast=fast,
        fast_wait=fast_wait,
    )


def _on_device(trace: Trace, runs: range, rows: Numbers) -> Flags:
    """Return whether each run has a node on a device (r,)."""
    with_device = np.zeros(len(runs), dtype=np.bool_)
    codes = [i for i, text in enumerate(trace.provider.texts) if text in DEVICES]
    with_device[trace.run[rows[np.isin(trace.provider.codes[rows], codes)]] - runs.start] = True
    return with_device


def _around_executor(trace: Trace, runs: range, on_device: Flags) -> Floats:
    """Return each run's time outside the executor, in nanoseconds (r,); 0 for runs without nodes on a device.

    During this time, inputs are copied to the device, and the run waits for remaining device work and outputs.
    """
    executor = trace.executor_ns[runs.start : runs.stop]
    around = np.maximum(trace.run_ns[runs.start : runs.stop] - executor, 0).astype(np.float64)
    return np.where(on_device & (executor != ABSENT), around, 0.0)


def _strange_gaps(trace: Trace, runs: range, rows: Numbers, on_device: Flags) -> Floats:
    """Return each run's time in gaps that are far longer than usual at their place, in nanoseconds (r,).

    A place is a pair of consecutive nodes, or the start or end of a run. Starts and ends of runs on a device are
    excluded, since they wait for the device.
    """
    rows = rows[trace.parent[rows] == NO_PARENT]
    excess_ns = np.zeros(len(runs))
    if not len(rows):
        return excess_ns
    rows = rows[np.lexsort((trace.start_ns[rows], trace.run[rows]))]
    run = trace.run[rows] - runs.start
    # The latest end so far, not that of the previous row: in parallel mode an early node may outlast later ones.
    start, end = trace.start_ns[rows], _latest_end(trace, rows, run)
    # Sorted by start; there is no gap while an earlier row still runs.
    inner = np.flatnonzero(run[1:] == run[:-1])
    codes, n = trace.name.codes[rows], len(trace.name.texts)
    # Each pair of neighbours is a separate place, since the executor frees or copies between some nodes in every
    # run.
    _, place = combined((codes[inner], n), (codes[inner + 1], n))
    first = np.flatnonzero(np.diff(run, prepend=-1))
    last = np.append(first[1:], len(rows)) - 1
    ends = ~on_device[run[first]]
    first, last = first[ends], last[ends]
    begin = trace.run_start_ns[runs.start + run[first]]
    finish = begin + trace.run_ns[runs.start + run[first]]

    # The median over many runs is the time that the executor needs at a place.
    gap = np.concatenate([start[inner + 1] - end[inner], start[first] - begin, finish - end[last]])
    n = int(place.max(initial=-1)) + 1
    # Two additional places: before the first node of a run, and after its last.
    place = np.concatenate([place, np.full(len(first), n), np.full(len(last), n + 1)])
    at = np.concatenate([run[inner], run[first], run[last]])
    there = gap > 0
    # Only the excess over the usual gap, with a margin, is unusual; the rest of a long gap remains the executor's.
    excess = gap - (USUAL_GAP * _usual(place, gap, there, len(inner))[place] + SHORT_GAP_NS)
    strange = there & (excess > 0)
    np.add.at(excess_ns, at[strange], excess[strange])
    return excess_ns


def _usual(place: Numbers, gap: Numbers, there: Flags, n_inner: int) -> Floats:
    """Return the usual gap at each place in nanoseconds (places,); infinite if too few gaps are known."""
    n = int(place.max(initial=-1)) + 1
    usual = _medians(place[there], gap[there], n)
    # Without starts and ends of runs, which differ from gaps between nodes.
    inner = gap[:n_inner][there[:n_inner]]
    everywhere = float(np.median(inner)) if len(inner) >= FEWEST_GAPS else np.inf
    usual[np.bincount(place[there], minlength=n) < FEWEST_GAPS] = everywhere
    return usual


def _latest_end(trace: Trace, rows: Numbers, run: Numbers) -> Numbers:
    """Return, for each row, the latest end among the row and the preceding rows of its run; rows are sorted by run."""
    end = trace.start_ns[rows] + trace.duration_ns[rows]
    order = np.argsort(end, kind="stable")
    # Ranks instead of times, so those of a later run always exceed those of an earlier one.
    rank = np.empty(len(rows), dtype=np.int64)
    rank[order] = np.arange(len(rows))
    latest = np.maximum.accumulate(rank + run * len(rows)) - run * len(rows)
    latest_end: Numbers = end[order][latest]
    return latest_end


def _medians(place: Numbers, values: Numbers, n: int) -> Floats:
    """Return the median of the values at each place (n,); 0 for places without values."""
    medians = np.zeros(n)
    order = np.lexsort((values, place))
    place, values = place[order], values[order]
    starts = np.searchsorted(place, np.arange(n))
    ends = np.searchsorted(place, np.arange(n), side="right")
    there = ends > starts
    # The two middle values of each group; for an odd number of values, the same one twice.
    low, high = (ends - 1 + starts)[there] // 2, (ends + starts)[there] // 2
    medians[there] = (values[low] + values[high]) / 2
    return medians
