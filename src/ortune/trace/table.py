"""A trace as columns: what ran when and for how long, one row for each execution of a node.

Readers fill it, one a format; everything else in this room and beyond asks it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from ortune.records import TraceLack

NO_RUN = -1
NO_PARENT = -1
ABSENT = -1
"""In columns of sizes and waits: the trace does not hold the figure for this row."""

CONTROL_FLOW = frozenset(
    ("Loop", "If", "Scan", "SequenceMap", "BeamSearch", "GreedySearch", "Sampling", "WhisperBeamSearch")
)
"""Operators that run graphs of their own: the time of such a node contains that of the nodes in its bodies."""

_LONGEST_NS = 1 << 60
_NO_RUNS = TraceLack(code="runs", what="no begin and end of its runs: everything recorded counts as one run")

Codes = np.ndarray[Any, np.dtype[np.int32]]
Numbers = np.ndarray[Any, np.dtype[np.int64]]
Floats = np.ndarray[Any, np.dtype[np.float64]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """A column of text: each row holds the number of its text.

    Attributes:
        codes: Index into ``texts`` (rows,).
        texts: The different texts, in order of their first row; each is there once, but for ``Trace.name``.
    """

    codes: Codes
    texts: tuple[str, ...]

    def __getitem__(self, row: int) -> str:
        return self.texts[int(self.codes[row])]

    def __iter__(self) -> Iterator[str]:
        return (self.texts[code] for code in self.codes.tolist())

    def __len__(self) -> int:
        return len(self.codes)


def numbers_of(labels: Labels) -> dict[str, list[int]]:
    """Return the codes of each text: nodes of one name can be several."""
    numbers: dict[str, list[int]] = {}
    for number, text in enumerate(labels.texts):
        numbers.setdefault(text, []).append(number)
    return numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Nodes:
    """What a trace says of each node, one entry for each text of ``Trace.name``; shapes are its first execution's.

    Attributes:
        op_type: Operator, without its domain.
        provider: Execution provider.
        index: The node's number in the optimised graph, ``ABSENT`` where not given; not unique with subgraphs.
        inputs, outputs: Types and shapes as JSON text (``[{"float":[1,3]}]``), "" if not given.
        executions: How often it ran with which inputs and outputs; () if the format has only the first ones. No
            file that is written of a trace holds them.
    """

    op_type: tuple[str, ...]
    provider: tuple[str, ...]
    index: tuple[int, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    executions: tuple[Mapping[tuple[str, str], int], ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernels:
    """What ran on a device, one row a kernel or copy, in the file's order.

    Attributes:
        name: The kernel's own name.
        row: The node execution that it belongs to, or ``NO_PARENT`` where the trace does not tell.
        start_ns, duration_ns: On the device, in the clock of the trace.
        bytes: Of a copy; ``ABSENT`` of a kernel.
    """

    name: Labels
    row: Numbers
    start_ns: Numbers
    duration_ns: Numbers
    bytes: Numbers


class PageRun(NamedTuple):
    """A call of ``run()`` in a page, and what of it its inputs and outputs took on their way."""

    whole_ns: int
    inputs_ns: int
    outputs_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """A profile as columns. Those of a node's execution have one entry a row, in the file's order.

    Attributes:
        format: "ort-json", "web-console", ...
        device_only: Rows are kernels on a device, and nothing of the host is known.
        resolution_ns: The step of its clock.
        name: Node, as the optimised graph has it. Nodes with the same name and another operator or provider are
            different ones: such a text is there several times.
        op_type: Operator, without its domain.
        provider: Execution provider that ran it.
        start_ns: Since the profile began.
        duration_ns: How long the kernel took, with all that ran inside it.
        self_ns: The same without the nodes of its bodies (``CONTROL_FLOW``); sums count nothing twice.
        parent: Row of the control-flow node whose body the node ran in, or ``NO_PARENT``.
        run: Which run it belongs to, or ``NO_RUN`` (a run that was cut off, or several at once that cannot be told
            apart).
        thread: Thread that ran it.
        wait_ns: That thread waited for the pool's others, or shared out their work; ``ABSENT`` without statistics.
        imbalance_ns: The part of it at the end of parallel work, when others were not done; ``ABSENT`` likewise.
        helpers: Other threads that took part; ``ABSENT`` likewise.
        output_bytes, parameter_bytes, activation_bytes: Of outputs, constant inputs, other inputs.
        in_use_bytes, held_bytes: Memory of the allocator in use after it, and held by the arena.
        nodes: What is the same for all executions of a node.
        kernels: What ran on a device.
        run_start_ns, run_ns: Each run that was recorded to its end, in order of their starts.
        executor_ns: The part of each run that ONNX Runtime's executor took, ``ABSENT`` where not recorded.
        pieces: How many parts of parallel work each other thread of the pool took in the whole file, the most first.
        session_ns: Loading and initialisation, by the names of their events.
        n_events: Events in the file.
        n_unreadable: Lines that are no event.
        n_mended: Events that are no JSON, and were read without the commas that are too many.
        lost: Which of the runs lost events (r,).
        n_left_out: Runs that are left out because they lost events.
        n_outside: Executions in no run that was recorded to its end.
        complete: The file's end was read.
        missing: What the file does not hold, in sentences; ``lacks`` are those that decide what its figures mean.
        page_runs: onnxruntime-web's own marks of each run in a page, in order; () if they were not requested.
    """

    format: str
    device_only: bool = False
    resolution_ns: int = 1000
    name: Labels
    op_type: Labels
    provider: Labels
    start_ns: Numbers
    duration_ns: Numbers
    self_ns: Numbers
    parent: Numbers
    run: Numbers
    thread: Numbers
    wait_ns: Numbers
    imbalance_ns: Numbers
    helpers: Numbers
    output_bytes: Numbers
    parameter_bytes: Numbers
    activation_bytes: Numbers
    in_use_bytes: Numbers
    held_bytes: Numbers
    nodes: Nodes
    kernels: Kernels
    run_start_ns: Numbers
    run_ns: Numbers
    executor_ns: Numbers
    session_ns: dict[str, int]
    n_events: int
    n_unreadable: int
    complete: bool
    n_mended: int = 0
    lost: Flags = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    n_left_out: int = 0
    n_outside: int = 0
    pieces: tuple[int, ...] = ()
    missing: tuple[str, ...] = ()
    lacks: tuple[TraceLack, ...] = ()
    page_runs: tuple[PageRun, ...] = ()

    def __len__(self) -> int:
        return len(self.start_ns)

    @property
    def node_keys(self) -> list[tuple[str, str, str]]:
        """Name, operator and provider of each node, in the order of ``name.texts``: together they tell nodes apart."""
        return list(zip(self.name.texts, self.nodes.op_type, self.nodes.provider, strict=True))

    @property
    def n_runs(self) -> int:
        """Run that were recorded to their end."""
        return len(self.run_ns)


def own_time(duration_ns: Numbers, parent: Numbers) -> Numbers:
    """Durations without those of the rows inside; clocks of whole microseconds must not make them negative."""
    own = duration_ns.copy()
    nested = parent != NO_PARENT
    np.subtract.at(own, parent[nested], duration_ns[nested])
    return np.maximum(own, 0)


def parents(op_type: Labels, start_ns: Numbers, duration_ns: Numbers, thread: Numbers) -> Numbers:
    """Return the row of the control-flow node around each node execution, in whatever order the rows stand.

    A body runs on the thread of the node that runs it, and starts before that node ends. What starts later comes after
    it: two clock readings of whole microseconds make an end earlier than it was, never later.
    """
    parent = np.full(len(start_ns), NO_PARENT, dtype=np.int64)
    flow = [i for i, text in enumerate(op_type.texts) if text in CONTROL_FLOW]
    if not flow:
        return parent
    runs_bodies = np.isin(op_type.codes, flow)
    end_ns = start_ns + duration_ns
    # Of those that start at the same time the one that ends last contains the others.
    # The last key sorts first: thread, then start, then the longest, then nodes that run bodies before
    # others.
    order = np.lexsort((~runs_bodies, -end_ns, start_ns, thread))
    starts, ends = start_ns.tolist(), end_ns.tolist()
    flows, threads = runs_bodies.tolist(), thread.tolist()
    around: list[int] = []
    on = None
    for row in order.tolist():
        if threads[row] != on:
            on = threads[row]
            around.clear()
        start = starts[row]
        while around and not (
            start < ends[around[-1]]
            or starts[around[-1]] == start == ends[row]
            # A node of a body has ended, and so is written, before the node around it.
            or (start == ends[around[-1]] and row < around[-1])
        ):
            around.pop()
        if around:
            parent[row] = around[-1]
        if flows[row]:
            around.append(row)
    return parent


def runs_of(
    start_ns: Numbers, thread: Numbers, run_start_ns: Numbers, run_ns: Numbers, run_thread: Numbers
) -> Numbers:
    """Return the run around each node execution: the one of its own thread, else the only one at that time."""
    run_of = np.full(len(start_ns), NO_RUN, dtype=np.int64)
    if not len(run_ns):
        return run_of
    end = run_start_ns + run_ns
    # In parallel execution mode nodes run on threads of the pool.
    # Runs that overlap no other one: there time alone tells whose an execution is, whatever thread it is on.
    before = np.concatenate([[np.iinfo(np.int64).min], np.maximum.accumulate(end)[:-1]])
    after = np.concatenate([run_start_ns[1:], [np.iinfo(np.int64).max]])
    alone = (before <= run_start_ns) & (end <= after)
    at = np.searchsorted(run_start_ns, start_ns, side="right") - 1
    inside = (at >= 0) & (start_ns <= end[at]) & alone[at]
    run_of[inside] = at[inside]
    left = np.flatnonzero(run_of == NO_RUN)
    left = left[np.argsort(thread[left], kind="stable")]
    runs = np.argsort(run_thread, kind="stable")  # those of one thread stay in order of their starts
    threads, run_threads = thread[left], run_thread[runs]
    for on in np.intersect1d(threads, run_threads):
        rows, mine = left[_span(threads, on)], runs[_span(run_threads, on)]
        place = np.searchsorted(run_start_ns[mine], start_ns[rows], side="right") - 1
        inside = (place >= 0) & (start_ns[rows] <= end[mine[place]])
        run_of[rows[inside]] = mine[place[inside]]
    return run_of


def _span(column: Numbers, value: int) -> slice:
    """Return the range of a value in a sorted column."""
    return slice(
        int(np.searchsorted(column, value, side="left")), int(np.searchsorted(column, value, side="right"))
    )


def as_one_run(trace: Trace) -> Trace:
    """All that was recorded as if it were one run, where no run was recorded to its end; else the trace itself."""
    if trace.n_runs or not len(trace):
        return trace
    start = int(trace.start_ns.min())
    took = int((trace.start_ns + trace.duration_ns).max()) - start
    if took > _LONGEST_NS:
        return trace
    mine = np.flatnonzero(trace.parent == NO_PARENT)
    several = len(mine) > len(np.unique(trace.name.codes[mine]))
    return replace(
        trace,
        run=np.zeros(len(trace), dtype=np.int64),
        run_start_ns=np.array([start], dtype=np.int64),
        run_ns=np.array([took], dtype=np.int64),
        executor_ns=np.array([ABSENT], dtype=np.int64),
        n_outside=0,
        # What lies between several runs is nobody's overhead.
        lost=np.array([several or bool(trace.n_unreadable)]),
        missing=(*trace.missing, _NO_RUNS.what),
        lacks=(*trace.lacks, _NO_RUNS),
    )
