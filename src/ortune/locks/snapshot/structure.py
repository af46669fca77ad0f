"""A graph without its names: operators counted, and a digest of what is wired to what.

Exporters name things differently and may list independent nodes in another order; neither changes what runs. So a
value is known by how it is computed: an input by its place and type, a weight by its type and shape, a node's output
by the operator, its attributes and its inputs.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping

import onnx
from onnx import AttributeProto, GraphProto, NodeProto, TensorProto, numpy_helper

from ortune.model.operators import STANDARD

MOST_SHAPE_ELEMENTS = 64
"""int64 tensors up to this size hold shapes, axes and indices: part of the structure, not weights."""

_LISTS = (AttributeProto.FLOATS, AttributeProto.INTS, AttributeProto.STRINGS)


def operator(node: NodeProto) -> str:
    """As in "Conv", or "com.microsoft:FusedConv"."""
    return node.op_type if node.domain in STANDARD else f"{node.domain}:{node.op_type}"


def graphs_of(node: NodeProto) -> Iterator[GraphProto]:
    """The graphs in a node's attributes."""
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield attribute.g
        yield from attribute.graphs


def all_nodes(graph: GraphProto) -> Iterator[NodeProto]:
    """Every node, those of subgraphs after the one that holds them."""
    for node in graph.node:
        yield node
        for inner in graphs_of(node):
            yield from all_nodes(inner)


def operators(graph: GraphProto) -> dict[str, int]:
    """How many of each operator there are, subgraphs included, in alphabetical order.

    Constants are weights, whether an exporter wrote them as nodes or as initializers.
    """
    counts = Counter(operator(node) for node in all_nodes(graph))
    counts.pop("Constant", None)
    return dict(sorted(counts.items()))


def structure(graph: GraphProto) -> str:
    """A digest of 16 hexadecimal digits; equal for graphs that differ in names and order of nodes alone."""
    return _graph(graph, {})[:16]


def _graph(graph: GraphProto, outer: Mapping[str, str]) -> str:
    known = dict(outer)
    weights = {tensor.name for tensor in graph.initializer}
    for place, value in enumerate(v for v in graph.input if v.name not in weights):
        known[value.name] = digest("input", str(place), _type(value.type))
    for tensor in graph.initializer:
        known[tensor.name] = _tensor(tensor)
    for sparse in graph.sparse_initializer:
        known[sparse.values.name] = digest("sparse", _tensor(sparse.values), str(list(sparse.dims)))
    found = []
    for node in graph.node:
        if node.op_type == "Constant" and node.domain in STANDARD:
            known[node.output[0]] = _constant(node)
            continue
        attributes = sorted(digest(a.name, _attribute(a, known)) for a in node.attribute)
        # An empty name is an input left out; a name that nobody made comes from a broken graph.
        inputs = [known.get(name, "unknown") if name else "" for name in node.input]
        made = digest(operator(node), *attributes, "inputs", *inputs)
        found.append(made)
        for place, name in enumerate(node.output):
            known[name] = digest(made, str(place))
    outputs = [known.get(value.name, "unknown") for value in graph.output]
    return digest("graph", *sorted(found), "outputs", *outputs)


def _constant(node: NodeProto) -> str:
    """A Constant node as the initializer that it could as well be."""
    for attribute in node.attribute:
        if attribute.type == AttributeProto.TENSOR:
            return _tensor(attribute.t)
        if attribute.type in (AttributeProto.INT, AttributeProto.INTS):
            scalar = attribute.type == AttributeProto.INT
            values = [attribute.i] if scalar else list(attribute.ints)
            dims = [] if scalar else [len(values)]
            return _tensor(onnx.helper.make_tensor("", TensorProto.INT64, dims, values))
    return digest("constant", *sorted(digest(a.name, _attribute(a, {})) for a in node.attribute))


def _attribute(attribute: AttributeProto, known: Mapping[str, str]) -> str:
    kind = attribute.type
    if attribute.ref_attr_name:
        return digest("parameter", attribute.ref_attr_name)
    if kind in (AttributeProto.GRAPH, AttributeProto.GRAPHS):
        graphs = [attribute.g] if kind == AttributeProto.GRAPH else attribute.graphs
        return digest(*(_graph(graph, known) for graph in graphs))
    if kind in (AttributeProto.TENSOR, AttributeProto.TENSORS):
        held = [attribute.t] if kind == AttributeProto.TENSOR else attribute.tensors
        return digest(*(_tensor(tensor) for tensor in held))
    if kind in (AttributeProto.SPARSE_TENSOR, AttributeProto.TYPE_PROTO):
        return digest("other", str(kind))
    value = onnx.helper.get_attribute_value(attribute)
    return repr(list(value) if kind in _LISTS else value)


def _tensor(tensor: TensorProto) -> str:
    """Type and shape; the values too where they are shapes and axes."""
    parts = ["tensor", str(tensor.data_type), str(list(tensor.dims))]
    count = 1
    for dim in tensor.dims:
        count *= dim
    inline = tensor.data_location != TensorProto.EXTERNAL
    if inline and tensor.data_type == TensorProto.INT64 and count <= MOST_SHAPE_ELEMENTS:
        parts.append(repr(numpy_helper.to_array(tensor).ravel().tolist()))
    return digest(*parts)


def _type(kind: onnx.TypeProto) -> str:
    """The type of an input: what a dynamic dimension is called does not count."""
    if kind.WhichOneof("value") != "tensor_type":
        return str(kind)
    dims = [d.dim_value if d.WhichOneof("value") == "dim_value" else "?" for d in kind.tensor_type.shape.dim]
    return f"{kind.tensor_type.elem_type} {dims if kind.tensor_type.HasField('shape') else 'any'}"


def digest(*parts: str) -> str:
    """64 hexadecimal digits of a list of texts."""
    # Each part with its length: no two lists of parts become the same bytes.
    return hashlib.sha256("".join(f"{len(part)}:{part}" for part in parts).encode()).hexdigest()
