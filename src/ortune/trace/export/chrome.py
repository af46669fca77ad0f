"""Chrome trace events in ONNX Runtime's format with additional fields, for Perfetto.

The file is an array with one event per line, in the order of the trace. Nodes keep the names and arguments of ONNX
Runtime's own profiles, so tools for those can read it. Additional fields are ``run``, ``original`` (original nodes)
and ``category``. In the thread statistics, ``Wait`` is the imbalance and ``Distribution`` the other waiting.
Loading and initialization are omitted, since a trace contains their durations but not their times.

Perfetto drops overlapping events of a track, and accepts only thread numbers from 0 to 2^32 - 1. Concurrent kernels
therefore get separate tracks, and threads with other numbers are renumbered.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any, BinaryIO

import msgspec
import numpy as np

from ortune.records import ProfiledNode, ProfileResult
from ortune.trace.export._nodes import nodes_of
from ortune.trace.export._runs import run_threads
from ortune.trace.table import ABSENT, NO_RUN, Trace
from ortune.trace.timeline import assign_tracks

CHUNK = 1 << 14
HOST, DEVICE = 1, 2  # process ids of the two groups of tracks
MOST_LANES = 64  # per device
_NUMBERS = range(1 << 32)
_COLUMNS = (
    "start_ns", "duration_ns", "thread", "run", "wait_ns", "imbalance_ns", "helpers", "output_bytes",
    "parameter_bytes", "activation_bytes", "in_use_bytes", "held_bytes",
)  # fmt: skip
_SIZES = {
    "output_size": "output_bytes",
    "parameter_size": "parameter_bytes",
    "activation_size": "activation_bytes",
    "mem_bytes_in_use": "in_use_bytes",
    "mem_arena_held": "held_bytes",
}
"""Maps ONNX Runtime's name of a size to the column of the trace."""


class _Tracks:
    """Track numbers of threads and of concurrent device work."""

    def __init__(self, trace: Trace) -> None:
        thread_ids = np.unique(trace.thread).tolist()
        used = set(thread_ids)
        free = (number for number in count(1) if number not in used)
        self.threads: dict[int, int] = {t: t if t in _NUMBERS else next(free) for t in thread_ids}
        start = trace.kernels.start_ns
        order = np.argsort(start, kind="stable")
        ends = (start + trace.kernels.duration_ns)[order]
        number = assign_tracks(start[order].tolist(), ends.tolist(), 0, MOST_LANES)
        lane = np.empty(len(order), dtype=np.int64)
        lane[order] = np.where(number < 0, MOST_LANES - 1, number)
        self.device = [next(free) for _ in range(int(lane.max(initial=-1)) + 1)]
        self._lane = lane

    def of_kernel(self, at: int) -> int:
        """Return the track number of the kernel at an index; concurrent kernels are on different tracks."""
        return self.device[int(self._lane[at])]


def write(trace: Trace, result: ProfileResult, file: BinaryIO) -> None:
    """Write the events as a stream, so memory use does not grow with the size of the trace."""
    encode = msgspec.json.Encoder().encode
    start = b"[\n"
    for events in _chunks(trace, result):
        lines = b",\n".join(encode(event) for event in events)
        if lines:
            file.write(start + lines)
            start = b",\n"
    file.write(b"\n]\n")


def _chunks(trace: Trace, result: ProfileResult) -> Iterator[Iterable[dict[str, Any]]]:
    tracks = _Tracks(trace)
    yield _titles(tracks)
    kernels = np.argsort(trace.kernels.row, kind="stable")
    after = trace.kernels.row[kernels]
    # Kernels without a node have row -1 and come first.
    first = int(np.searchsorted(after, 0))
    yield (_kernel(trace, at, tracks) for at in kernels[:first].tolist())
    nodes = nodes_of(trace, result)
    shapes = [
        {"input_type_shape": _raw(i), "output_type_shape": _raw(o)}
        for i, o in zip(trace.nodes.inputs, trace.nodes.outputs, strict=True)
    ]
    for begin in range(0, len(trace), CHUNK):
        end = min(begin + CHUNK, len(trace))
        low, high = np.searchsorted(after, [begin, end])
        behind: dict[int, list[int]] = {}
        for at in kernels[low:high].tolist():
            behind.setdefault(int(trace.kernels.row[at]), []).append(at)
        yield _rows(trace, range(begin, end), nodes, shapes, behind, tracks)
    yield _runs(trace, tracks)


