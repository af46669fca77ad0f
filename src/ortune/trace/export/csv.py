"""Export of tables as CSV, with one row per execution or per node; unknown values are empty cells.

A text that a spreadsheet would evaluate as a formula (it begins with ``=``, ``+``, ``-``, ``@``, their full-width
forms, or white space) is prefixed with an apostrophe. Texts are quoted, since a semicolon would otherwise start a new
cell in locales where it is the separator.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from typing import BinaryIO

import msgspec

from ortune.printable import cell
from ortune.records import ProfileResult
from ortune.trace.export._nodes import nodes_of
from ortune.trace.table import ABSENT, NO_PARENT, NO_RUN, Trace

EXECUTIONS: dict[str, str] = {
    "row": "number of the execution, in order of completion",
    "run": "number of the run, from 0; empty for one that was cut off",
    "node": "name in the optimised graph",
    "op_type": "operator",
    "provider": "execution provider",
    "original": "the first node of your model that it originates from",
    "category": "category of the node's self time",
    "thread": "thread that ran it",
    "start_ns": "start, relative to the start of the profile",
    "duration_ns": "duration, including nested nodes",
    "self_ns": "duration without nested nodes",
    "wait_ns": "time its thread waited for others or distributed work",
    "imbalance_ns": "part of wait_ns at the end of parallel work, waiting for late threads",
    "helpers": "other threads that took part",
    "parent": "row of the control-flow node around it",
    "output_bytes": "bytes of its outputs",
    "parameter_bytes": "bytes of its constant inputs",
    "activation_bytes": "bytes of its other inputs",
    "in_use_bytes": "allocator memory in use after it",
    "held_bytes": "memory held by the arena after it",
}
"""Columns of the executions table, with descriptions."""

NODES: dict[str, str] = {
    "node": "name in the optimised graph",
    "op_type": "operator",
    "provider": "execution provider",
    "originals": "nodes of your model that it originates from, as a JSON array",
    "layer": "place in the hierarchy of names",
    "inside": "control-flow node whose body it is in",
    "category": "category of its self time",
    "time_ns": "self time in the mean steady run",
    "share": "share of the time of all nodes",
    "wait_ns": "part of time_ns spent waiting for threads",
    "imbalance_ns": "part of wait_ns at the end of parallel work, waiting for late threads",
    "calls": "executions per run",
    "flops": "floating-point operations per run",
    "bytes": "bytes read and written per run",
    "floor_ns": "roofline bound: minimum time at this machine's measured peak",
    "bound": "the limit of the roofline bound: compute, memory or overhead",
    "purpose": "purpose of a node that ONNX Runtime inserted",
    "output_bytes": "bytes of all its outputs",
    "fast_ns": "self time in an undisturbed run, to compare with the roofline bound",
}
"""Columns of the nodes table, with descriptions."""

_CHUNK = 1 << 14
_NUMBERS = ("start_ns", "duration_ns", "self_ns", "wait_ns", "imbalance_ns", "helpers", "parent", "output_bytes",
            "parameter_bytes", "activation_bytes", "in_use_bytes", "held_bytes")  # fmt: skip
_SIGNED = ("start_ns",)
"""Columns in which -1 is a valid value, not a missing one."""


def write(trace: Trace, result: ProfileResult, file: BinaryIO) -> None:
    """Write one row per execution, as a stream."""
    nodes = nodes_of(trace, result)
    original = [cell(node.originals[0]) if node and node.originals else "" for node in nodes]
    category = [node.category if node else "" for node in nodes]
    names = [cell(name) for name in trace.name.texts]
    _write(file, [list(EXECUTIONS)])
    for begin in range(0, len(trace), _CHUNK):
        part = slice(begin, min(begin + _CHUNK, len(trace)))
        codes = trace.name.codes[part].tolist()
        runs = ["" if run == NO_RUN else run for run in trace.run[part].tolist()]
        numbers = []
        for column in _NUMBERS:
            absent = NO_PARENT if column == "parent" else ABSENT
            values = getattr(trace, column)[part].tolist()
            numbers.append(values if column in _SIGNED else ["" if v == absent else v for v in values])
        _write(
            file,
            zip(
                range(part.start, part.stop),
                runs,
                (names[c] for c in codes),
                (cell(trace.op_type.texts[c]) for c in trace.op_type.codes[part].tolist()),
                (cell(trace.provider.texts[c]) for c in trace.provider.codes[part].tolist()),
                (original[c] for c in codes),
                (category[c] for c in codes),
                trace.thread[part].tolist(),
                *numbers,
                strict=True,
            ),
        )


def write_nodes(trace: Trace, result: ProfileResult, file: BinaryIO) -> None:
    """Write one row per node of the mean steady run, most expensive first; the trace itself is not needed."""
    del trace
    _write(file, [list(NODES)])
    _write(
        file,
        (
            (
                cell(n.name), cell(n.op_type), cell(n.provider), msgspec.json.encode(n.originals).decode(),
                cell(n.layer), cell(n.inside), n.category, n.time_ns, n.share_ratio, n.wait_ns,
                n.imbalance_ns, n.calls, n.flops, n.bytes, n.floor_ns, n.bound, cell(n.purpose), n.output_bytes,
                n.fast_ns,
            )
            for n in result.nodes
        ),
    )  # fmt: skip


def _write(file: BinaryIO, rows: Iterable[Iterable[object]]) -> None:
    page = io.StringIO(newline="")
    csv.writer(page, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC).writerows(rows)
    file.write(page.getvalue().encode("utf-8", "backslashreplace"))
