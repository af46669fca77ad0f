"""Reading the attributes of nodes: by name and kind, with the default of the operator.

An attribute of another kind counts as one that is not there: opening checks what ONNX itself defines, and of operators
of others nothing but this does. In a function an attribute may be a parameter, which each call sets: it is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import onnx_ir as ir

from ortune.model.graphs import attribute_tensors, held_tensor

SMALL_BYTES = 1024
"""Tensors up to this are compared by content where they cannot be compared by identity."""

_TENSORS = frozenset({ir.AttributeType.TENSOR, ir.AttributeType.TENSORS})
_GRAPHS = frozenset({ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS})


def attribute_of(node: ir.Node, name: str, kind: ir.AttributeType) -> ir.Attr | None:
    """An attribute of that kind; None where it is of another, is not there, or is a parameter of a function."""
    found = node.attributes.data.get(name)
    return found if found is not None and found.type == kind and not found.is_ref() else None


def is_parameter(node: ir.Node, name: str) -> bool:
    """Whether an attribute is a parameter of the function around, and so not known."""
    found = node.attributes.data.get(name)
    return found is not None and found.is_ref()


def has_parameters(node: ir.Node) -> bool:
    """Whether one of its attributes is a parameter of the function around."""
    return any(attribute.is_ref() for attribute in node.attributes.data.values())


def int_of(node: ir.Node, name: str, default: int) -> int:
    """An integer attribute, or its default."""
    found = attribute_of(node, name, ir.AttributeType.INT)
    return found.as_int() if found is not None else default


def optional_int(node: ir.Node, name: str) -> int | None:
    """An integer attribute, None where it is not there."""
    found = attribute_of(node, name, ir.AttributeType.INT)
    return found.as_int() if found is not None else None


def float_of(node: ir.Node, name: str, default: float) -> float:
    """A number as an attribute, or its default."""
    found = optional_float(node, name)
    return default if found is None else found


def optional_float(node: ir.Node, name: str) -> float | None:
    """A number as an attribute, None where it is not there."""
    found = attribute_of(node, name, ir.AttributeType.FLOAT)
    return found.as_float() if found is not None else None


def ints_of(node: ir.Node, name: str) -> list[int] | None:
    """A list of integers as an attribute, None where it is not there."""
    found = attribute_of(node, name, ir.AttributeType.INTS)
    return list(found.as_ints()) if found is not None else None


def floats_of(node: ir.Node, name: str) -> list[float] | None:
    """A list of numbers as an attribute, None where it is not there."""
    found = attribute_of(node, name, ir.AttributeType.FLOATS)
    return list(found.as_floats()) if found is not None else None


def text_of(node: ir.Node, name: str, default: str) -> str:
    """A text attribute, or its default."""
    found = attribute_of(node, name, ir.AttributeType.STRING)
    return found.as_string() if found is not None else default


def texts_of(node: ir.Node, name: str) -> list[str] | None:
    """A list of texts as an attribute, None where it is not there."""
    found = attribute_of(node, name, ir.AttributeType.STRINGS)
    return list(found.as_strings()) if found is not None else None


def tensor_of(node: ir.Node, name: str) -> ir.TensorProtocol | None:
    """A tensor as an attribute, None where it is not there."""
    found = attribute_of(node, name, ir.AttributeType.TENSOR)
    return held_tensor(found) if found is not None else None


def graph_of(node: ir.Node, name: str) -> ir.Graph | None:
    """A graph as an attribute, None where it is not there."""
    found = attribute_of(node, name, ir.AttributeType.GRAPH)
    return found.as_graph() if found is not None else None


def graphs_of(node: ir.Node) -> Iterator[tuple[str, ir.Graph]]:
    """The graphs in its attributes, each with the attribute's name."""
    for name, attribute in node.attributes.data.items():
        if attribute.type == ir.AttributeType.GRAPH and not attribute.is_ref():
            yield name, attribute.as_graph()


def length_of(node: ir.Node, name: str) -> int:
    """How many elements a list or a tensor in an attribute has; 0 where it is not there."""
    found = node.attributes.data.get(name)
    if found is None or found.is_ref():
        return 0
    if found.type == ir.AttributeType.TENSOR:
        return held_tensor(found).size
    return len(found.value) if isinstance(found.value, tuple | list) else 0


def texts(node: ir.Node) -> dict[str, str]:
    """Attributes as text, in the order of their names; without tensors, graphs and parameters of functions."""
    return {
        name: repr(attribute.value)
        for name, attribute in sorted(node.attributes.data.items())
        if not attribute.is_ref() and attribute.type not in _TENSORS | _GRAPHS
    }


def signature(
    node: ir.Node, tensor: Callable[[ir.TensorProtocol], object], graph: Callable[[object], object] = id
) -> tuple[tuple[object, ...], ...]:
    """What a node's attributes are, to be compared: name, kind and value of each, in the order of the names.

    Args:
        node: The node.
        tensor: What a tensor is compared by.
        graph: What a graph is compared by, or a list of graphs; each is equal to itself alone by default.
    """
    found: list[tuple[object, ...]] = []
    for name, attribute in sorted(node.attributes.data.items()):
        start = (name, attribute.type, attribute.ref_attr_name)
        if attribute.is_ref():
            found.append(start)
        elif attribute.type in _GRAPHS:
            found.append((*start, graph(attribute.value)))
        elif attribute.type in _TENSORS:
            found.append((*start, *map(tensor, attribute_tensors(attribute))))
        else:
            found.append((*start, repr(attribute.value)))
    return tuple(found)


def small_contents(tensor: ir.TensorProtocol) -> object:
    """What a tensor is compared by: a small one by its contents, a large one is equal only to itself."""
    if tensor.dtype == ir.DataType.STRING or tensor.nbytes > SMALL_BYTES:
        return id(tensor)
    return (tensor.dtype, tuple(tensor.shape.numpy()), tensor.tobytes())


def cast_to(node: ir.Node) -> int:
    """The type that a Cast makes, as ONNX numbers them; 0 of any other node."""
    return int_of(node, "to", 0) if node.op_type == "Cast" else 0