def _titles(tracks: _Tracks) -> Iterator[dict[str, Any]]:
    yield _title("process_name", HOST, 0, "ONNX Runtime")
    for thread, number in tracks.threads.items():
        yield _title("thread_name", HOST, number, f"thread {thread}")
    if tracks.device:
        yield _title("process_name", DEVICE, tracks.device[0], "device")
    for lane, number in enumerate(tracks.device):
        yield _title("thread_name", DEVICE, number, f"device {lane}" if lane else "device")


def _title(what: str, group: int, thread: int, text: str) -> dict[str, Any]:
    return {"ph": "M", "pid": group, "tid": thread, "name": what, "args": {"name": text}}


def _rows(
    trace: Trace,
    rows: range,
    nodes: list[ProfiledNode | None],
    shapes: list[dict[str, Any]],
    behind: dict[int, list[int]],
    tracks: _Tracks,
) -> Iterator[dict[str, Any]]:
    columns = {name: getattr(trace, name)[rows.start : rows.stop].tolist() for name in _COLUMNS}
    codes = trace.name.codes[rows.start : rows.stop].tolist()
    for at, row in enumerate(rows):
        name = trace.name.texts[codes[at]]
        values = {key: column[at] for key, column in columns.items()}
        args: dict[str, Any] = {"op_name": trace.op_type[row], "provider": trace.provider[row]}
        args |= {key: values[ours] for key, ours in _SIZES.items() if values[ours] != ABSENT}
        args |= _computed_arguments(trace, row, values, nodes[codes[at]])
        # Types and shapes are known only for the first execution.
        args |= {key: raw for key, raw in shapes[codes[at]].items() if raw is not None}
        shapes[codes[at]] = {}
        yield _event("Node", f"{name}_kernel_time", tracks.threads[values["thread"]], values, args)
        for kernel in behind.get(row, ()):
            yield _kernel(trace, kernel, tracks)


def _computed_arguments(
    trace: Trace, row: int, values: dict[str, int], node: ProfiledNode | None
) -> dict[str, Any]:
    """Return the arguments of an event that are not copied directly from a column."""
    args: dict[str, Any] = {}
    index = trace.nodes.index[int(trace.name.codes[row])]
    if index != ABSENT:
        args["node_index"] = index
    if values["wait_ns"] != ABSENT:
        late = values["imbalance_ns"]
        args["thread_scheduling_stats"] = {
            "main_thread": {"Distribution": (values["wait_ns"] - late) // 1000, "Wait": late // 1000},
            # ONNX Runtime's counts increase from node to node; they rise for threads that took part.
            "sub_threads": {str(n): {"num_run": row + 1} for n in range(max(0, values["helpers"]))},
        }
    if values["run"] != NO_RUN:
        args["run"] = values["run"]
    if node is not None:
        args["category"] = node.category
        if node.originals and node.originals != (node.name,):
            args["original"] = node.originals
    return args


def _raw(text: str) -> msgspec.Raw | None:
    """Return JSON text to embed unchanged; None if it is invalid."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return None
    return msgspec.Raw(text.encode().replace(b"\n", b" "))


def _kernel(trace: Trace, at: int, tracks: _Tracks) -> dict[str, Any]:
    kernels = trace.kernels
    row = int(kernels.row[at])
    args = {"node": trace.name[row]} if row >= 0 else {}
    values = {"start_ns": int(kernels.start_ns[at]), "duration_ns": int(kernels.duration_ns[at])}
    return _event("Kernel", kernels.name[at], tracks.of_kernel(at), values, args, group=DEVICE)


def _runs(trace: Trace, tracks: _Tracks) -> Iterator[dict[str, Any]]:
    thread = run_threads(trace)
    for run in range(trace.n_runs):
        values = {"start_ns": int(trace.run_start_ns[run]), "duration_ns": int(trace.run_ns[run])}
        executor = int(trace.executor_ns[run])
        args = {"run": run} | ({"executor_us": executor / 1000} if executor != ABSENT else {})
        number = tracks.threads.get(int(thread[run]), 0)
        yield _event("Session", "model_run", number, values, args)


def _event(
    kind: str, name: str, thread: int, values: dict[str, int], args: dict[str, Any], group: int = HOST
) -> dict[str, Any]:
    start, duration = _microseconds(values["start_ns"]), _microseconds(values["duration_ns"])
    return {
        "cat": kind, "pid": group, "tid": thread, "dur": duration, "ts": start, "ph": "X", "name": name, "args": args,
    }  # fmt: skip


def _microseconds(ns: int) -> int | float:
    return ns // 1000 if ns % 1000 == 0 else ns / 1000
