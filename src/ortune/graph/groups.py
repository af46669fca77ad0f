"""Layer groups: each Conv, Gemm, MatMul or LSTM with the nodes that follow it, classified by structure.

Precision is chosen per group: such an operator, called a product here, with its bias, its activation and the other
nodes before the next product. Groups have the same kind if their products, and the products of the neighbouring groups,
have equal shapes and attributes, so repeated blocks are measured once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir

from ortune.graph.constants import stored
from ortune.graph.fingerprints import Fingerprints, digest, tensor_kind
from ortune.graph.nodes import is_op

PRODUCTS = ("Conv", "ConvTranspose", "MatMul", "Gemm", "LSTM")
"""Operators that benefit from lower precision."""

_IN_PARAMETERS = frozenset("+,:=")
"""Separators in rewrite parameters; a name that contains any of these characters cannot be a parameter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerGroup:
    """A product (Conv, Gemm, MatMul or LSTM) with the nodes that follow it.

    Attributes:
        name: Name of the product, usable as a rewrite parameter.
        op_type: The product's operator.
        values: Output names of the group's nodes.
        kind: Hash of the group's structure; equal for repeated groups.
        reads: Indices of the groups whose values this group reads.
    """

    name: str
    op_type: str
    values: frozenset[str]
    kind: str
    reads: frozenset[int]


def layer_groups(model: ir.Model) -> tuple[LayerGroup, ...]:
    """Return the groups of a model's main graph in node order; nodes before the first product join the first group."""
    products: list[ir.Node] = []
    place: dict[ir.Node, int] = {}
    for node in model.graph:
        if is_op(node, *PRODUCTS):
            place[node] = len(products)
            products.append(node)
        else:
            # A node with several producers joins the latest group: the Add of a shortcut waits for that product.
            place[node] = max((place[p] for p in _producers(node) if p in place), default=0)
    if not products:
        return ()
    values: list[set[str]] = [set() for _ in products]
    reads: list[set[int]] = [set() for _ in products]
    for node, group in place.items():
        values[group].update(value.name or "" for value in node.outputs)
        reads[group].update(place[p] for p in _producers(node) if p in place and place[p] != group)
    kinds = _kinds(products, reads)
    names = _names(products)
    return tuple(
        LayerGroup(
            name=names[i],
            op_type=products[i].op_type,
            values=frozenset(values[i] - {""}),
            kind=kinds[i],
            reads=frozenset(reads[i]),
        )
        for i in range(len(products))
    )


def group_of_nodes(graph: ir.Graph, groups: Sequence[LayerGroup]) -> dict[ir.Node, int]:
    """Return the group index of each node in a graph, which may be a rewritten form of the grouped graph.

    Nodes are matched by the names of their outputs. A node that the rewrite added, such as a conversion, joins the
    group of a reader, or of a producer if no reader has a group. Nodes for which neither has a group are omitted.
    """
    by_value = {name: place for place, group in enumerate(groups) for name in group.values}
    places: dict[ir.Node, int] = {}
    for node in graph:
        place = next((by_value[v.name] for v in node.outputs if v.name in by_value), None)
        if place is not None:
            places[node] = place
    # Backwards first, so a chain of new nodes gets the group of its reader; then forwards.
    for nodes, near in ((reversed(list(graph)), _readers), (iter(graph), _producers)):
        for node in nodes:
            if node not in places:
                beside = [places[other] for other in near(node) if other in places]
                if beside:
                    places[node] = beside[0]
    return places


def _readers(node: ir.Node) -> list[ir.Node]:
    return [use.node for value in node.outputs for use in value.uses()]


def _producers(node: ir.Node) -> list[ir.Node]:
    producers = (value.producer() for value in node.inputs if value is not None)
    return [producer for producer in producers if producer is not None]


def _names(products: Sequence[ir.Node]) -> list[str]:
    """Return a unique name per product: preferably the node's, then the output's, else "product-N"."""
    names: list[str] = []
    for number, node in enumerate(products):
        wishes = (node.name, node.outputs[0].name, f"product-{number}")
        fit = (w for w in wishes if w and not _IN_PARAMETERS & set(w) and w not in (*names, node.op_type))
        names.append(next(fit, f"product-{number}"))
    return names


def _kinds(products: Sequence[ir.Node], reads: Sequence[set[int]]) -> list[str]:
    prints = Fingerprints(tensor_kind)
    own = []
    for node in products:
        tensors = [stored(value) for value in node.inputs]
        weights = ["computed" if tensor is None else tensor_kind(tensor) for tensor in tensors]
        own.append(digest(node.op_type, *prints.attributes(node.attributes.values()), *weights))
    readers: list[list[str]] = [[] for _ in products]
    for group, read in enumerate(reads):
        for other in read:
            readers[other].append(own[group])
    return [
        digest(own[i], "reads", *sorted(own[other] for other in reads[i]), "read by", *sorted(readers[i]))
        for i in range(len(products))
    ]
