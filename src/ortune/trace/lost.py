"""Which runs of a profile lost events: what lies between their nodes is not known to be overhead."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ortune.catalogue.providers import CPU
from ortune.trace.events import Event
from ortune.trace.table import CONTROL_FLOW, NO_PARENT, NO_RUN, Flags, Labels, Numbers, Trace

_TIME = re.compile(rb'"ts" ?: ?(-?\d{1,15})\b')
_SESSION = re.compile(rb'"cat" ?: ?"Session"')
_WHOLE = 0.5
"""Share of the runs without lost time from which on only these runs are used."""

_REPEATED = 2
"""Runs of a model, at least: sets of nodes that ran once each are no sessions that share a file."""


_NEVER_REPLAYED = {CPU.name}


class Losses:
    """Time spans in which events of a file were lost, microseconds.

    An event that still has its time lost it then; any other one between the events right before and after it.
    """

    def __init__(self) -> None:
        self._spans: list[tuple[float, float]] = []
        self._before = float("-inf")
        self._is_open = False

    def line(self, text: bytes) -> None:
        """A line that cannot be read; a run of which only its own event is lost is no run that lost nodes."""
        if _SESSION.search(text):
            return
        if (time := _TIME.search(text)) is not None:
            self._spans.append((float(time[1]), float(time[1]) + 1))
        else:
            self.unknown()

    def unknown(self) -> None:
        """An event of which nothing is known was lost here."""
        self._is_open = True

    def read(self, events: Sequence[Event]) -> None:
        """These were read, the next in the file."""
        if not events:
            return
        if self._is_open:
            after = events[0]
            end = after.ts + after.dur
            self._spans.append((min(self._before, after.ts), max(end, self._before)))
            self._is_open = False
        self._before = events[-1].ts + events[-1].dur

    def within(self, start_ns: Numbers, run_ns: Numbers) -> Flags:
        """Mark the runs that lost an event (r,)."""
        spans = [*self._spans, *([(self._before, float("inf"))] if self._is_open else [])]
        if not spans:
            return np.zeros(len(start_ns), dtype=np.bool_)
        low, high = (1000 * np.array(ends) for ends in zip(*sorted(spans), strict=True))
        latest = np.concatenate([[-np.inf], np.maximum.accumulate(high)])
        # A run lost an event if a span reaches into it: of those that begin before its end, the latest end is
        # after its start.
        lost: Flags = latest[np.searchsorted(low, start_ns + run_ns, side="left")] > start_ns
        return lost


def fewer_nodes(
    name: Labels, op_type: Labels, provider: Labels, parent: Numbers, run: Numbers, start_ns: Numbers, run_ns: Numbers,
    *, parallel: bool,
) -> Flags:  # fmt: skip
    """The runs that have fewer executions than others: every run executes each node of the main graph once.

    Of runs at the same time, and of bodies that several threads ran, it cannot be told whose an execution is.
    """
    none = np.zeros(len(run_ns), dtype=np.bool_)
    flow = not CONTROL_FLOW.isdisjoint(op_type.texts)
    apart = (start_ns[1:] >= (start_ns + run_ns)[:-1]).all()
    if len(run_ns) < 2 or not apart or (flow and parallel):
        return none
    mine = (run != NO_RUN) & (parent == NO_PARENT)
    # A body's node that begins as its loop ends can be taken for one of the main graph.
    mine &= ~np.isin(name.codes, np.unique(name.codes[parent != NO_PARENT]))
    counts = np.bincount(run[mine], minlength=len(run_ns))
    if not counts.any():
        return none
    # A node that ran in no other run of its branch can still be: the most count one too many.
    usual = Counter(counts[counts > 0].tolist()).most_common(1)[0][0] if flow else counts.max()
    # A device replays a run that it captured as a whole, without events of its nodes: such a run lost none.
    lost: Flags = (counts < usual) & ((counts > 0) | (set(provider.texts) <= _NEVER_REPLAYED))
    return lost


def runs_of_one_model(name: Labels, parent: Numbers, run: Numbers, n_runs: int) -> Numbers:
    """The runs of the model that ran last: sessions that write one file may be of several.

    Runs are one model's if they have a node of the main graph in common, or each has one in common with a third.
    """
    rows = np.flatnonzero((run != NO_RUN) & (parent == NO_PARENT))
    if not len(rows):
        return np.arange(n_runs)
    pairs = np.unique(run[rows] * len(name.texts) + name.codes[rows])
    of_run, of_node = pairs // len(name.texts), pairs % len(name.texts)
    model = np.arange(n_runs)
    # Connected components: each node takes the lowest number of the runs that have it, each run the lowest of
    # its nodes, until nothing changes.
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
    kept[np.setdiff1d(np.arange(n_runs), of_run)] = True  # without nodes, and so no other model's
    return np.flatnonzero(kept)


def renumbered(run: Numbers, kept: Numbers, n_runs: int) -> Numbers:
    """Renumbers runs after some were dropped."""
    number = np.full(n_runs + 1, NO_RUN)  # the last is for executions in no run
    number[kept] = np.arange(len(kept))
    renumbered_runs: Numbers = number[run]
    return renumbered_runs


def whole_runs(trace: Trace) -> Trace:
    """The trace without the runs that lost events, where at least half of them lost none; else the trace itself."""
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
