"""Inlining of a subgraph into the graph of its node."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from ortune.graph.model.graphs import nested
from ortune.rewrites._editor import Editor


class Inlined:
    """A subgraph that can be copied any number of times into the graph of the node that has it."""

    def __init__(self, editor: Editor, node: ir.Node, body: ir.Graph) -> None:
        self._editor, self._node, self._body = editor, node, body
        self._constants: dict[str, ir.Value] = {}

    def write(self, arguments: Sequence[ir.Value | None] = ()) -> list[ir.Value]:
        """Insert a copy of the subgraph's nodes before the node and return the copy's outputs.

        Args:
            arguments: Values for the inputs of the subgraph.

        Returns:
            The values that the copy computes for the subgraph's outputs.
        """
        scope = self._node.graph
        assert scope is not None
        copy = self._body.clone(allow_outer_scope_values=True)
        stands: dict[ir.Value, ir.Value] = {}
        for formal, actual in zip(copy.inputs, arguments, strict=True):
            if actual is not None:
                stands[formal] = actual
        for name, value in copy.initializers.items():
            if value not in stands and value.const_value is not None:
                # All copies share one constant.
                if name not in self._constants:
                    array = value.const_value.numpy()
                    self._constants[name] = self._editor.constant(self._node, name, array)
                stands[value] = self._constants[name]
        outputs = list(copy.outputs)
        copy.outputs.clear()
        for old, new in stands.items():
            ir.convenience.replace_all_uses_with(old, new)
        nodes = list(copy)
        copy.remove(nodes)
        for node in nodes:
            node.name = self._editor.fresh(node.name or node.op_type)
            for value in node.outputs:
                if value.name:
                    value.name = self._editor.fresh(value.name)
                # The shape was declared for any iteration or for a branch that might not run, so it is
                # inferred again.
                value.shape = None
            scope.insert_before(self._node, node)
        return [stands.get(value, value) for value in outputs]


def can_be_inlined(body: ir.Graph) -> bool:
    """Return whether a subgraph can be inlined: it computes all its outputs, and its initializers have values."""
    own = {v for node in body for v in node.outputs} | {*body.inputs, *body.initializers.values()}
    return all(v in own for v in body.outputs) and all(
        v.const_value is not None for v in body.initializers.values()
    )


def nodes_within(body: ir.Graph) -> int:
    """Count the nodes of a graph and its subgraphs."""
    return sum(1 for graph in nested(body) for _ in graph)
