"""Queries on nodes and values: operators by name, readers of a value, and the graphs of a model."""

from __future__ import annotations

from itertools import chain
from typing import overload

import onnx
import onnx_ir as ir

from ortune.graph.model.graphs import listing_of, nested, nodes, scopes
from ortune.graph.model.operators import STANDARD

Scope = ir.Graph | ir.Function

FLOATS = frozenset({ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.DOUBLE})


def is_op(node: ir.Node | None, *names: str) -> bool:
    """Return whether a node has one of these operators of the ONNX domain."""
    return node is not None and node.domain in STANDARD and node.op_type in names


def operator(node: ir.Node | onnx.NodeProto) -> str:
    """Return a node's operator, with the domain unless it is ONNX's own: "Conv", "com.microsoft:FusedConv"."""
    return node.op_type if node.domain in STANDARD else f"{node.domain}:{node.op_type}"


def holds(model: ir.Model, *names: str) -> bool:
    """Return whether a model contains a node with one of these operators of the ONNX domain."""
    listing = listing_of(model)
    if listing is not None:
        return any(name in listing.places for name in names)
    return any(is_op(node, *names) for node in nodes(model))


def with_operator(model: ir.Model, *names: str) -> list[ir.Node]:
    """List the nodes of a model with one of these operators of the ONNX domain, in the order of ``nodes``."""
    listing = listing_of(model)
    if listing is None:
        return [node for node in nodes(model) if is_op(node, *names)]
    # Positions are unique, so nodes are never compared.
    return [
        node for _, node in sorted(chain.from_iterable(listing.places.get(name, ()) for name in {*names}))
    ]


def anchors_in(model: ir.Model, scope: Scope, *names: str) -> list[ir.Node]:
    """List the nodes with one of these operators in one graph of a model, without those in its subgraphs."""
    if listing_of(model) is None:
        return [node for node in scope if is_op(node, *names)]
    return [node for node in with_operator(model, *names) if node.graph is scope]


def input_of(node: ir.Node, position: int) -> ir.Value | None:
    """Return the input of a node at a position; None if it is omitted."""
    return node.inputs[position] if position < len(node.inputs) else None


def only_user(value: ir.Value) -> ir.Node | None:
    """Return the only reader of a value in its graph; None if the value has several uses or is a graph output."""
    uses = tuple(value.uses())
    if len(uses) != 1 or value.is_graph_output():
        return None
    user = uses[0].node
    producer = value.producer()
    return user if producer is None or user.graph is producer.graph else None


@overload
def source_of(value: ir.Value) -> ir.Value: ...
@overload
def source_of(value: ir.Value | None) -> ir.Value | None: ...
def source_of(value: ir.Value | None) -> ir.Value | None:
    """Follow Identity nodes, which ONNX Runtime removes, to the value that they copy; None if ``value`` is None."""
    while value is not None and (node := value.producer()) is not None:
        if not is_op(node, "Identity") or node.inputs[0] is None:
            break
        value = node.inputs[0]
    return value


def maker_of(value: ir.Value | None) -> ir.Node | None:
    """Return the node that computes a value, skipping Identity nodes; None for inputs and initializers."""
    source = source_of(value)
    return None if source is None else source.producer()


def readers(value: ir.Value) -> list[ir.Node | None]:
    """List the nodes that read a value, directly or through Identity nodes, with None for each graph output."""
    listed: list[ir.Node | None] = []
    copies = [value]
    while copies:
        copy = copies.pop()
        listed += [None] if copy.is_graph_output() else []
        for node, _ in copy.uses():
            if is_op(node, "Identity"):
                copies += node.outputs
            else:
                listed.append(node)
    return listed


def other_input(node: ir.Node, value: ir.Value) -> ir.Value | None:
    """Return the other input of a two-input node; None for other nodes, or if both are the same value."""
    inputs = list(node.inputs)
    if len(inputs) != 2 or inputs[0] is inputs[1]:
        return None
    return inputs[1] if inputs[0] is value else inputs[0]


def scopes_of(model: ir.Model) -> list[tuple[Scope, int]]:
    """List every graph and function body, subgraphs included, each with its ONNX opset version."""
    pairs: list[tuple[Scope, int]] = []
    for root in scopes(model):
        imports = root.opset_imports if isinstance(root, ir.Function) else model.opset_imports
        version = imports.get("", imports.get("ai.onnx", 1))
        # Nodes of a function refer to the graph inside it, not to the function.
        pairs += [(s.graph if isinstance(s, ir.Function) else s, version) for s in nested(root)]
    return pairs
