"""Runs of a profile that lost events, in which time between nodes may not be overhead."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ortune.catalogue.providers import CPU
from ortune.trace.events import ProfilerEvent
from ortune.trace.table import CONTROL_FLOW, NO_PARENT, NO_RUN, Flags, Labels, Numbers, Trace

_TIME = re.compile(rb'"ts" ?: ?(-?\d{1,15})\b')
_SESSION = re.compile(rb'"cat" ?: ?"Session"')
_WHOLE = 0.5
"""Minimum fraction of runs without lost events; from this fraction on, only these runs are used."""

_REPEATED = 2
"""Minimum mean number of runs per model; with fewer, different sets of nodes do not count as separate models."""


_NEVER_REPLAYED = {CPU.name}


class Losses:
    """Time spans in which events of a file were lost, in microseconds.

    An unreadable event with a readable time was lost at that time; any other between its neighbours in the file.
    """

    def __init__(self) -> None:
        self._spans: list[tuple[float, float]] = []
        self._before = float("-inf")
        self._is_open = False

    def line(self, text: bytes) -> None:
        """Record an unreadable line, except the event of a run itself, which does not mean that nodes were lost."""
        if _SESSION.search(text):
            return
        if (time := _TIME.search(text)) is not None:
            self._spans.append((float(time[1]), float(time[1]) + 1))
        else:
            self.unknown()

    def unknown(self) -> None:
        """Record that an event without a known time was lost at the current position in the file."""
        self._is_open = True

    def read(self, events: Sequence[ProfilerEvent]) -> None:
        """Record the next readable events of the file."""
        if not events:
            return
        if self._is_open:
            after = events[0]
            end = after.ts + after.dur
            self._spans.append((min(self._before, after.ts), max(end, self._before)))
            self._is_open = False
        self._before = events[-1].ts + events[-1].dur

    def within(self, start_ns: Numbers, run_ns: Numbers) -> Flags:
        """Return, for each run, whether it lost an event (r,)."""
        spans = [*self._spans, *([(self._before, float("inf"))] if self._is_open else [])]
        if not spans:
            return np.zeros(len(start_ns), dtype=np.bool_)
        low, high = (1000 * np.array(ends) for ends in zip(*sorted(spans), strict=True))
        latest = np.concatenate([[-np.inf], np.maximum.accumulate(high)])
        # A run lost an event if a span overlaps it: among spans that begin before its end, the latest end is after
        # its start.
        lost: Flags = latest[np.searchsorted(low, start_ns + run_ns, side="left")] > start_ns
        return lost


def fewer_nodes(
    name: Labels, op_type: Labels, provider: Labels, parent: Numbers, run: Numbers, start_ns: Numbers, run_ns: Numbers,
    *, parallel: bool,
) -> Flags:  # fmt: skip
    """Return, for each run, whether it has fewer executions than others: each main-graph node runs once per run.

    No run is marked if runs overlap, or if threads ran subgraphs in parallel, since executions then cannot be
    assigned to runs.
    """
    none = np.zeros(len(run_ns), dtype=np.bool_)
    flow = not CONTROL_FLOW.isdisjoint(op_type.texts)
    apart = (start_ns[1:] >= (start_ns + run_ns)[:-1]).all()
    if len(run_ns) < 2 or not apart or (flow and parallel):
        return none
    mine = (run != NO_RUN) & (parent == NO_PARENT)
    # A subgraph node that begins as its loop ends can look like one of the main graph.
    mine &= ~np.isin(name.codes, np.unique(name.codes[parent != NO_PARENT]))
    counts = np.bincount(run[mine], minlength=len(run_ns))
    if not counts.any():
        return none
    # Branches may run different numbers of nodes, so with control flow the most common count is used.
    usual = Counter(counts[counts > 0].tolist()).most_common(1)[0][0] if flow else counts.max()
    # A captured graph is replayed on a device without node events, so no nodes on a device is not a loss.
    lost: Flags = (counts < usual) & ((counts > 0) | (set(provider.texts) <= _NEVER_REPLAYED))
    return lost


def runs_of_one_model(name: Labels, parent: Numbers, run: Numbers, n_runs: int) -> Numbers:
    """Return the indices of the runs of the model that ran last, since sessions of several models may share a file.

    Runs belong to one model if they share a main-graph node, directly or through other runs.
    """
    rows = np.flatnonzero((run != NO_RUN) & (parent == NO_PARENT))
    if not len(rows):
        return np.arange(n_runs)
    pairs = np.unique(run[rows] * len(name.texts) + name.codes[rows])
    of_run, of_node = pairs // len(name.texts), pairs % len(name.texts)
    model = np.arange(n_runs)
    # Connected components: each node takes the lowest index of its runs, each run the lowest of its nodes, until
    # nothing changes.
    while True:
        first = np.full(len(name.texts), n_runs)
        np.minimum.at(first, of_node, model[of_run])
        joined = model.copy()
        np.minimum.at(joined, of_run, first[of_node])
        if (joined == model).all():
            break
        model = joined
    if _REPEATED * len(np.unique(model[of_run])) > n_runs:
        return np.arange(n_runs)
    kept = model == model[of_run[-1]]
    kept[np.setdiff1d(np.arange(n_runs), of_run)] = True  # runs without nodes are kept
    return np.flatnonzero(kept)


def renumbered(run: Numbers, kept: Numbers, n_runs: int) -> Numbers:
    """Renumber runs after some were dropped; executions of dropped runs get ``NO_RUN``."""
    number = np.full(n_runs + 1, NO_RUN)  # the last entry is for executions in no run
    number[kept] = np.arange(len(kept))
    renumbered_runs: Numbers = number[run]
    return renumbered_runs


def whole_runs(trace: Trace) -> Trace:
    """Return the trace without runs that lost events if at least half of the runs lost none, else the trace itself."""
    lost = trace.lost
    n_lost = int(lost.sum())
    if not n_lost or len(lost) - n_lost < _WHOLE * len(lost):
        return trace
    return replace(
        trace,
        run=renumbered(trace.run, np.flatnonzero(~lost), len(lost)),
        run_start_ns=trace.run_start_ns[~lost],
        run_ns=trace.run_ns[~lost],
        executor_ns=trace.executor_ns[~lost],
        lost=lost[~lost],
        n_left_out=trace.n_left_out + n_lost,
    )
