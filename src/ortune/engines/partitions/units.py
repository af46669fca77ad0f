"""Units that a partitioner takes or leaves together: a node, or a node with its QDQ nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import onnx_ir as ir

from ortune.graph.model.graphs import nested, op_set, subgraphs
from ortune.graph.nodes import is_op

_FIRST_ALONE = op_set(
    "Reshape Squeeze Unsqueeze Resize Gather GatherElements Slice Split Pad Tile Expand TopK ReduceMean ReduceSum "
    "ReduceMax ReduceMin ReduceProd ReduceL2 Clip CumSum"
)
"""Operators of which only the first input is quantized; the others are sizes, axes and positions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """A node, together with its QDQ nodes if it is quantized.

    Attributes:
        target: The node.
        nodes: All nodes in execution order.
        dequantized: The DequantizeLinear node before each input, by input index; empty if the node is not quantized.
        quantizers: The QuantizeLinear nodes after the node's outputs.
    """

    target: ir.Node
    nodes: tuple[ir.Node, ...]
    dequantized: Mapping[int, ir.Node] = field(default_factory=dict)
    quantizers: tuple[ir.Node, ...] = ()


def units_of(graph: ir.Graph, *, qdq: bool) -> list[Unit]:
    """Return the units of a graph in graph order, without Constant nodes, which ONNX Runtime treats as initializers.

    Args:
        graph: The main graph.
        qdq: Whether a quantized node and its QDQ nodes form one unit.
    """
    nodes = [node for node in graph if not is_op(node, "Constant")]
    groups = [unit for node in nodes if (unit := _quantized(node)) is not None] if qdq else []
    by_target = {unit.target: unit for unit in groups}
    inside = {node for unit in groups for node in unit.nodes}
    return [
        by_target.get(node) or Unit(target=node, nodes=(node,))
        for node in nodes
        if node in by_target or node not in inside
    ]


def _quantized(node: ir.Node) -> Unit | None:
    """Return the unit of a node and its QDQ nodes; None if the node is not quantized."""
    if is_op(node, "QuantizeLinear", "DequantizeLinear") or any(subgraphs(node)):
        return None
    places = [i for i, value in enumerate(node.inputs) if value is not None]
    wanted = places[:1] if node.op_type in _FIRST_ALONE else places
    before = {i: producer for i in wanted if (producer := _own_dequantize(node.inputs[i])) is not None}
    behind = [use.node for value in node.outputs for use in value.uses()]
    outputs = [value for value in node.outputs if value.name]
    # A convolution may have a bias that is not quantized.
    optional = {2} if node.op_type in ("Conv", "Gemm", "ConvTranspose") else set()
    if (
        not before
        or set(wanted) - set(before) - optional
        or len(behind) != len(outputs)
        or not all(is_op(reader, "QuantizeLinear") for reader in behind)
        or any(value.is_graph_output() for value in outputs)
    ):
        return None
    order = (*dict.fromkeys(before.values()), node, *behind)
    return Unit(target=node, nodes=order, dequantized=before, quantizers=tuple(behind))


def _own_dequantize(value: ir.Value | None) -> ir.Node | None:
    """Return the DequantizeLinear that produces a value with a single reader; None for other values."""
    node = value.producer() if value is not None else None
    if node is None or value is None or not is_op(node, "DequantizeLinear"):
        return None
    return node if len(tuple(value.uses())) == 1 and not value.is_graph_output() else None


def read_by(node: ir.Node) -> Iterator[ir.Value]:
    """Yield the values that a node reads: its inputs, and outer values that its subgraphs read."""
    yield from (value for value in node.inputs if value is not None)
    for body in subgraphs(node):
        own = {v for graph in nested(body) for v in (*graph.inputs, *_made(graph))}
        for graph in nested(body):
            for inner in graph:
                yield from (v for v in inner.inputs if v is not None and v not in own)
            yield from (v for v in graph.outputs if v is not None and v not in own)


def _made(graph: ir.Graph | ir.Function) -> Iterator[ir.Value]:
    if isinstance(graph, ir.Graph):
        yield from graph.initializers.values()
    for node in graph:
        yield from node.outputs
