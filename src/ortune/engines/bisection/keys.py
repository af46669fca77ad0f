"""What each value of a graph is computed of, as a key: equal keys are written alike, whatever things are called.

The opset is in no key, so that a model and its conversion are held together node by node; the few operators that do
something else there (Softmax before 13) part at the values. Nor is what is drawn: random nodes that are given the same
have one key, and other values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import onnx_ir as ir

from ortune.engines.bisection.looked_at import Running
from ortune.graph.attributes import has_parameters
from ortune.graph.constants import constant_tensor
from ortune.graph.fingerprints import Fingerprints, digest, tensor_digest
from ortune.graph.model.graphs import subgraphs
from ortune.graph.randomness import is_random


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of a graph's values by their names.

    Attributes:
        of: Key by name; none for what cannot be told: what nodes with bodies or of functions make, and all behind it.
        fixed: Names of what is stored, or computed of that alone without drawing at random.
    """

    of: dict[str, str] = field(default_factory=dict)
    fixed: set[str] = field(default_factory=set)

    def stored(self, value: ir.Value | None) -> str | None:
        """Return the key of a value that is constant over runs; None for others."""
        return self.of.get(str(value.name)) if value is not None and str(value.name) in self.fixed else None


class Keying:
    """Computes structural keys for the values of one side.

    Args:
        side: Its graph.
        inputs: What each of its inputs is called in both sides' keys.
    """

    def __init__(self, side: Running, inputs: Mapping[str, str]) -> None:
        self._side, self._inputs = side, inputs
        self._tensors: dict[int, str] = {}  # by identity: the graph keeps them alive

    def keys(self, paired: Mapping[str, str]) -> Keys:
        """Return the keys, with values that are taken for those of the other side: these have one key for both."""
        keys, prints = Keys(), Fingerprints(self._tensor, commutes=True)
        graph = self._side.graph.graph
        for value in graph.inputs:
            if str(value.name) in self._inputs:
                prints.of[value] = digest("input", self._inputs[str(value.name)])
        for value in graph.initializers.values():
            tensor = constant_tensor(value)
            if tensor is not None:
                prints.of[value] = self._tensor(tensor)
                keys.fixed.add(str(value.name))
        for node in graph:
            own = None if self._is_untold(node) else prints.node(node)
            if own is not None:
                prints.outputs(node, own)
            fixed = all(v is None or str(v.name) in keys.fixed for v in node.inputs) and not is_random(node)
            for value in node.outputs:
                # One key for both sides, though they are computed differently: what lies behind them is then
                # alike again.
                if str(value.name) in paired:
                    prints.of[value] = digest("pair", paired[str(value.name)])
                if fixed and own is not None:
                    keys.fixed.add(str(value.name))
        keys.of.update({str(value.name): key for value, key in prints.of.items() if value is not None})
        return keys

    def _is_untold(self, node: ir.Node) -> bool:
        """Return whether more decides what a node computes than its operator and attributes."""
        functions = self._side.graph.functions
        return node.op_identifier() in functions or has_parameters(node) or any(subgraphs(node))

    def _tensor(self, tensor: ir.TensorProtocol) -> str:
        if id(tensor) not in self._tensors:
            self._tensors[id(tensor)] = tensor_digest(tensor)
        return self._tensors[id(tensor)]
