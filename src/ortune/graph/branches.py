"""Unique names for nodes that occur in both branches of an If.

A profile of ONNX Runtime contains a node's name, or its operator and number, but not its branch. Nodes with the same
name in two branches therefore share one row, for example in decoders that were merged from two exports.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from ortune.graph.attributes import graphs_of
from ortune.graph.model.graphs import nested, nodes, own_name
from ortune.graph.nodes import is_op


def with_names(model: ir.Model) -> ir.Model | None:
    """Return a copy in which no node name occurs in both branches of an If; None if the model has no such names."""
    if not any(any(_shared(node)) for node in nodes(model, functions=False) if is_op(node, "If")):
        return None
    copy = model.clone()
    _rename(copy.graph, "")
    return copy


def _shared(node: ir.Node) -> tuple[set[str], set[str]]:
    """Return the node names, and the operators of unnamed nodes, that occur in both branches of an If."""
    branches = [graph for _, graph in graphs_of(node)]
    names = [{own_name(n) for inner in nested(graph) for n in inner} - {""} for graph in branches]
    nameless = [
        {n.op_type for n in graph if not own_name(n) and not is_op(n, "Constant")} for graph in branches
    ]
    if len(branches) != 2:
        return set(), set()
    return names[0] & names[1], nameless[0] & nameless[1]


def _rename(graph: ir.Graph, path: str) -> None:
    """Prefix shared node names with the path of their branch, recursively from the outermost If."""
    for place, node in enumerate(graph):
        name = own_name(node) or f"{path}{node.op_type}#{place}"
        names, operators = _shared(node) if is_op(node, "If") else (set[str](), set[str]())
        for attribute, inner in graphs_of(node):
            below = f"{name}/{attribute}/" if is_op(node, "If") else f"{name}/"
            for deep in _all_nodes(inner):
                if own_name(deep) in names:
                    deep.name = f"{below}{deep.name}"
            for number, direct in enumerate(inner):
                if not own_name(direct) and direct.op_type in operators:
                    direct.name = f"{below}{direct.op_type}#{number}"
            _rename(inner, below)


def _all_nodes(graph: ir.Graph) -> Iterator[ir.Node]:
    return (node for inner in nested(graph) for node in inner)
