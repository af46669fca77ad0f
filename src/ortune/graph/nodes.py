"""Nodes and the values between them: operators by name, who reads a value, and the graphs of a model."""

from __future__ import annotations

import onnx
import onnx_ir as ir

from ortune.model.graphs import nested, nodes, scopes
from ortune.model.operators import STANDARD

Scope = ir.Graph | ir.Function

FLOATS = frozenset({ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.DOUBLE})


def is_op(node: ir.Node | None, *names: str) -> bool:
    """Whether a node is one of these operators of the standard domain."""
    return node is not None and node.domain in STANDARD and node.op_type in names


def operator(node: ir.Node | onnx.NodeProto) -> str:
    """A node's operator with its domain, where that is not ONNX's: "Conv", or "com.microsoft:FusedConv"."""
    return node.op_type if node.domain in STANDARD else f"{node.domain}:{node.op_type}"


def holds(model: ir.Model, *names: str) -> bool:
    """Whether one of these operators of the standard domain is anywhere in a model."""
    return any(is_op(node, *names) for node in nodes(model))


def input_of(node: ir.Node, position: int) -> ir.Value | None:
    """An input of a node, None where it is left out."""
    return node.inputs[position] if position < len(node.inputs) else None


def only_user(value: ir.Value) -> ir.Node | None:
    """The node that alone uses a value, once, in the same graph; None where others do, or the caller of the model."""
    uses = tuple(value.uses())
    if len(uses) != 1 or value.is_graph_output():
        return None
    user = uses[0].node
    producer = value.producer()
    return user if producer is None or user.graph is producer.graph else None


def other_input(node: ir.Node, value: ir.Value) -> ir.Value | None:
    """What a node of two inputs takes beside a value; None where it takes it twice."""
    inputs = list(node.inputs)
    if len(inputs) != 2 or inputs[0] is inputs[1]:
        return None
    return inputs[1] if inputs[0] is value else inputs[0]


def scopes_of(model: ir.Model) -> list[tuple[Scope, int]]:
    """Every graph and function body, subgraphs included, each with its version of the standard operators."""
    pairs: list[tuple[Scope, int]] = []
    for root in scopes(model):
        imports = root.opset_imports if isinstance(root, ir.Function) else model.opset_imports
        version = imports.get("", imports.get("ai.onnx", 1))
        # The nodes of a function know the graph inside it, not the function.
        pairs += [(s.graph if isinstance(s, ir.Function) else s, version) for s in nested(root)]
    return pairs
