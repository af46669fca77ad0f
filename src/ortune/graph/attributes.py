"""Access to node attributes by name and type, with the operator's default.

An attribute of an unexpected type counts as missing: the checker validates only ONNX's own operators when a model is
opened. In a function, an attribute may refer to a parameter that each call sets, so its value is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import onnx_ir as ir

from ortune.graph.model.graphs import attribute_tensors, tensor_value

SMALL_BYTES = 1024
"""Maximum size in bytes of tensors that are compared by content; larger ones are compared by identity."""

_TENSORS = frozenset({ir.AttributeType.TENSOR, ir.AttributeType.TENSORS})
_GRAPHS = frozenset({ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS})


def attribute_of(node: ir.Node, name: str, kind: ir.AttributeType) -> ir.Attr | None:
    """Return an attribute of type ``kind``; None if missing, of a different type, or a function's parameter."""
    attribute = node.attributes.data.get(name)
    return attribute if attribute is not None and attribute.type == kind and not attribute.is_ref() else None


def is_parameter(node: ir.Node, name: str) -> bool:
    """Return whether an attribute refers to a parameter of the enclosing function, so its value is unknown."""
    attribute = node.attributes.data.get(name)
    return attribute is not None and attribute.is_ref()


def has_parameters(node: ir.Node) -> bool:
    """Return whether any attribute of the node refers to a parameter of the enclosing function."""
    return any(attribute.is_ref() for attribute in node.attributes.data.values())


def int_of(node: ir.Node, name: str, default: int) -> int:
    """Return the value of an integer attribute, or ``default`` if it is missing."""
    attribute = attribute_of(node, name, ir.AttributeType.INT)
    return attribute.as_int() if attribute is not None else default


def optional_int(node: ir.Node, name: str) -> int | None:
    """Return the value of an integer attribute, or None if it is missing."""
    attribute = attribute_of(node, name, ir.AttributeType.INT)
    return attribute.as_int() if attribute is not None else None


def float_of(node: ir.Node, name: str, default: float) -> float:
    """Return the value of a float attribute, or ``default`` if it is missing."""
    number = optional_float(node, name)
    return default if number is None else number


def optional_float(node: ir.Node, name: str) -> float | None:
    """Return the value of a float attribute, or None if it is missing."""
    attribute = attribute_of(node, name, ir.AttributeType.FLOAT)
    return attribute.as_float() if attribute is not None else None


def ints_of(node: ir.Node, name: str) -> list[int] | None:
    """Return the value of an integer-list attribute, or None if it is missing."""
    attribute = attribute_of(node, name, ir.AttributeType.INTS)
    return list(attribute.as_ints()) if attribute is not None else None


def text_of(node: ir.Node, name: str, default: str) -> str:
    """Return the value of a string attribute, or ``default`` if it is missing."""
    attribute = attribute_of(node, name, ir.AttributeType.STRING)
    return attribute.as_string() if attribute is not None else default


def texts_of(node: ir.Node, name: str) -> list[str] | None:
    """Return the value of a string-list attribute, or None if it is missing."""
    attribute = attribute_of(node, name, ir.AttributeType.STRINGS)
    return list(attribute.as_strings()) if attribute is not None else None


def tensor_of(node: ir.Node, name: str) -> ir.TensorProtocol | None:
    """Return the tensor of a tensor attribute, or None if it is missing."""
    attribute = attribute_of(node, name, ir.AttributeType.TENSOR)
    return tensor_value(attribute) if attribute is not None else None


def graph_of(node: ir.Node, name: str) -> ir.Graph | None:
    """Return the graph of a graph attribute, or None if it is missing."""
    attribute = attribute_of(node, name, ir.AttributeType.GRAPH)
    return attribute.as_graph() if attribute is not None else None


def graphs_of(node: ir.Node) -> Iterator[tuple[str, ir.Graph]]:
    """Yield (attribute name, subgraph) for each subgraph of the node."""
    for name, attribute in node.attributes.data.items():
        if attribute.type == ir.AttributeType.GRAPH and not attribute.is_ref():
            yield name, attribute.as_graph()


def length_of(node: ir.Node, name: str) -> int:
    """Count the elements of a list or tensor attribute; 0 if it is missing."""
    attribute = node.attributes.data.get(name)
    if attribute is None or attribute.is_ref():
        return 0
    if attribute.type == ir.AttributeType.TENSOR:
        return tensor_value(attribute).size
    return len(attribute.value) if isinstance(attribute.value, tuple | list) else 0


def texts(node: ir.Node) -> dict[str, str]:
    """Return the attributes as text by name, sorted by name, without tensors, graphs and function parameters."""
    return {
        name: repr(attribute.value)
        for name, attribute in sorted(node.attributes.data.items())
        if not attribute.is_ref() and attribute.type not in _TENSORS | _GRAPHS
    }


def signature(
    node: ir.Node, tensor: Callable[[ir.TensorProtocol], object], graph: Callable[[object], object] = id
) -> tuple[tuple[object, ...], ...]:
    """Return a comparable key of a node's attributes: name, kind and value of each, sorted by name.

    Args:
        node: The node.
        tensor: Returns the key by which a tensor is compared.
        graph: Returns the key by which a graph, or a list of graphs, is compared; by default, its identity.
    """
    parts: list[tuple[object, ...]] = []
    for name, attribute in sorted(node.attributes.data.items()):
        start = (name, attribute.type, attribute.ref_attr_name)
        if attribute.is_ref():
            parts.append(start)
        elif attribute.type in _GRAPHS:
            parts.append((*start, graph(attribute.value)))
        elif attribute.type in _TENSORS:
            parts.append((*start, *map(tensor, attribute_tensors(attribute))))
        else:
            parts.append((*start, repr(attribute.value)))
    return tuple(parts)


def small_contents(tensor: ir.TensorProtocol) -> object:
    """Return a comparable key of a tensor: its contents if it has at most ``SMALL_BYTES`` bytes, else its identity."""
    if tensor.dtype == ir.DataType.STRING or tensor.nbytes > SMALL_BYTES:
        return id(tensor)
    return (tensor.dtype, tuple(tensor.shape.numpy()), tensor.tobytes())


def cast_to(node: ir.Node) -> int:
    """Return the ONNX type number that a Cast converts to; 0 for any other node."""
    return int_of(node, "to", 0) if node.op_type == "Cast" else 0
