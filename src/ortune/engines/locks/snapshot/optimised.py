"""Snapshot of one optimised graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import onnx
import onnx_ir as ir
from google.protobuf.message import DecodeError
from onnx import helper

from ortune.engines.locks.snapshot.memory import Sizes, byte_sizes, memory
from ortune.engines.locks.snapshot.structure import graphs_of, operators, structure
from ortune.errors import ModelError
from ortune.graph.model.from_proto import to_ir
from ortune.graph.model.tensors import WeightFiles
from ortune.records import GraphSnapshot

_MOVES = ("Cast", "Transpose", "MemcpyFromHost", "MemcpyToHost", "ReorderInput", "ReorderOutput")
"""Operators that compute nothing, and are inserted to convert a type, a device or a layout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedGraph:
    """A graph that ONNX Runtime saved, as protobuf and as IR.

    Attributes:
        graph: The main graph, without external data.
        model: The same graph, with external initializers as typed inputs.
        weights: Names of the inputs that represent external initializers.
    """

    graph: onnx.GraphProto
    model: ir.Model
    weights: frozenset[str] = frozenset()


def graph_snapshot(
    saved: SavedGraph,
    fed: Mapping[str, tuple[int, ...]],
    observed: Sizes,
    exported: Mapping[str, int],
    plain: Mapping[str, int],
) -> GraphSnapshot:
    """Return the snapshot of a graph that ONNX Runtime saved."""
    counts, footprint = operators(saved.graph), memory(saved.graph, byte_sizes(saved.model, fed) | observed)
    return GraphSnapshot(
        nodes=sum(counts.values()),
        operators=counts,
        fused={
            name: count - plain.get(name, 0)
            for name, count in counts.items()
            if count > plain.get(name, 0) and not _is_move(name)
        },
        inserted=_inserted(counts, exported),
        structure=structure(saved.model, saved.weights),
        weights_bytes=footprint.weights_bytes,
        peak_activation_bytes=footprint.peak_activation_bytes,
        unknown_values=footprint.unknown_values,
    )


def saved_graph(path: Path) -> SavedGraph:
    """Read a graph that ONNX Runtime saved, without its external data.

    Raises:
        ModelError: The file cannot be read.
    """
    try:
        proto = onnx.load(path, load_external_data=False)
        alone = onnx.ModelProto()
        alone.CopyFrom(proto)
        weights = frozenset(_without_data(alone.graph))
        for value in alone.graph.output:
            value.type.tensor_type.ClearField(
                "shape"
            )  # as the exporter declared it, independent of the inputs
        model = to_ir(alone, WeightFiles(path), str(path))
        return SavedGraph(graph=proto.graph, model=model, weights=weights)
    except (OSError, DecodeError, ModelError) as error:
        raise ModelError(
            f"the graph that ONNX Runtime saved cannot be read: {error}",
            where=str(path),
            do="free disk space in the temporary folder, and try again",
        ) from error


def _without_data(graph: onnx.GraphProto) -> list[str]:
    """Turn external initializers into inputs without duplicates, and return the names of these inputs."""
    declared = {value.name for value in graph.input}
    # A Constant of a branch may be saved twice, as the node and as an initializer.
    outputs = {name for node in graph.node for name in node.output}
    kept, weights = [], list[str]()
    for tensor in graph.initializer:
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            kept += [tensor] if tensor.name not in outputs else []
        elif tensor.name not in declared | outputs:
            graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
            weights.append(tensor.name)
    del graph.initializer[:]
    graph.initializer.extend(kept)
    for node in graph.node:
        for inner in graphs_of(node):
            weights += _without_data(inner)
    return weights


def _inserted(counts: Mapping[str, int], exported: Mapping[str, int]) -> dict[str, int]:
    names = sorted(name for name in {*counts, *exported} if _is_move(name))
    changes = {name: counts.get(name, 0) - exported.get(name, 0) for name in names}
    return {name: change for name, change in changes.items() if change}


def _is_move(name: str) -> bool:
    return name.rpartition(":")[2] in _MOVES
