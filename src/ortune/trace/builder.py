"""Construction of a trace's columns, one block of events at a time."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ortune.records import TraceLack
from ortune.trace.bodies import NodeKey, distinguish_unnamed
from ortune.trace.columns import Numbered, column, labels
from ortune.trace.device import DeviceEvents
from ortune.trace.events import HOST, KERNEL_TIME, Helper, ProfilerEvent, waiting
from ortune.trace.lost import Losses, fewer_nodes, renumbered, runs_of_one_model
from ortune.trace.table import (
    ABSENT,
    NO_PARENT,
    NO_RUN,
    Labels,
    Nodes,
    Numbers,
    Trace,
    own_time,
    parents,
    runs_of,
)

RUN = "model_run"
EXECUTORS = frozenset(("SequentialExecutor::Execute", "ParallelExecutor::Execute"))
FENCES = ("_fence_before", "_fence_after")
MOST_EVENTS = 1_000_000
"""ONNX Runtime's limit of host events per profile; it drops later events. Device events are appended at the end."""

_NO_THREAD = "thread::id"  # threads that the pool has not started yet

_COLUMNS = (
    "start", "duration", "thread", "wait", "imbalance", "helpers", "output", "parameter", "activation", "in_use",
    "held",
)  # fmt: skip


class TraceBuilder:
    """Builder of a trace: takes events in file order, and returns the finished columns from ``trace``.

    Attributes:
        n_events: Number of events taken.
        n_unreadable: Number of entries that were not events.
        n_damaged: Number of events with an invalid argument, set by the reader.
        n_mended: Number of events that were decoded after removing surplus commas, set by the reader.
        n_known: Number of events from ONNX Runtime; other tools write the same format.
        complete: Whether the end of the file was read.
    """

    def __init__(self) -> None:
        self.n_events = self.n_unreadable = self.n_damaged = self.n_mended = self.n_known = 0
        self._n_host = self._n_foreign = 0
        self._pid: int | str | None = None
        self._losses = Losses()
        self._parallel = False
        self.complete = False
        self.device = DeviceEvents()
        self._node: Numbered[NodeKey] = Numbered()
        self._op_type: Numbered[str] = Numbered()
        self._provider: Numbered[str] = Numbered()
        self._numbers = {name: array("q") for name in _COLUMNS}
        self._shapes: Numbered[tuple[bytes, bytes]] = Numbered()  # of inputs and outputs
        self._pieces: dict[str, int] = {}  # parallel work by pool thread
        self._runs: list[tuple[int, int, int]] = []
        self._executors: list[tuple[int, int, int]] = []
        self._borders: list[int] = []  # rows before which a run ended or began
        self._nameless: Counter[str] = Counter()  # nodes of the run, by operator
        self._session: dict[str, int] = {}
        self._latest = float("-inf")
        self._in_order_of_starts = True
        self._after = NO_PARENT  # the node that a kernel event would follow

    def take(self, events: Sequence[ProfilerEvent]) -> None:
        """Append the columns of a block of events, which follow all earlier blocks in the file."""
        timed = [e for e in events if e.timed]
        if len(timed) < len(events):
            self._take_around(events)
            return
        # Files merged from several processes: the first process with host work is read.
        if self._pid is None:
            self._pid = next((e.pid for e in events if e.cat in HOST), None)
        timed = [e for e in timed if e.pid == self._pid or e.cat not in HOST]
        self._n_foreign += len(events) - len(timed)
        self.n_events += len(timed)
        self._losses.read(timed)
        nodes = [e for e in timed if e.cat == "Node" and e.name.endswith(KERNEL_TIME)]
        self.n_known += len(nodes)
        self._n_host += len(nodes)
        if len(nodes) < len(timed):
            self._take_other_events(timed, len(self._op_type.codes))
        elif nodes:
            self._in_order_of_starts &= nodes[0].ts >= self._latest
            self._latest = nodes[-1].ts
            self._after = len(self._op_type.codes) + len(nodes) - 1
        self._take_nodes(nodes)

    def _take_around(self, events: Sequence[ProfilerEvent]) -> None:
        """Append a block of events, skipping events without valid times."""
        first = 0
        for i, event in enumerate(events):
            if not event.timed:
                self.take(events[first:i])
                first = i + 1
                if event.foreign:
                    self.n_events += 1
                else:
                    self.n_unreadable += 1
                    self._losses.unknown()
        self.take(events[first:])

    def lose(self, line: bytes = b"") -> None:
        """Record an entry that is not an event, with the unreadable line if there is one."""
        self.n_unreadable += 1
        self._losses.line(line)

    def _take_nodes(self, nodes: list[ProfilerEvent]) -> None:
        args = [e.args for e in nodes]
        keys = [_key(e) for e in nodes]
        if any(not name and index == ABSENT for name, _, _, index in keys):
            keys = self._counted(keys)
        self._borders.clear()
        self._node.add(keys)
        # Copied, because a view would keep the whole block in memory.
        self._shapes.add([(bytes(a.input_type_shape), bytes(a.output_type_shape)) for a in args])
        self._op_type.add([a.op_name for a in args])
        self._provider.add([a.provider for a in args])
        threads = [waiting(a.thread_scheduling_stats) for a in args]
        columns = {
            "start": [round(e.ts * 1000) for e in nodes],
            "duration": [round(e.dur * 1000) for e in nodes],
            "thread": [e.tid for e in nodes],
            "wait": [wait for wait, _, _ in threads],
            "imbalance": [late for _, late, _ in threads],
            "helpers": [ABSENT if wait == ABSENT else self._took_part(pool) for wait, _, pool in threads],
            "output": [a.output_size for a in args],
            "parameter": [a.parameter_size for a in args],
            "activation": [a.activation_size for a in args],
            "in_use": [a.mem_bytes_in_use for a in args],
            "held": [a.mem_arena_held for a in args],
        }
        for name, values in columns.items():
            self._numbers[name].extend(values)

    def _counted(self, keys: Sequence[NodeKey]) -> list[NodeKey]:
        """Return the keys; a node without name and number gets a name from its operator and a count in the run."""
        named, borders = [], list(reversed(self._borders))
        for row, (name, op_type, provider, index) in enumerate(keys, start=len(self._op_type.codes)):
            while borders and borders[-1] <= row:
                borders.pop()
                self._nameless.clear()
            nameless = not name and index == ABSENT
            self._nameless[op_type] += nameless
            called = f"{op_type or 'node'} (no name, {self._nameless[op_type]})" if nameless else name
            named.append((called, op_type, provider, index))
        if borders:
            self._nameless.clear()
        return named

    def _took_part(self, pool: Mapping[str, Helper]) -> int:
        """Return the number of pool threads that have completed work since the previous node."""
        n_threads = 0
        for thread, helper in pool.items():
            if thread.startswith(_NO_THREAD):
                continue
            before = self._pieces.setdefault(thread, 0)
            if helper.num_run > before:
                n_threads += 1
                self._pieces[thread] = helper.num_run
        return n_threads

    def _take_other_events(self, events: Sequence[ProfilerEvent], row: int) -> None:
        """Process events that are not node executions (runs, loading, devices); ``row`` is the next node's index."""
        for e in events:
            if e.cat in ("Node", "Session") and self._in_order_of_starts:
                self._in_order_of_starts = e.ts >= self._latest
                self._latest = e.ts
            if e.cat == "Node":
                if e.name.endswith(KERNEL_TIME):
                    self._after = row
                    row += 1
                else:
                    # Older versions record fences around a kernel, which are not work of the operator.
                    self._n_host += 1
                    self.n_known += e.name.endswith(FENCES)
            elif e.cat == "Session":
                self.n_known += 1
                self._n_host += 1
                self._after = NO_PARENT
                start, duration = round(e.ts * 1000), round(e.dur * 1000)
                if e.name == RUN:
                    self._runs.append((start, duration, e.tid))
                    self._borders.append(row)
                elif e.name in EXECUTORS:
                    self._executors.append((start, duration, e.tid))
                    self._parallel |= e.name.startswith("Parallel")
                else:
                    self._session[e.name] = self._session.get(e.name, 0) + duration
            elif e.cat in DeviceEvents.CATEGORIES:
                self.n_known += 1
                self.device.add(e, self._after)

    def trace(self, form: str, missing: Sequence[str] = ()) -> Trace:
        """Return the finished trace; ``form`` is its format, and ``missing`` has more sentences on missing parts."""
        op_type, provider = labels(self._op_type), labels(self._provider)
        columns = {key: np.frombuffer(values, dtype=np.int64).copy() for key, values in self._numbers.items()}
        start, duration, thread = columns["start"], columns["duration"], columns["thread"]
        runs = sorted(self._whole_runs() or self._executed())
        run_start, run_ns, run_thread = (column([run[i] for run in runs]) for i in range(3))
        parent = parents(op_type, start, duration, thread)
        codes, nodes = distinguish_unnamed(list(self._node.numbers), self._node.done(), parent)
        name = Labels(codes=codes, texts=tuple(text for text, _ in nodes))
        run = runs_of(start, thread, run_start, run_ns, run_thread)
        n_outside = int((run == NO_RUN).sum()) if runs else 0
        mine = runs_of_one_model(name, parent, run, len(runs))
        n_others = len(runs) - len(mine)
        if n_others:
            run_start, run_ns, run = run_start[mine], run_ns[mine], renumbered(run, mine, len(runs))
        fewer = fewer_nodes(name, op_type, provider, parent, run, run_start, run_ns, parallel=self._parallel)
        kernels = self.device.kernels(name, op_type, start)
        executions = self._executions(name)
        first = [next(iter(counts)) for counts in executions]
        absent = list(self._missing(columns, len(runs), n_others))
        return Trace(
            format=form,
            name=name,
            op_type=op_type,
            provider=provider,
            start_ns=start,
            duration_ns=duration,
            self_ns=own_time(duration, parent),
            parent=parent,
            run=run,
            thread=thread,
            wait_ns=columns["wait"],
            imbalance_ns=columns["imbalance"],
            helpers=columns["helpers"],
            output_bytes=columns["output"],
            parameter_bytes=columns["parameter"],
            activation_bytes=columns["activation"],
            in_use_bytes=columns["in_use"],
            held_bytes=columns["held"],
            nodes=Nodes(
                op_type=tuple(op_type for _, (_, op_type, _, _) in nodes),
                provider=tuple(provider for _, (_, _, provider, _) in nodes),
                index=tuple(index for _, (_, _, _, index) in nodes),
                inputs=tuple(inputs for inputs, _ in first),
                outputs=tuple(outputs for _, outputs in first),
                executions=tuple(executions),
            ),
            kernels=kernels,
            run_start_ns=run_start,
            run_ns=run_ns,
            executor_ns=_executors(run_start, run_ns, self._executors),
            session_ns=self._session,
            n_events=self.n_events,
            n_unreadable=self.n_unreadable,
            n_mended=self.n_mended,
            n_outside=n_outside,
            lost=self._losses.within(run_start, run_ns) | fewer,
            complete=self.complete,
            pieces=tuple(sorted(self._pieces.values(), reverse=True)),
            missing=(
                *(lack.what if isinstance(lack, TraceLack) else lack for lack in absent),
                *self.device.missing(kernels),
                *missing,
            ),
            lacks=tuple(lack for lack in absent if isinstance(lack, TraceLack)),
        )

    def _executions(self, name: Labels) -> list[dict[tuple[str, str], int]]:
        """Return, for each node, the number of executions by (inputs, outputs), in the order of first executions."""
        shapes = [(_text(inputs), _text(outputs)) for inputs, outputs in self._shapes.numbers]
        executions: list[dict[tuple[str, str], int]] = [{} for _ in name.texts]
        # Node and shapes as one number, decoded by ``divmod``.
        pairs, first, times = np.unique(
            name.codes * np.int64(len(shapes)) + self._shapes.done(), return_index=True, return_counts=True
        )
        for i in np.argsort(first).tolist():
            node, shape = divmod(int(pairs[i]), len(shapes))
            executions[node][shapes[shape]] = int(times[i])
        return executions

    def _executed(self) -> list[tuple[int, int, int]]:
        """Return spans of executors in place of runs if the events of several runs were lost, else an empty list."""
        executors = _outermost(self._executors) if not self._runs else []
        return executors if len(executors) > 1 else []

    def _whole_runs(self) -> list[tuple[int, int, int]]:
        """Return the runs of which all nodes were recorded.

        Events are usually sorted by end, with a run after its nodes. If they are sorted by start, a truncated file may
        contain a run without its last nodes.
        """
        if self.complete or not self._in_order_of_starts or not self._runs:
            return self._runs
        last = round(self._latest * 1000)
        return [run for run in self._runs if run[0] + run[1] <= last]

    def _missing(self, columns: dict[str, Numbers], n_runs: int, n_others: int) -> Iterator[str | TraceLack]:
        if not len(columns["start"]):
            yield "no node: the model did not run while it was profiled"
        else:
            if not n_runs:
                yield "no run was recorded completely"
            elif not self._runs:
                what = "no events inside its runs: only the executor's part of each run is shown"
                yield TraceLack(code="inner-events", what=what)
            if (columns["wait"] == ABSENT).all():
                yield "no thread statistics, so waiting cannot be distinguished from work"
            if (columns["in_use"] == ABSENT).all():
                yield "no allocator figures"
            if (columns["output"] == ABSENT).all():
                yield "no tensor sizes"
        if self.n_damaged:
            yield f"some arguments of {self.n_damaged} events are ignored: ONNX Runtime does not write them this way"
        if n_others:
            what = f"runs of another model in the same file, which are ignored: {n_others:,}"
            yield TraceLack(code="other-models", what=what)
        if self._n_foreign:
            what = f"events of another process, which are ignored: {self._n_foreign:,}"
            yield TraceLack(code="other-processes", what=what)
        if self._n_host >= MOST_EVENTS:
            yield f"nothing after {MOST_EVENTS:,} host events, the limit of ONNX Runtime's profiler"
        if not self.complete:
            yield TraceLack(code="end", what="no end: the file is truncated")


