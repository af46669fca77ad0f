"""Structural keys: values of two graphs that are computed in the same way have equal keys, regardless of names.

The opset is not part of a key, so a model and its conversion can be matched node by node; operators with changed
semantics (Softmax before opset 13) have equal keys and different values, and so do random nodes with equal inputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import onnx_ir as ir

from ortune.engines.bisection.observing import ObservedGraph
from ortune.graph.attributes import has_parameters
from ortune.graph.constants import constant_tensor
from ortune.graph.fingerprints import Fingerprints, digest, tensor_digest
from ortune.graph.model.graphs import subgraphs
from ortune.graph.randomness import is_random


@dataclass(frozen=True, slots=True)
class Keys:
    """Structural keys of a graph's values.

    Attributes:
        digests: Key by name; without values of nodes with subgraphs or functions, and those computed from them.
        fixed: Names of stored values, and of values computed only from those without random draws.
    """

    digests: dict[str, str] = field(default_factory=dict)
    fixed: set[str] = field(default_factory=set)

    def stored(self, value: ir.Value | None) -> str | None:
        """Return the key of a value that is constant over runs; None for others."""
        return (
            self.digests.get(str(value.name)) if value is not None and str(value.name) in self.fixed else None
        )


class Keying:
    """Computes structural keys for the values of one side.

    Args:
        side: The graph of the side.
        inputs: Maps the name of each input to the name that represents it in the keys of both sides.
    """

    def __init__(self, side: ObservedGraph, inputs: Mapping[str, str]) -> None:
        self._side, self._inputs = side, inputs
        self._tensors: dict[int, str] = {}  # by identity: the graph keeps them alive

    def keys(self, paired: Mapping[str, str]) -> Keys:
        """Return the keys of the side's values.

        Args:
            paired: Maps values that are treated as equal to the other side's to the name that gives both their key.
        """
        keys, prints = Keys(), Fingerprints(self._tensor, commutes=True)
        graph = self._side.graph.graph
        for value in graph.inputs:
            if str(value.name) in self._inputs:
                prints.digests[value] = digest("input", self._inputs[str(value.name)])
        for value in graph.initializers.values():
            tensor = constant_tensor(value)
            if tensor is not None:
                prints.digests[value] = self._tensor(tensor)
                keys.fixed.add(str(value.name))
        for node in graph:
            own = None if self._is_ambiguous(node) else prints.node(node)
            if own is not None:
                prints.outputs(node, own)
            fixed = all(v is None or str(v.name) in keys.fixed for v in node.inputs) and not is_random(node)
            for value in node.outputs:
                # One key for both sides, although they are computed differently, so later values can have equal keys.
                if str(value.name) in paired:
                    prints.digests[value] = digest("pair", paired[str(value.name)])
                if fixed and own is not None:
                    keys.fixed.add(str(value.name))
        keys.digests.update(
            {str(value.name): key for value, key in prints.digests.items() if value is not None}
        )
        return keys

    def _is_ambiguous(self, node: ir.Node) -> bool:
        """Return whether a node's result depends on more than its operator and attributes."""
        functions = self._side.graph.functions
        return node.op_identifier() in functions or has_parameters(node) or any(subgraphs(node))

    def _tensor(self, tensor: ir.TensorProtocol) -> str:
        if id(tensor) not in self._tensors:
            self._tensors[id(tensor)] = tensor_digest(tensor)
        return self._tensors[id(tensor)]
