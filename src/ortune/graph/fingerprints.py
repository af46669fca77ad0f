"""Structural fingerprints of graphs and values, independent of node and value names.

A value's fingerprint covers how it is computed: operators, attributes and inputs, down to the graph's inputs and the
stored tensors. Two graphs with equal fingerprints compute the same function with the same number of nodes of each
kind. Names, and the order of nodes that do not depend on each other, are ignored.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import onnx_ir as ir

from ortune.graph.constants import is_overridable, stored
from ortune.graph.model.graphs import attribute_tensors, op_set, stored_bytes, type_text
from ortune.graph.model.operators import STANDARD
from ortune.graph.model.tensors import FileTensor
from ortune.graph.nodes import is_op

MOST_SHAPE_ELEMENTS = 64
"""Maximum size of an int64 tensor that counts as structure (a shape, axes, indices) instead of a weight."""

COMMUTATIVE = op_set("Add And BitwiseAnd BitwiseOr BitwiseXor Equal Max Mean Min Mul Or Sum Xor")
"""Commutative operators; exporters write their operands in either order."""

_HEAD = 64  # number of leading elements that are compared first

Item = TypeVar("Item")


def digest(*parts: str) -> str:
    """Hash texts to 64 hexadecimal digits; the order and the boundaries of the texts matter."""
    # Length prefixes make the encoding unambiguous.
    return hashlib.sha256("".join(f"{len(part)}:{part}" for part in parts).encode()).hexdigest()


def tensor_digest(tensor: ir.TensorProtocol) -> str:
    """Hash a tensor's type, shape and values to 64 hexadecimal digits; its name does not matter."""
    hasher = hashlib.sha256(f"{tensor.dtype.name} {tensor.shape.numpy()}".encode())
    if isinstance(tensor, FileTensor):
        for chunk in tensor.file.chunks(tensor.offset or 0, tensor.length or 0):
            hasher.update(chunk)
    elif tensor.dtype == ir.DataType.STRING:
        hasher.update(b"\0".join(bytes(text) for text in tensor.numpy().ravel().tolist()))
    else:
        hasher.update(tensor.tobytes())
    return hasher.hexdigest()


def tensor_kind(tensor: ir.TensorProtocol) -> str:
    """Return a tensor's key without weight values: type and shape, plus the values of shapes and axes."""
    if is_structure(tensor):
        return digest("sizes", str(tensor.shape.numpy()), repr(tensor.numpy().ravel().tolist()))
    return weight_kind(tensor.dtype, tensor.shape)


def weight_kind(dtype: ir.DataType | None, shape: ir.ShapeProtocol | ir.Shape | None) -> str:
    """Return the key of a weight of this type and shape."""
    return digest(
        "weight", "?" if dtype is None else dtype.name, "?" if shape is None else str(shape.numpy())
    )


def is_structure(tensor: ir.TensorProtocol) -> bool:
    """Return whether a tensor holds shapes, axes or indices, which some exporters write as attributes instead."""
    return tensor.dtype == ir.DataType.INT64 and tensor.size <= MOST_SHAPE_ELEMENTS


def model_fingerprint(model: ir.Model, tensor: Callable[[ir.TensorProtocol], str] = tensor_digest) -> str:
    """Hash a model's structure to 16 hexadecimal digits; names and node order do not matter.

    Opset versions and the names of model-local functions are part of the hash, since nodes call functions by name.

    Args:
        model: A model; it is not modified.
        tensor: Hash function for stored tensors.
    """
    prints = Fingerprints(tensor)
    functions = sorted(
        digest(
            *name,
            _versions(function),
            *prints.attributes(function.attributes.values()),
            prints.graph(function),
        )
        for name, function in model.functions.items()
    )
    return digest(_versions(model), *functions, prints.graph(model.graph))[:16]


def _versions(scope: ir.Model | ir.Function) -> str:
    return repr(sorted((domain or "ai.onnx", version) for domain, version in scope.opset_imports.items()))


