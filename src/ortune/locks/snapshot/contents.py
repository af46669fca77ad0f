"""A model as exported, without its names: what is wired to what, with the values of every weight in their place.

``structure`` knows a weight by its type and shape, so that other weights are no other structure. Here it shows where
two weights of one shape change places.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import onnx_ir as ir

from ortune.locks.snapshot.structure import digest
from ortune.model.graphs import attribute_tensors, held_tensor, type_text

Values = Callable[[ir.TensorProtocol], str]
"""Gives a digest of a tensor's type, shape and values."""


def contents(model: ir.Model, values: Values) -> str:
    """A digest of 16 hexadecimal digits; equal for models that differ in names and order of nodes alone.

    The names of model-local functions count: nodes call them by it.
    """
    walk = _Walk(values)
    functions = sorted(
        digest(*f.identifier(), *walk.attributes(f.attributes.values()), walk.graph(f))
        for f in model.functions.values()
    )
    return digest(*functions, walk.graph(model.graph))[:16]


class _Walk:
    """The digest of every value that was met."""

    def __init__(self, values: Values) -> None:
        self._values = values
        self._known: dict[ir.Value | None, str] = {None: ""}  # an input left out

    def graph(self, graph: ir.Graph | ir.Function) -> str:
        known = self._known
        if isinstance(graph, ir.Graph):
            for value in graph.initializers.values():
                if value.const_value is not None:
                    known[value] = self._values(value.const_value)
        for place, value in enumerate(v for v in graph.inputs if v not in known):
            known[value] = digest("input", str(place), type_text(value), _dims(value))
        found = []
        for node in graph:
            constant = _constant(node)
            if constant is not None:
                known[node.outputs[0]] = self._values(constant)
                continue
            attributes = self.attributes(node.attributes.values())
            inputs = [known.get(value, "unknown") for value in node.inputs]
            made = digest(*node.op_identifier(), *attributes, "inputs", *inputs)
            found.append(made)
            for place, value in enumerate(node.outputs):
                known[value] = digest(made, str(place))
        outputs = [known.get(value, "unknown") for value in graph.outputs]
        return digest("graph", *sorted(found), "outputs", *outputs)

    def attributes(self, attributes: Iterable[ir.Attr]) -> list[str]:
        return sorted(digest(a.name, self._attribute(a)) for a in attributes)

    def _attribute(self, attribute: ir.Attr) -> str:
        if attribute.is_ref():
            return digest("parameter", str(attribute.ref_attr_name))
        if attribute.type == ir.AttributeType.GRAPH:
            return self.graph(attribute.as_graph())
        if attribute.type == ir.AttributeType.GRAPHS:
            return digest(*(self.graph(graph) for graph in attribute.as_graphs()))
        held = attribute_tensors(attribute)
        return digest(*map(self._values, held)) if held else repr(attribute.value)


def _constant(node: ir.Node) -> ir.TensorProtocol | None:
    """What a Constant node holds where it could as well be an initializer."""
    if node.op_type != "Constant" or node.domain != "":
        return None
    for name, attribute in node.attributes.items():
        if name == "value" and not attribute.is_ref():
            return held_tensor(attribute)
        if name in ("value_int", "value_ints") and not attribute.is_ref():
            return ir.tensor(np.array(attribute.value, np.int64))
    return None


def _dims(value: ir.Value) -> str:
    """What a dynamic dimension is called does not count."""
    if value.shape is None:
        return "any"
    return str([dim if isinstance(dim, int) else "?" for dim in value.shape])
