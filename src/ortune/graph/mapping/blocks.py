"""Weights that ONNX Runtime stores with more channels than the original model, in blocks of 8 or 16."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from ortune.graph.cost.graph import BLOCKED
from ortune.graph.mapping.inherit import costs_by_name, placed
from ortune.graph.mapping.result import Mapping
from ortune.records import NodeCost


def own_shapes(
    mapping: Mapping, optimised: ir.Graph, original_costs: Sequence[NodeCost]
) -> dict[str, tuple[int, ...]]:
    """Return the original shapes of blocked convolutions' weights and biases, by their names in the optimized graph."""
    own = costs_by_name(original_costs)
    own_shape_of: dict[str, tuple[int, ...]] = {}
    for place, node in placed(optimised):
        if (node.domain, node.op_type) != (BLOCKED, "Conv"):
            continue
        behind = mapping.originals.get(mapping.keys.get(place, place), ())
        shapes = [cost.weight_shape for name in behind for cost in own.get(name, ()) if cost.weight_shape]
        if len(shapes) != 1:
            continue
        for value, shape in zip(node.inputs[1:3], (shapes[0], shapes[0][:1]), strict=False):
            stored = None if value is None else value.const_value
            if value is not None and value.name and stored is not None and len(stored.shape) == len(shape):
                own_shape_of[value.name] = shape
    return own_shape_of