def _key(event: ProfilerEvent) -> NodeKey:
    """Return the key that identifies a node within its graph; the name is "" if ONNX Runtime generated it.

    ONNX Runtime writes the operator and number in place of a missing name.
    """
    name, args = event.name[: -len(KERNEL_TIME)], event.args
    index = args.node_index if args.node_index != ABSENT else args.graph_index
    nameless = not name.strip() or name == f"{args.op_name}_{index}"
    return "" if nameless else name, args.op_name, args.provider, index


def _outermost(executors: Sequence[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Return the executors of whole runs, which are not nested in another executor of the same thread."""
    outermost: list[tuple[int, int, int]] = []
    end: dict[int, int] = {}
    # Of two that start together, the longer one comes first, since it contains the other.
    for start, duration, thread in sorted(executors, key=lambda executor: (executor[0], -executor[1])):
        if start >= end.get(thread, start):
            outermost.append((start, duration, thread))
            end[thread] = start + duration
    return outermost


def _executors(run_start: Numbers, run_ns: Numbers, executors: Sequence[tuple[int, int, int]]) -> Numbers:
    """Return the executor's longest span in each run (subgraphs have their own); ``ABSENT`` if unknown."""
    longest = np.full(len(run_ns), ABSENT, dtype=np.int64)
    if not executors or not len(run_ns):
        return longest
    start, duration = (column([e[i] for e in executors]) for i in range(2))
    # The last run that began at or before this start.
    at = np.searchsorted(run_start, start, side="right") - 1
    inside = (at >= 0) & (start + duration <= run_start[at] + run_ns[at])
    np.maximum.at(longest, at[inside], duration[inside])
    return longest


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")
