"""Export of the trace as arrays in one ``.npz``; text columns are codes into tables.

``numpy.load(FILE)`` reads it without pickle, and each table or column can be written to Parquet unchanged. The array
``about`` contains a description of every other array.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, BinaryIO

import numpy as np

from ortune.records import ProfileResult
from ortune.trace.export._nodes import nodes_of
from ortune.trace.table import Trace

LONGEST = 1000
"""Maximum number of characters of a text, since every row of a text array has the width of the longest."""

COLUMNS: dict[str, str] = {
    "start_ns": "executions: start, relative to the start of the profile",
    "duration_ns": "executions: duration, including nested nodes",
    "self_ns": "executions: duration without nested nodes",
    "parent": "executions: row of the control-flow node around it, -1 for none",
    "run": "executions: number of the run, -1 for one that was cut off",
    "thread": "executions: thread that ran it",
    "wait_ns": "executions: time its thread waited for others or distributed work, -1 if unknown",
    "imbalance_ns": "executions: part of wait_ns at the end of parallel work, waiting for late threads",
    "helpers": "executions: other threads that took part, -1 if unknown",
    "output_bytes": "executions: bytes of the outputs, -1 if unknown",
    "parameter_bytes": "executions: bytes of the constant inputs, -1 if unknown",
    "activation_bytes": "executions: bytes of the other inputs, -1 if unknown",
    "in_use_bytes": "executions: memory of the allocator in use afterwards, -1 if unknown",
    "held_bytes": "executions: memory held by the arena afterwards, -1 if unknown",
    "name_code": "executions: index into the tables node_*",
    "op_type_code": "executions: index into op_type",
    "provider_code": "executions: index into provider",
    "op_type": "table of operators",
    "provider": "table of execution providers",
    "node_name": "nodes: name in the optimised graph, in the order of the first execution",
    "node_op_type": "nodes: operator",
    "node_provider": "nodes: execution provider",
    "node_index": "nodes: number in the optimised graph, -1 if not given",
    "node_inputs": "nodes: types and shapes of the inputs as JSON, empty if not given or too long",
    "node_outputs": "nodes: types and shapes of the outputs as JSON, empty if not given or too long",
    "node_original": "nodes: the first node of your model that it originates from, empty if unknown",
    "node_layer": "nodes: place in the hierarchy of names",
    "node_category": "nodes: category of the node's self time",
    "node_time_ns": "nodes: self time in the mean steady run, nan if it is in no run",
    "node_fast_ns": "nodes: self time in an undisturbed run, nan if unknown",
    "node_flops": "nodes: floating-point operations in a run, nan if unknown",
    "node_bytes": "nodes: bytes read and written in a run, nan if unknown",
    "node_floor_ns": "nodes: roofline bound, the minimum time at this machine's measured peak, nan if unknown",
    "run_start_ns": "runs: start, relative to the start of the profile",
    "run_ns": "runs: duration",
    "run_executor_ns": "runs: time in the executor, -1 if unknown",
    "kernel_name": "table of kernels on a device",
    "kernel_name_code": "kernels: index into kernel_name",
    "kernel_row": "kernels: the execution that precedes it in the trace, -1 for none",
    "kernel_start_ns": "kernels: start, in the clock of the trace",
    "kernel_duration_ns": "kernels: duration",
    "kernel_bytes": "kernels: bytes of a copy, -1 for a kernel",
}
"""Description of every array except ``about``; arrays of the same kind (executions, nodes, ...) have equal lengths."""

_PLAIN = (
    "start_ns", "duration_ns", "self_ns", "parent", "run", "thread", "wait_ns", "imbalance_ns", "helpers",
    "output_bytes", "parameter_bytes", "activation_bytes", "in_use_bytes", "held_bytes", "run_start_ns", "run_ns",
)  # fmt: skip


def write(trace: Trace, result: ProfileResult, file: BinaryIO) -> None:
    """Write the columns of a trace as a compressed ``.npz`` file."""
    of = nodes_of(trace, result)
    arrays: dict[str, Any] = {name: getattr(trace, name) for name in _PLAIN}
    arrays |= {
        "name_code": trace.name.codes,
        "op_type_code": trace.op_type.codes,
        "provider_code": trace.provider.codes,
        "op_type": _texts(trace.op_type.texts),
        "provider": _texts(trace.provider.texts),
        "node_name": _texts(trace.name.texts),
        "node_op_type": _texts(trace.nodes.op_type),
        "node_provider": _texts(trace.nodes.provider),
        "node_index": np.asarray(trace.nodes.index, dtype=np.int64),
        "node_inputs": _texts([t if len(t) <= LONGEST else "" for t in trace.nodes.inputs]),
        "node_outputs": _texts([t if len(t) <= LONGEST else "" for t in trace.nodes.outputs]),
        "node_original": _texts([n.originals[0] if n and n.originals else "" for n in of]),
        "node_layer": _texts([n.layer if n else "" for n in of]),
        "node_category": _texts([n.category if n else "" for n in of]),
        "node_time_ns": _numbers([n.time_ns if n else None for n in of]),
        "node_fast_ns": _numbers([n.fast_ns if n else None for n in of]),
        "node_flops": _numbers([n.flops if n else None for n in of]),
        "node_bytes": _numbers([n.bytes if n else None for n in of]),
        "node_floor_ns": _numbers([n.floor_ns if n else None for n in of]),
        "run_executor_ns": trace.executor_ns,
        "kernel_name": _texts(trace.kernels.name.texts),
        "kernel_name_code": trace.kernels.name.codes,
        "kernel_row": trace.kernels.row,
        "kernel_start_ns": trace.kernels.start_ns,
        "kernel_duration_ns": trace.kernels.duration_ns,
        "kernel_bytes": trace.kernels.bytes,
        "about": _texts([f"{name}: {text}" for name, text in COLUMNS.items()]),
    }
    np.savez_compressed(file, **arrays)


def _texts(texts: Sequence[str]) -> np.ndarray[Any, np.dtype[np.str_]]:
    """Return a table of texts, truncated to ``LONGEST`` characters."""
    return np.array([text[:LONGEST] for text in texts], dtype=np.str_)


def _numbers(values: Sequence[float | None]) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)
