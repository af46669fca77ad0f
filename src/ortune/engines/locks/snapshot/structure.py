"""Structure of a saved graph without names: operator counts, and a fingerprint of the wiring."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator

import onnx_ir as ir
from onnx import AttributeProto, GraphProto, NodeProto

from ortune.graph.fingerprints import Fingerprints, tensor_kind, weight_kind
from ortune.graph.model.graphs import graphs
from ortune.graph.nodes import operator


def graphs_of(node: NodeProto) -> Iterator[GraphProto]:
    """Yield the subgraphs in a node's attributes."""
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield attribute.g
        yield from attribute.graphs


def all_nodes(graph: GraphProto) -> Iterator[NodeProto]:
    """Yield every node, with the nodes of subgraphs after their parent."""
    for node in graph.node:
        yield node
        for inner in graphs_of(node):
            yield from all_nodes(inner)


def operators(graph: GraphProto) -> dict[str, int]:
    """Return the number of nodes of each operator, subgraphs included, in alphabetical order.

    Constant nodes are not counted, since an exporter could have written them as initializers.
    """
    counts = Counter(operator(node) for node in all_nodes(graph))
    counts.pop("Constant", None)
    return dict(sorted(counts.items()))


def structure(model: ir.Model, weights: Collection[str] = ()) -> str:
    """Return a fingerprint of the main graph as 16 hexadecimal digits; weights contribute only their type and shape.

    Args:
        model: Model without functions.
        weights: Names of inputs that represent weights.
    """
    prints = Fingerprints(tensor_kind)
    for graph in graphs(model, functions=False):
        prints.digests.update({v: weight_kind(v.dtype, v.shape) for v in graph.inputs if v.name in weights})
    return prints.graph(model.graph)[:16]
