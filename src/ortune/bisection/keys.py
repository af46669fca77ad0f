"""What each value of a graph is computed of, as a key: equal keys are written alike, whatever things are called.

The opset is in no key, so that a model and its conversion are held together node by node; the few operators that do
something else there (Softmax before 13) part at the values. Nor is what is drawn: random nodes that are given the same
have one key, and other values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import onnx_ir as ir

from ortune.analysis.digest import digest, tensor_digest
from ortune.bisection.looked_at import Running
from ortune.graph.randomness import is_random
from ortune.model.graphs import held_tensor, op_set
from ortune.model.operators import STANDARD

COMMUTATIVE = op_set("Add And BitwiseAnd BitwiseOr BitwiseXor Equal Max Mean Min Mul Or Sum Xor")
"""Exporters write what these take in either order."""

_HELD = (ir.AttributeType.TENSOR, ir.AttributeType.TENSORS, ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of a graph's values by their names.

    Attributes:
        of: Key by name; none for what cannot be told: what nodes with bodies or of functions make, and all behind it.
        fixed: Names of what is stored, or computed of that alone without drawing at random.
    """

    of: dict[str, bytes] = field(default_factory=dict)
    fixed: set[str] = field(default_factory=set)

    def stored(self, value: ir.Value | None) -> bytes | None:
        """The key of what is the same at every run; None for others."""
        return self.of.get(str(value.name)) if value is not None and str(value.name) in self.fixed else None


class Keying:
    """Gives the values of one side their keys.

    Args:
        side: Its graph.
        inputs: What each of its inputs is called in both sides' keys.
    """

    def __init__(self, side: Running, inputs: Mapping[str, str]) -> None:
        self._side, self._inputs = side, inputs
        self._tensors: dict[int, bytes] = {}  # by identity: the graph keeps them alive

    def keys(self, paired: Mapping[str, str]) -> Keys:
        """The keys, with values that are taken for those of the other side: these have one key for both."""
        found = Keys()
        graph = self._side.graph.graph
        for value in graph.inputs:
            if str(value.name) in self._inputs:
                found.of[str(value.name)] = digest("input", self._inputs[str(value.name)])
        for name, value in graph.initializers.items():
            if not value.is_graph_input() and value.const_value is not None:
                found.of[name] = self._tensor(value.const_value)
                found.fixed.add(name)
        for node in graph:
            given = self._node(node, found)
            fixed = all(v is None or str(v.name) in found.fixed for v in node.inputs) and not is_random(node)
            for place, value in enumerate(node.outputs):
                name = str(value.name)
                if name in paired:
                    found.of[name] = digest("pair", paired[name])
                elif given is not None:
                    found.of[name] = digest(given, place) if place else given
                if fixed and given is not None:
                    found.fixed.add(name)
        return found

    def _node(self, node: ir.Node, found: Keys) -> bytes | None:
        if node.op_identifier() in self._side.graph.functions:
            return None
        held: list[bytes] = []
        for name in sorted(node.attributes):
            attribute = node.attributes[name]
            if attribute.is_ref() or attribute.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS):
                return None
            if attribute.type == ir.AttributeType.TENSOR:
                held.append(self._tensor(held_tensor(attribute)))
            elif attribute.type == ir.AttributeType.TENSORS:
                held += map(self._tensor, attribute.as_tensors())
        standard = node.domain in STANDARD
        if standard and node.op_type == "Constant" and len(held) == 1:
            return held[0]  # stored so or as a weight: the same
        into: list[bytes] = []
        for value in node.inputs:
            key = b"" if value is None else found.of.get(str(value.name))
            if key is None:
                return None
            into.append(key)
        if standard and node.op_type in COMMUTATIVE:
            into.sort()
        return digest("" if standard else node.domain, node.op_type, attributes(node), held, into)

    def _tensor(self, tensor: ir.TensorProtocol) -> bytes:
        if id(tensor) not in self._tensors:
            self._tensors[id(tensor)] = tensor_digest(tensor)
        return self._tensors[id(tensor)]


def attributes(node: ir.Node) -> tuple[tuple[str, str], ...]:
    """A node's attributes as text, without graphs and tensors."""
    return tuple(
        (name, repr(node.attributes[name].value))
        for name in sorted(node.attributes)
        if not node.attributes[name].is_ref() and node.attributes[name].type not in _HELD
    )
