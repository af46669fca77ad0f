"""Whether two files hold the same graph, whatever its nodes and values are called.

A value is known by how it is computed: by operator, attributes and inputs, down to the model's inputs and the contents
of its weights. Two graphs with the same digest compute the same from the same, with as many nodes of each kind; the
order of nodes that do not depend on each other, and all names but those of inputs, do not count.
"""

from __future__ import annotations

import hashlib
from collections import Counter

import onnx_ir as ir


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
    weights = model.graph.initializers
    for value in model.graph.inputs:
        if value.name not in weights:
            known[value] = _of("input", value.name, value.type, value.shape)
    return _graph(model.graph, known).hex()


def _of(*parts: object) -> bytes:
    """A digest of parts; bytes are taken as they are, everything else as it is written."""
    total = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else repr(part).encode()
        total.update(len(data).to_bytes(8, "little"))
        total.update(data)
    return total.digest()


def _graph(graph: ir.Graph, known: dict[ir.Value | None, bytes]) -> bytes:
    """Of a graph whose outer values, and inputs of its own that have names, are known already."""
    for value in graph.initializers.values():
        known[value] = _tensor(value.const_value)
    for i, value in enumerate(graph.inputs):
        known.setdefault(value, _of("argument", i, value.type))
    nodes: Counter[bytes] = Counter()
    for node in graph:
        attributes = sorted((name, _attribute(a, known)) for name, a in node.attributes.items())
        inputs = [known[value] for value in node.inputs]
        n_outputs = sum(bool(value.name) for value in node.outputs)
        own = _of(node.domain, node.op_type, node.overload, n_outputs, *inputs, "with", *_flat(attributes))
        nodes[own] += 1
        for i, value in enumerate(node.outputs):
            known[value] = _of(own, i)
    ends = [known[value] for value in graph.outputs]
    return _of(*ends, "from", *(_of(own, count) for own, count in sorted(nodes.items())))


def _flat(attributes: list[tuple[str, bytes]]) -> list[str | bytes]:
    return [part for pair in attributes for part in pair]


def _attribute(attribute: ir.Attr, known: dict[ir.Value | None, bytes]) -> bytes:
    kind, value = attribute.type, attribute.value
    match kind:
        case ir.AttributeType.GRAPH:
            return _of(kind, _graph(attribute.as_graph(), dict(known)))
        case ir.AttributeType.GRAPHS:
            return _of(kind, *(_graph(graph, dict(known)) for graph in attribute.as_graphs()))
        case ir.AttributeType.TENSOR:
            return _of(kind, _tensor(attribute.as_tensor()))
        case ir.AttributeType.TENSORS:
            return _of(kind, *(_tensor(tensor) for tensor in attribute.as_tensors()))
    return _of(kind, value)


def _tensor(tensor: ir.TensorProtocol | None) -> bytes:
    if tensor is None:
        raise ValueError("a weight has no value")
    return _of("weight", tensor.dtype, tuple(tensor.shape), tensor.tobytes())
