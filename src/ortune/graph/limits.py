"""Nodes that limit a value to a range."""

from __future__ import annotations

import math

import onnx_ir as ir

from ortune.graph.attributes import optional_float
from ortune.graph.constants import scalar
from ortune.graph.nodes import input_of, is_op


def limits(node: ir.Node) -> tuple[float, float] | None:
    """Return the bounds of a Clip, or a Max or Min with a constant; None for other nodes or unknown bounds."""
    if is_op(node, "Max", "Min") and len(node.inputs) == 2:
        number = next((n for n in map(scalar, node.inputs) if n is not None), None)
        if number is None:
            return None
        return (number, math.inf) if node.op_type == "Max" else (-math.inf, number)
    if not is_op(node, "Clip"):
        return None
    bounds = []
    for place, name, none in ((1, "min", -math.inf), (2, "max", math.inf)):
        value = input_of(node, place)
        if name in node.attributes:
            bounds.append(optional_float(node, name))
        else:
            bounds.append(none if value is None else scalar(value))
    low, high = bounds
    return None if low is None or high is None else (low, high)
