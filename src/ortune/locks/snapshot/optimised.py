"""One optimised graph as a lock keeps it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError

from ortune.errors import ModelError
from ortune.locks.snapshot.memory import memory
from ortune.locks.snapshot.shapes import Sizes
from ortune.locks.snapshot.structure import operators, structure
from ortune.records import GraphSnapshot

_MOVES = ("Cast", "Transpose", "MemcpyFromHost", "MemcpyToHost", "ReorderInput", "ReorderOutput")
"""Operators that compute nothing: inserted for the sake of a type, a device or a layout."""


def graph_snapshot(
    model: onnx.ModelProto,
    fed: Mapping[str, Sequence[int]],
    observed: Sizes,
    exported: Mapping[str, int],
    plain: Mapping[str, int],
) -> GraphSnapshot:
    """What a lock keeps of a graph that ONNX Runtime saved.

    Args:
        model: From ``saved_graph``.
        fed: Shapes of the inputs, by name.
        observed: Bytes by value name, from a run.
        exported: Operators of the model as exported.
        plain: Operators at level ``disable``.
    """
    counts, held = operators(model.graph), memory(model, fed, observed)
    return GraphSnapshot(
        nodes=sum(counts.values()),
        operators=counts,
        fused={
            name: count - plain.get(name, 0)
            for name, count in counts.items()
            if count > plain.get(name, 0) and not _is_move(name)
        },
        inserted=_inserted(counts, exported),
        structure=structure(model.graph),
        weights_bytes=held.weights_bytes,
        peak_activation_bytes=held.peak_activation_bytes,
        unknown_values=held.unknown_values,
    )


def saved_graph(path: Path) -> onnx.ModelProto:
    """A graph that ONNX Runtime saved; data beside it is not read.

    Raises:
        ModelError: The file cannot be read.
    """
    try:
        return onnx.load(path, load_external_data=False)
    except (OSError, DecodeError) as error:
        raise ModelError(
            f"the graph that ONNX Runtime saved cannot be read: {error}",
            where=str(path),
            do="look for free space in the temporary folder, and try again",
        ) from error


def _inserted(counts: Mapping[str, int], exported: Mapping[str, int]) -> dict[str, int]:
    names = sorted(name for name in {*counts, *exported} if _is_move(name))
    changes = {name: counts.get(name, 0) - exported.get(name, 0) for name in names}
    return {name: change for name, change in changes.items() if change}


def _is_move(name: str) -> bool:
    return name.rpartition(":")[2] in _MOVES