class Fingerprints:
    """Fingerprints of values, computed in topological order.

    Attributes:
        digests: Fingerprints by value; "" for None (an omitted input). Callers may preset entries.
    """

    def __init__(
        self, tensor: Callable[[ir.TensorProtocol], str] = tensor_digest, *, commutes: bool = False
    ) -> None:
        """Hash stored tensors with ``tensor``; if ``commutes``, ignore the operand order of commutative operators."""
        self.digests: dict[ir.Value | None, str] = {None: ""}
        self._tensor, self._commutes, self._depth = tensor, commutes, 0

    def graph(self, graph: ir.Graph | ir.Function) -> str:
        """Return the fingerprint of a graph; outer values that it reads must have fingerprints already."""
        self._depth += 1
        for value in graph.initializers.values() if isinstance(graph, ir.Graph) else ():
            tensor = stored(value)
            if tensor is not None and not is_overridable(value):
                self.digests[value] = self._tensor(tensor)
        # An input is identified by its index, its graph's nesting depth, its type and shape, and the default that
        # callers can override.
        for place, value in enumerate(value for value in graph.inputs if value not in self.digests):
            default = stored(value)
            kept = () if default is None else (self._tensor(default),)
            self.digests[value] = digest(
                "input", str(self._depth), str(place), type_text(value), _dims(value), *kept
            )
        nodes = []
        for node in graph:
            own = self.node(node) or "unknown"
            self.outputs(node, own)
            if not is_op(node, "Constant"):
                # The number of present optional outputs distinguishes nodes.
                nodes.append(digest(own, str(sum(bool(value.name) for value in node.outputs))))
        ends = [self.digests.get(value, "unknown") for value in graph.outputs]
        self._depth -= 1
        # Sorted, because independent nodes may appear in any order.
        return digest("graph", *sorted(nodes), "outputs", *ends)

    def node(self, node: ir.Node) -> str | None:
        """Return a node's fingerprint; None if an input has none. A Constant has the fingerprint of its tensor."""
        tensor = stored(node.outputs[0]) if is_op(node, "Constant") else None
        if tensor is not None:
            return self._tensor(tensor)
        inputs = [self.digests.get(value) for value in node.inputs]
        fingerprints = [fingerprint for fingerprint in inputs if fingerprint is not None]
        if len(fingerprints) < len(inputs):
            return None
        if self._commutes and is_op(node, *COMMUTATIVE):
            fingerprints.sort()
        domain = "" if node.domain in STANDARD else node.domain
        attributes = self.attributes(node.attributes.values())
        return digest(domain, node.op_type, node.overload, *attributes, "inputs", *fingerprints)

    def outputs(self, node: ir.Node, own: str) -> None:
        """Set the fingerprints of a node's outputs, derived from the node's own."""
        for place, value in enumerate(node.outputs):
            self.digests[value] = digest(own, str(place)) if place else own

    def attributes(self, attributes: Iterable[ir.Attr]) -> list[str]:
        """Return the sorted fingerprints of attributes."""
        return sorted(digest(attribute.name, self._attribute(attribute)) for attribute in attributes)

    def _attribute(self, attribute: ir.Attr) -> str:
        if attribute.is_ref():
            return digest("parameter", str(attribute.ref_attr_name))
        if attribute.type == ir.AttributeType.GRAPH:
            return self.graph(attribute.as_graph())
        if attribute.type == ir.AttributeType.GRAPHS:
            return digest(*map(self.graph, attribute.as_graphs()))
        tensors = attribute_tensors(attribute)
        return digest(*map(self._tensor, tensors)) if tensors else repr(attribute.value)


def _dims(value: ir.Value) -> str:
    """Return a value's shape as text, with "?" for each dynamic dimension, so names of dimensions do not matter."""
    if value.shape is None:
        return "any"
    return str([dim if isinstance(dim, int) else "?" for dim in value.shape])


def _head(tensor: ir.TensorProtocol) -> bytes:
    """Return the bytes of a tensor's first elements, without loading the whole tensor if it is stored in a file."""
    if isinstance(tensor, FileTensor):
        return tensor.head(_HEAD)
    return tensor.numpy().reshape(-1)[:_HEAD].tobytes()


def equal_tensors(
    stored_items: Iterable[tuple[Item, ir.TensorProtocol]], *, most_bytes: int
) -> Iterator[list[Item]]:
    """Yield groups of two or more items with equal tensors (same type, shape and contents).

    Args:
        stored_items: (item, tensor) pairs; tensors of strings, or of elements smaller than a byte, are skipped.
        most_bytes: Stop after reading this many bytes of tensors.
    """
    kinds: defaultdict[tuple[object, ...], list[tuple[Item, ir.TensorProtocol]]] = defaultdict(list)
    for item, tensor in stored_items:
        if tensor.dtype != ir.DataType.STRING and tensor.dtype.bitwidth >= 8:
            kinds[tensor.dtype, tuple(tensor.shape.numpy())].append((item, tensor))
    read = 0
    # Compared by type and shape, then by leading elements, then by contents: most tensors differ before they are
    # read in full.
    for group in kinds.values():
        heads: defaultdict[bytes, list[tuple[Item, ir.TensorProtocol]]] = defaultdict(list)
        for item, tensor in group if len(group) > 1 else ():
            heads[_head(tensor)].append((item, tensor))
        for alike in heads.values():
            equal: defaultdict[bytes, list[Item]] = defaultdict(list)
            for item, tensor in alike if len(alike) > 1 else ():
                read += stored_bytes(tensor)
                if read > most_bytes:
                    return
                equal[hashlib.sha256(tensor.numpy().tobytes()).digest()].append(item)
            yield from (items for items in equal.values() if len(items) > 1)
