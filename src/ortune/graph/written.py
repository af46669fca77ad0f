"""Fingerprint of a model as stored in a file, to detect changes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from ortune.graph.attributes import SMALL_BYTES, signature
from ortune.graph.model.graphs import graphs

Signature = tuple[object, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """Contents of a model's file, including names, without the bytes of large tensors.

    Attributes:
        nodes: One signature per node, in graph order; metadata is ignored, since provenance is not a change.
        rest: Inputs, outputs, initializers and shapes of every graph, opset versions, and functions.
        tensors: The tensors that were compared by identity, kept alive so their ids are not reused.
    """

    nodes: tuple[Signature, ...]
    rest: tuple[Signature, ...]
    tensors: tuple[object, ...] = field(compare=False, repr=False)

    @classmethod
    def from_model(cls, model: ir.Model, *, by_identity: bool = True) -> Fingerprint:
        """Compute the fingerprint of a model.

        Args:
            model: A model; it is not modified, and large weights are not read.
            by_identity: Whether tensors are compared as objects, which suits a model that is modified
                in place. Otherwise small tensors are compared by content, large tensors by type and shape.
        """
        tensors: list[object] = []
        signatures, nodes = list[Signature](), list[Signature]()
        for graph in graphs(model):
            own = list(graph)
            signatures.append(_graph_signature(graph, own, tensors, by_identity))
            nodes += [node_signature(node, tensors, by_identity) for node in own]
        versions = (
            model.ir_version,
            tuple(sorted(model.opset_imports.items())),
            tuple(sorted(model.metadata_props.items())),
            tuple(model.functions),
        )
        return cls(nodes=tuple(nodes), rest=(versions, *signatures), tensors=tuple(tensors))

    def new_nodes(self, model: ir.Model, *, by_identity: bool = True) -> list[ir.Node]:
        """List the nodes of ``model`` that are new or changed since this fingerprint."""
        old, tensors = set(self.nodes), list[object]()
        return [
            node
            for graph in graphs(model)
            for node in graph
            if node_signature(node, tensors, by_identity) not in old
        ]


def node_signature(node: ir.Node, tensors: list[object], by_identity: bool) -> Signature:
    """Return a comparable key of a node: operator, names and attributes; nodes in subgraphs have separate keys."""
    return (
        node.domain,
        node.op_type,
        node.overload,
        node.name,
        tuple([None if value is None else value.name for value in node.inputs]),
        tuple([value.name for value in node.outputs]),
        signature(node, lambda tensor: _tensor_signature(tensor, tensors, by_identity), lambda _: None),
    )


def _tensor_signature(
    tensor: ir.TensorProtocol | None, tensors: list[object], by_identity: bool
) -> Signature:
    if tensor is None:
        return ()
    if by_identity:
        tensors.append(tensor)
        return (tensor.name, id(tensor))
    start = (tensor.name, tensor.dtype, tuple(tensor.shape.numpy()))
    if tensor.dtype == ir.DataType.STRING or tensor.nbytes > SMALL_BYTES:
        return start
    return (*start, tensor.tobytes())


def _graph_signature(
    graph: ir.Graph | ir.Function, nodes: Sequence[ir.Node], tensors: list[object], by_identity: bool
) -> Signature:
    stored = graph.initializers.values() if isinstance(graph, ir.Graph) else ()
    return (
        graph.name,
        _values_signature(graph.inputs),
        _values_signature(graph.outputs),
        tuple((v.name, _tensor_signature(v.const_value, tensors, by_identity)) for v in stored),
        _values_signature(value for node in nodes for value in node.outputs),
    )


def _values_signature(values: Iterable[ir.Value]) -> Signature:
    return tuple([(v.name, repr(v.type), None if v.shape is None else str(v.shape)) for v in values])
