"""Whether two files hold the same graph, whatever its nodes and values are called.

A value is known by how it is computed: by operator, attributes and inputs, down to the model's inputs and the contents
of its weights. Two graphs with the same digest compute the same from the same, with as many nodes of each kind; the
order of nodes that do not depend on each other, and all names but those of inputs, do not count.
"""

from __future__ import annotations

import hashlib
from collections import Counter

import onnx_ir as ir

from ortune.model.graphs import held_tensor


def graph_digest(model: ir.Model) -> str:
    """Equal for models with the same graph; hexadecimal.

    Args:
        model: With its weights at hand; all of them are read.

    Raises:
        ValueError: It has functions of its own, which are not looked into.
    """
    if model.functions:
        raise ValueError("functions of the model's own are not looked into")
    known: dict[ir.Value | None, bytes] = {None: b""}
    for value in model.graph.inputs:
        default = value.const_value
        held = () if default is None else (tensor_digest(default),)
        known[value] = digest("input", value.name, value.type, value.shape, *held)
    versions = sorted((domain or "ai.onnx", version) for domain, version in model.opset_imports.items())
    return digest(versions, _graph(model.graph, known, 0)).hex()


def digest(*parts: object) -> bytes:
    """Sixteen bytes that stand for these parts, by what they are written as."""
    return hashlib.blake2b(repr(parts).encode(), digest_size=16).digest()


def tensor_digest(tensor: ir.TensorProtocol) -> bytes:
    """Sixteen bytes that stand for type, shape and contents of a tensor."""
    shape = tuple(map(int, tensor.shape.numpy()))
    if tensor.dtype == ir.DataType.STRING:
        return digest("text", shape, tensor.numpy().tolist())
    made = hashlib.blake2b(repr((str(tensor.dtype), shape)).encode(), digest_size=16)
    made.update(tensor.tobytes())
    return made.digest()


def _graph(graph: ir.Graph, known: dict[ir.Value | None, bytes], depth: int) -> bytes:
    """Of a graph whose outer values, and inputs of its own that have names, are known already."""
    for value in graph.initializers.values():
        if value in known:
            continue  # an input's default
        if value.const_value is None:
            raise ValueError("a weight has no value")
        known[value] = tensor_digest(value.const_value)
    for i, value in enumerate(graph.inputs):
        known.setdefault(value, digest("argument", depth, i, value.type))
    nodes: Counter[bytes] = Counter()
    for node in graph:
        held = sorted((name, _attribute(a, known, depth + 1)) for name, a in node.attributes.items())
        inputs = [known[value] for value in node.inputs]
        n_outputs = sum(bool(value.name) for value in node.outputs)
        own = digest(node.domain, node.op_type, node.overload, n_outputs, inputs, held)
        nodes[own] += 1
        for i, value in enumerate(node.outputs):
            known[value] = digest(own, i)
    ends = [known[value] for value in graph.outputs]
    return digest(ends, sorted(nodes.items()))


def _attribute(attribute: ir.Attr, known: dict[ir.Value | None, bytes], depth: int) -> bytes:
    kind, value = attribute.type, attribute.value
    match kind:
        case ir.AttributeType.GRAPH:
            return digest(kind, _graph(attribute.as_graph(), dict(known), depth))
        case ir.AttributeType.GRAPHS:
            return digest(kind, *(_graph(graph, dict(known), depth) for graph in attribute.as_graphs()))
        case ir.AttributeType.TENSOR:
            return digest(kind, tensor_digest(held_tensor(attribute)))
        case ir.AttributeType.TENSORS:
            return digest(kind, *map(tensor_digest, attribute.as_tensors()))
    return digest(kind, value)
