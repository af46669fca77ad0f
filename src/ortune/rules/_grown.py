"""Values that grow in each iteration of a loop and are copied each time."""

from __future__ import annotations

import onnx_ir as ir

from ortune.graph.model.graphs import graphs
from ortune.graph.nodes import is_op, source_of


def insertions(model: ir.Model) -> list[ir.Node]:
    """Return the SequenceInsert nodes that insert into a loop-carried sequence."""
    bodies = _bodies(model)
    # Only inputs of the body are loop-carried. SequenceInsert into an outer sequence copies the same list
    # each time, which does not grow.
    carried = {value for body in bodies for value in body.inputs}
    found: list[ir.Node] = []
    for node in (node for body in bodies for node in body):
        if is_op(node, "SequenceInsert", "SequenceErase") and _source(node.inputs[0]) in carried:
            carried.update(node.outputs)  # a later insertion copies the list again
            found += [node] if is_op(node, "SequenceInsert") else []
    return found


def concatenations(model: ir.Model) -> list[ir.Node]:
    """Return the Concat nodes that append to a loop-carried tensor."""
    found = []
    for body in _bodies(model):
        inputs, outputs = set(body.inputs), set(map(_source, body.outputs))
        found += [
            node
            for node in body
            if is_op(node, "Concat")
            and node.outputs[0] in outputs
            and any(_source(value) in inputs for value in node.inputs)
        ]
    return found


def _bodies(model: ir.Model) -> list[ir.Graph]:
    return [graph for graph in graphs(model) if isinstance(graph, ir.Graph) and graph is not model.graph]


def _source(value: ir.Value | None) -> ir.Value | None:
    return None if value is None else source_of(value)
