"""Layer groups: a product with what follows it, and which of a graph's groups are the same structure over again.

A group is the unit in which precision is chosen: a Conv, Gemm, MatMul or LSTM with its bias, its activation and
whatever else comes before the next product. Groups whose products, and whose neighbours' products, have the same shapes
and attributes are of one kind: twelve equal blocks ask each question once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir

from ortune.graph.constants import stored
from ortune.graph.fingerprints import Fingerprints, digest, tensor_kind
from ortune.graph.nodes import is_op

PRODUCTS = ("Conv", "ConvTranspose", "MatMul", "Gemm", "LSTM")
"""What is worth computing in fewer bits."""

_IN_PARAMETERS = frozenset("+,:=")
"""What separates the parameters of a rewrite: a name that holds one of these is not used as a name there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerGroup:
    """One product with what follows it.

    Attributes:
        name: The product's, as a rewrite's parameter can hold it.
        op_type: The product's operator.
        values: Names of the outputs of its nodes.
        kind: Of its structure: equal for groups that are the same over again.
        reads: Places of the groups whose values it reads.
    """

    name: str
    op_type: str
    values: frozenset[str]
    kind: str
    reads: frozenset[int]


def layer_groups(model: ir.Model) -> tuple[LayerGroup, ...]:
    """Return the groups of a model's main graph in its order; nodes before the first product belong to that."""
    products: list[ir.Node] = []
    place: dict[ir.Node, int] = {}
    for node in model.graph:
        if is_op(node, *PRODUCTS):
            place[node] = len(products)
            products.append(node)
        else:
            # Of two layers to the later one: the Add of a shortcut stands behind the product that it waits
            # for.
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


def values_of(model: ir.Model, names: Sequence[str]) -> frozenset[str]:
    """Return names of all values of the groups of these names."""
    wanted = set(names)
    return frozenset().union(*(group.values for group in layer_groups(model) if group.name in wanted))


def group_of_nodes(graph: ir.Graph, groups: Sequence[LayerGroup]) -> dict[ir.Node, int]:
    """The group that each node of a graph belongs to, which may be another form of the one that the groups are of.

    Nodes are known by the names of what they compute. One that the other form brought, a conversion say, belongs to
    what reads it, and where nobody does to what it reads.
    """
    by_value = {name: place for place, group in enumerate(groups) for name in group.values}
    places: dict[ir.Node, int] = {}
    for node in graph:
        place = next((by_value[v.name] for v in node.outputs if v.name in by_value), None)
        if place is not None:
            places[node] = place
    # Backwards first, so that a chain of new nodes gets its group from what reads its end; then forwards.
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
    """Return a name for each that no other has: the node's, else its output's, else its number."""
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
