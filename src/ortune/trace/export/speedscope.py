"""Export for speedscope: the mean steady run by layer as a flame graph, then each thread over time.

A frame's ``name`` is the node's name, and its ``file`` is the operator. The first profile is "sampled", with one stack
of layers per node, weighted by the node's nanoseconds in the mean steady run; time outside nodes
(``(between-nodes)``, ...) is included, so the weights sum to the run's time. All other profiles are "evented", one per
thread, with each run as a frame around its nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO

import msgspec
import numpy as np

from ortune.records import ProfileResult
from ortune.trace.attribution import BESIDE_NODES
from ortune.trace.export._runs import run_threads
from ortune.trace.table import NO_PARENT, Numbers, Trace

SCHEMA = "https://www.speedscope.app/file-format-schema.json"
_CHUNK = 1 << 14

_encode = msgspec.json.Encoder().encode


class _Frames:
    """The table of frames, which grows as frames are used."""

    def __init__(self) -> None:
        self.numbers: dict[tuple[str, str], int] = {}

    def __call__(self, name: str, file: str = "") -> int:
        return self.numbers.setdefault((name, file), len(self.numbers))

    def table(self) -> list[dict[str, str]]:
        return [{"name": n, "file": f} if f else {"name": n} for n, f in self.numbers]


def write(trace: Trace, result: ProfileResult, file: BinaryIO) -> None:
    """Write the file as a stream; events are assembled thread by thread."""
    frames = _Frames()
    nodes = [frames(n, op) for n, op in zip(trace.name.texts, trace.nodes.op_type, strict=True)]
    runs = [frames(f"run {run}") for run in range(trace.n_runs)]
    mean, owners = _mean_run(result, frames), run_threads(trace)
    file.write(b'{"$schema":%b,"exporter":"ortune",' % _encode(SCHEMA))
    file.write(b'"name":%b,"activeProfileIndex":0,' % _encode(_title(result)))
    file.write(b'"shared":{"frames":%b},"profiles":[\n' % _encode(frames.table()))
    file.write(_encode(mean))
    for thread in np.unique(trace.thread).tolist():
        file.write(b',\n{"type":"evented","name":"thread %d","unit":"nanoseconds","events":[\n' % thread)
        first, last = 0, 0
        lines: list[bytes] = []
        start = b""
        for number, (kind, frame, at) in enumerate(_events(trace, thread, owners, nodes, runs)):
            first, last = at if number == 0 else first, at
            lines.append(b'{"type":"%b","frame":%d,"at":%d}' % (kind, frame, at))
            if len(lines) == _CHUNK:
                file.write(start + b",\n".join(lines))
                lines, start = [], b",\n"
        if lines:
            file.write(start + b",\n".join(lines))
        file.write(b'],"startValue":%d,"endValue":%d}' % (first, last))
    file.write(b"]}\n")


def _title(result: ProfileResult) -> str:
    return result.side.label if result.side else result.trace.path or "profile"


def _mean_run(result: ProfileResult, frames: _Frames) -> dict[str, Any]:
    samples, weights = [], []
    for node in sorted(result.nodes, key=lambda n: (n.layer, -n.time_ns)):
        layers = [frames(part) for part in node.layer.split("/") if part]
        samples.append([*layers, frames(node.originals[0] if node.originals else node.name, node.op_type)])
        weights.append(round(node.time_ns))
    for category in result.categories:
        if category.name in BESIDE_NODES and category.ns >= 1:
            samples.append([frames(f"({category.name})")])
            weights.append(round(category.ns))
    return {
        "type": "sampled",
        "name": "mean steady run by layer",
        "unit": "nanoseconds",
        "startValue": 0,
        "endValue": sum(weights),
        "samples": samples,
        "weights": weights,
    }


def _events(
    trace: Trace, thread: int, owners: Numbers, nodes: list[int], runs: list[int]
) -> Iterator[tuple[bytes, int, int]]:
    """Yield (event type, frame, time) of one thread's frames, balanced and in order of time.

    With clocks of whole microseconds neighbours may overlap; the earlier frame then closes when the later one opens.
    """
    rows = np.flatnonzero(trace.thread == thread)
    owned = np.flatnonzero(owners == thread)
    # A run precedes its nodes and a node those of its subgraphs; ties keep the order of their ends.
    start = np.concatenate([trace.run_start_ns[owned], trace.start_ns[rows]])
    end = start + np.concatenate([trace.run_ns[owned], trace.duration_ns[rows]])
    level = np.concatenate([np.full(len(owned), -1), trace.parent[rows] != NO_PARENT])
    around = _around(trace, rows, owned)
    frame = [runs[run] for run in owned.tolist()] + [nodes[c] for c in trace.name.codes[rows].tolist()]
    open_items: list[int] = []
    now = int(start.min()) if len(start) else 0
    starts, ends = start.tolist(), end.tolist()
    # In order of starts; of items with the same start, the outer one first.
    for item in np.lexsort((level, start)).tolist():
        begins = max(now, starts[item])
        # Close all frames that do not contain the next one.
        while open_items and open_items[-1] != around[item]:
            closed = open_items.pop()
            now = max(now, min(ends[closed], begins))
            yield b"C", frame[closed], now
        now = begins
        yield b"O", frame[item], now
        open_items.append(item)
    while open_items:
        closed = open_items.pop()
        now = max(now, ends[closed])
        yield b"C", frame[closed], now


def _around(trace: Trace, rows: Numbers, owned: Numbers) -> list[int]:
    """Return, for each item (owned runs, then rows), the index of the item that contains it, or -1."""
    item_of_row = {row: len(owned) + at for at, row in enumerate(rows.tolist())}
    item_of_run = {run: at for at, run in enumerate(owned.tolist())}
    around = [-1] * len(owned)
    for parent, run in zip(trace.parent[rows].tolist(), trace.run[rows].tolist(), strict=True):
        inside = item_of_row.get(parent, -1) if parent != NO_PARENT else -1
        around.append(inside if inside >= 0 else item_of_run.get(run, -1))
    return around
