"""A trace as columns, with one row per node execution.

Each format has a reader that fills the columns; analyses and exports read them.
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
"""Marks a missing value in columns of sizes and waiting times."""

CONTROL_FLOW = frozenset(
    ("Loop", "If", "Scan", "SequenceMap", "BeamSearch", "GreedySearch", "Sampling", "WhisperBeamSearch")
)
"""Operators that run subgraphs; the time of such a node includes the time of the nodes in its subgraphs."""

_LONGEST_NS = 1 << 60
_NO_RUNS = TraceLack(code="runs", what="no begin and end of its runs: everything recorded counts as one run")

Codes = np.ndarray[Any, np.dtype[np.int32]]
Numbers = np.ndarray[Any, np.dtype[np.int64]]
Floats = np.ndarray[Any, np.dtype[np.float64]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """A column of text, stored as codes.

    Attributes:
        codes: Index into ``texts`` (rows,).
        texts: Texts in order of their first row; distinct, except for ``Trace.name``.
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
    """Return the codes of each text; nodes that share a name have several."""
    numbers: dict[str, list[int]] = {}
    for number, text in enumerate(labels.texts):
        numbers.setdefault(text, []).append(number)
    return numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Nodes:
    """Properties of each node, one entry per text of ``Trace.name``; shapes are those of its first execution.

    Attributes:
        op_type: Operator, without its domain.
        provider: Execution provider.
        index: The node's number in the optimised graph, ``ABSENT`` if not given; not unique across subgraphs.
        inputs, outputs: Types and shapes as JSON text (``[{"float":[1,3]}]``), "" if not given.
        executions: For each node, the number of executions by (inputs, outputs); () if the format contains only the
            shapes of first executions. Not part of exports.
    """

    op_type: tuple[str, ...]
    provider: tuple[str, ...]
    index: tuple[int, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    executions: tuple[Mapping[tuple[str, str], int], ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernels:
    """Device kernels and copies, one row each, in file order.

    Attributes:
        name: Name of the kernel.
        row: The node execution that started the kernel, or ``NO_PARENT`` if unknown.
        start_ns, duration_ns: Times on the device, in the clock of the trace.
        bytes: Bytes of a copy; ``ABSENT`` for a kernel.
    """

    name: Labels
    row: Numbers
    start_ns: Numbers
    duration_ns: Numbers
    bytes: Numbers


class PageRun(NamedTuple):
    """A call of ``run()`` in a web page: its total time, and the times for preparing inputs and processing outputs."""

    whole_ns: int
    inputs_ns: int
    outputs_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """A profile as columns; a row is one node execution, in file order.

    Attributes:
        format: "ort-json", "web-console", ...
        device_only: Whether rows are device kernels, without any host events.
        resolution_ns: Resolution of the clock.
        name: Node name in the optimized graph. Nodes with the same name and a different operator or provider are
            distinct, so such a name occurs several times among the texts.
        op_type: Operator, without its domain.
        provider: Execution provider that ran the node.
        start_ns: Start since the beginning of the profile.
        duration_ns: Duration, including nested nodes.
        self_ns: Duration without nested nodes (see ``CONTROL_FLOW``), so sums count no time twice.
        parent: Row of the enclosing control-flow node, or ``NO_PARENT``.
        run: Index of the run, or ``NO_RUN`` (a truncated run, or concurrent runs that cannot be
            distinguished).
        thread: Thread that ran the node.
        wait_ns: Time the thread waited for the pool or distributed work; ``ABSENT`` without thread statistics.
        imbalance_ns: Part of ``wait_ns`` at the end of parallel work, waiting for late threads, or ``ABSENT``.
        helpers: Number of other threads that took part, or ``ABSENT``.
        output_bytes, parameter_bytes, activation_bytes: Bytes of outputs, of constant inputs, and of other inputs.
        in_use_bytes, held_bytes: After the execution, memory in use by the allocator, and memory reserved by the arena.
        nodes: Properties common to all executions of a node.
        kernels: Device kernels and copies.
        run_start_ns, run_ns: Start and duration of each completely recorded run, in order of start.
        executor_ns: Time of each run in ONNX Runtime's executor; ``ABSENT`` if not recorded.
        pieces: Work items that each other pool thread completed in the whole file, in descending order.
        session_ns: Loading and initialization times by event name.
        n_events: Number of events in the file.
        n_unreadable: Number of lines that are not events.
        n_mended: Number of events read after removing surplus commas.
        lost: Whether each run lost events (r,).
        n_left_out: Number of runs excluded because they lost events.
        n_outside: Number of executions in no completely recorded run.
        complete: Whether the end of the file was read.
        missing: Sentences about missing information.
        lacks: Missing information that affects the meaning of numbers, as codes.
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
        """(name, operator, provider) of each node, in the order of ``name.texts``; together they identify a node."""
        return list(zip(self.name.texts, self.nodes.op_type, self.nodes.provider, strict=True))

    @property
    def n_runs(self) -> int:
        """Number of completely recorded runs."""
        return len(self.run_ns)


def own_time(duration_ns: Numbers, parent: Numbers) -> Numbers:
    """Return each row's duration without the durations of nested rows; at least 0, even if clocks were rounded."""
    own = duration_ns.copy()
    nested = parent != NO_PARENT
    np.subtract.at(own, parent[nested], duration_ns[nested])
    return np.maximum(own, 0)


def parents(op_type: Labels, start_ns: Numbers, duration_ns: Numbers, thread: Numbers) -> Numbers:
    """Return, for each execution, the row of the enclosing control-flow node or ``NO_PARENT``; rows may be unsorted.

    A subgraph runs on the thread of its node, and starts before that node ends. Rounding of clocks makes recorded ends
    earlier, never later.
    """
    parent = np.full(len(start_ns), NO_PARENT, dtype=np.int64)
    flow = [i for i, text in enumerate(op_type.texts) if text in CONTROL_FLOW]
    if not flow:
        return parent
    runs_bodies = np.isin(op_type.codes, flow)
    end_ns = start_ns + duration_ns
    # Of rows with the same start, the one that ends last contains the others. The last key sorts first: thread,
    # start, longest first, then nodes with subgraphs before others.
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
            # A nested node ends, and is written, before the enclosing node.
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
    """Return the run of each execution: the run on its thread, else the only run at that time, else ``NO_RUN``."""
    run_of = np.full(len(start_ns), NO_RUN, dtype=np.int64)
    if not len(run_ns):
        return run_of
    end = run_start_ns + run_ns
    # In parallel execution mode, nodes run on pool threads. For runs that do not overlap, time determines the run.
    before = np.concatenate([[np.iinfo(np.int64).min], np.maximum.accumulate(end)[:-1]])
    after = np.concatenate([run_start_ns[1:], [np.iinfo(np.int64).max]])
    alone = (before <= run_start_ns) & (end <= after)
    at = np.searchsorted(run_start_ns, start_ns, side="right") - 1
    inside = (at >= 0) & (start_ns <= end[at]) & alone[at]
    run_of[inside] = at[inside]
    left = np.flatnonzero(run_of == NO_RUN)
    left = left[np.argsort(thread[left], kind="stable")]
    runs = np.argsort(run_thread, kind="stable")  # runs of one thread stay in order of their starts
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
    """Return a trace in which all executions are one run if no run was recorded completely, else the trace itself."""
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
        # Time between several runs is not overhead.
        lost=np.array([several or bool(trace.n_unreadable)]),
        missing=(*trace.missing, _NO_RUNS.what),
        lacks=(*trace.lacks, _NO_RUNS),
    )
