"""Reads the profile that ONNX Runtime writes: which node ran when, for how long, in which run.

The file is an array of Chrome trace events, one a line, in the order in which they ended. Times are whole
microseconds. A file that was cut off (a crash, a full disk, a full buffer) is read as far as it goes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from ortune.errors import UsageError

CONTROL_FLOW = frozenset(
    ("Loop", "If", "Scan", "SequenceMap", "BeamSearch", "GreedySearch", "Sampling", "WhisperBeamSearch")
)
"""Operators that run graphs of their own: the time of such a node contains that of the nodes in its bodies."""

NO_RUN = -1
NO_PARENT = -1
_KERNEL = "_kernel_time"
_RUN = "model_run"

Times = np.ndarray[Any, np.dtype[np.int64]]


class _Args(msgspec.Struct):
    op_name: str = ""
    provider: str = ""


class _Event(msgspec.Struct):
    name: str = ""
    cat: str = ""
    tid: int = 0
    ts: int | float = 0
    dur: int | float = 0
    args: _Args = msgspec.field(default_factory=_Args)


_one = msgspec.json.Decoder(_Event)
_all = msgspec.json.Decoder(list[_Event])


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """A profile as columns. The first eight have one entry for each execution of a node, in the file's order.

    Attributes:
        name: Of the node, as the optimised graph has it.
        op_type: Of the node, without its domain.
        provider: Execution provider that ran it.
        start_us: Since the profile began, microseconds.
        duration_us: How long the kernel took, with all that ran inside it.
        self_us: The same without the nodes of its bodies (``CONTROL_FLOW``); sums count nothing twice.
        parent: Row of the control-flow node whose body the node ran in, or ``NO_PARENT``.
        run: Which run it belongs to, or ``NO_RUN`` (a run that was cut off, or several at once that cannot be told
            apart).
        run_us: How long each run took, in order of their starts, microseconds.
        n_unreadable: Lines that are no event.
        complete: The file's end was read.
    """

    name: tuple[str, ...]
    op_type: tuple[str, ...]
    provider: tuple[str, ...]
    start_us: Times
    duration_us: Times
    self_us: Times
    parent: Times
    run: Times
    run_us: Times
    n_unreadable: int
    complete: bool

    def __len__(self) -> int:
        return len(self.name)

    @property
    def n_runs(self) -> int:
        """Runs that were recorded to their end."""
        return len(self.run_us)


def read_profile(path: Path) -> Trace:
    """Reads a profile.

    Raises:
        UsageError: The file cannot be read, or no event is in it.
    """
    reading = _Reading(path)
    try:
        events = list(reading)
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", where=str(path)) from error
    if not reading.n_events:
        raise UsageError(
            "is no profile of ONNX Runtime: it holds no trace event",
            where=str(path),
            do="give the file that end_profiling() names",
        )
    nodes = [e for e in events if e.cat == "Node"]
    runs = sorted((e for e in events if e.cat != "Node"), key=lambda e: e.ts)
    parent = _parents(nodes)
    duration = _column(e.dur for e in nodes)
    own = duration.copy()
    nested = parent != NO_PARENT
    np.subtract.at(own, parent[nested], duration[nested])
    return Trace(
        name=tuple(e.name.removesuffix(_KERNEL) for e in nodes),
        op_type=tuple(e.args.op_name for e in nodes),
        provider=tuple(e.args.provider for e in nodes),
        start_us=_column(e.ts for e in nodes),
        duration_us=duration,
        # Whole microseconds: the parts of a body may add up to more than the whole.
        self_us=np.maximum(own, 0),
        parent=parent,
        run=_runs(nodes, runs),
        run_us=_column(e.dur for e in runs),
        n_unreadable=reading.n_unreadable,
        complete=reading.complete,
    )


class _Reading:
    """Goes through a file once and yields what it is about: executions of nodes, and runs."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.n_events = self.n_unreadable = 0
        self.complete = False

    def __iter__(self) -> Iterator[_Event]:
        cut = False
        with self.path.open("rb") as file:
            for line in file:
                text = line.strip().rstrip(b",")
                if text in (b"", b"[", b"]"):
                    self.complete = text == b"]" or self.complete
                    continue
                try:
                    event = _one.decode(text)
                except (msgspec.MsgspecError, UnicodeDecodeError):
                    cut = not line.endswith(b"\n")  # the last line of a file that was cut off
                    self.n_unreadable += not cut
                    continue
                self.n_events += bool(event.name)
                if _wanted(event):
                    yield event
        if not self.n_events:
            yield from self._as_one_document()

    def _as_one_document(self) -> Iterator[_Event]:
        """The same events laid out by another tool: the whole file is one array."""
        try:
            events = _all.decode(self.path.read_bytes())
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return
        self.n_events, self.n_unreadable, self.complete = sum(bool(e.name) for e in events), 0, True
        yield from filter(_wanted, events)


def _wanted(event: _Event) -> bool:
    # Older versions also record the fences before and after a kernel: no work of the operator.
    return (event.cat == "Node" and event.name.endswith(_KERNEL)) or event.name == _RUN


def _column(values: Iterator[int | float]) -> Times:
    return np.fromiter(values, dtype=np.int64)


def _parents(nodes: Sequence[_Event]) -> Times:
    """For each node execution the row of the control-flow node around it.

    A node is written when it ends, so a body stands before the node that runs it: whatever ended on the same thread
    since that node began is its own.
    """
    parent = np.full(len(nodes), NO_PARENT, dtype=np.int64)
    open_rows: defaultdict[int, list[int]] = defaultdict(list)
    for row, event in enumerate(nodes):
        waiting = open_rows[event.tid]
        if event.args.op_name in CONTROL_FLOW:
            while waiting and nodes[waiting[-1]].ts >= event.ts:
                parent[waiting.pop()] = row
        waiting.append(row)
    return parent


def _runs(nodes: Sequence[_Event], runs: Sequence[_Event]) -> Times:
    """For each node execution the run around it: the one of its own thread, else the only one at that time."""
    by_thread: defaultdict[int, list[int]] = defaultdict(list)
    for number, run in enumerate(runs):
        by_thread[run.tid].append(number)
    starts = {tid: [runs[i].ts for i in numbers] for tid, numbers in by_thread.items()}
    all_starts = [run.ts for run in runs]
    alone = _alone(runs)

    def at(event: _Event) -> int:
        place = bisect_right(starts.get(event.tid, []), event.ts) - 1
        if place >= 0:
            number = by_thread[event.tid][place]
            if event.ts <= runs[number].ts + runs[number].dur:
                return number
        # In parallel execution mode nodes run on threads of the pool.
        number = bisect_right(all_starts, event.ts) - 1
        if number >= 0 and alone[number] and event.ts <= runs[number].ts + runs[number].dur:
            return number
        return NO_RUN

    return np.fromiter((at(event) for event in nodes), dtype=np.int64, count=len(nodes))


def _alone(runs: Sequence[_Event]) -> list[bool]:
    """Whether no other run goes on at any time of each; ``runs`` are in order of their starts."""
    alone, latest = [True] * len(runs), -1.0
    for i, run in enumerate(runs):
        if run.ts < latest:
            alone[i] = False
        if i and run.ts < runs[i - 1].ts + runs[i - 1].dur:
            alone[i - 1] = False
        latest = max(latest, run.ts + run.dur)
    return alone
