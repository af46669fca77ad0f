"""Value ranges of int64 values in a graph, from constants, narrow types and indices into known axes.

A range is valid for every run that succeeds: an index that ``Gather`` reads for an axis of size n is in [-n, n - 1], or
the run fails. Values computed from input sizes are excluded, since ONNX Runtime keeps shape arithmetic on the CPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from ortune.graph.attributes import int_of
from ortune.graph.constants import constant
from ortune.graph.kinds import COMPARISONS
from ortune.graph.nodes import is_op
from ortune.graph.shapes.known import Values, known_values

Range = tuple[int, int]
Sizes = tuple[int | None, ...]
_Rule = Callable[[ir.Node, Sequence[Range]], Range | None]

_WIDE = ir.DataType.INT64
_LOWEST, _HIGHEST = -(2**63), 2**63 - 1  # of int64
_OF_TYPE = {
    ir.DataType.BOOL: (0, 1),
    ir.DataType.UINT8: (0, 255),
    ir.DataType.INT8: (-128, 127),
    ir.DataType.UINT16: (0, 2**16 - 1),
    ir.DataType.INT16: (-(2**15), 2**15 - 1),
    ir.DataType.INT32: (-(2**31), 2**31 - 1),
}
_INDEXED = ("Gather", "GatherElements")
_PICKED = ("ArgMax", "ArgMin")
_SUMS = ("CumSum", "ReduceSum")


def ranges(model: ir.Model) -> dict[ir.Value, Range]:
    """Return the value range of each bounded int64 value of the main graph."""
    graph, values = model.graph, known_values(model)
    bounds = _indices(graph, values)
    for node in graph:
        if node.domain or not node.outputs:
            continue
        output = node.outputs[0]
        own = _range(node, bounds, values)
        if own is not None:
            earlier = bounds.get(output)
            bounds[output] = own if earlier is None else (max(own[0], earlier[0]), min(own[1], earlier[1]))
    return bounds


def range_of(value: ir.Value | None, ranges: Mapping[ir.Value, Range]) -> Range | None:
    """Return the range (minimum, maximum) of a constant or computed int64 value; None if the value is unbounded."""
    if value is None:
        return None
    if value in ranges:
        return ranges[value]
    numbers = constant(value)
    if numbers is None or numbers.dtype != np.int64:
        return None
    return (int(numbers.min()), int(numbers.max())) if numbers.size else (0, 0)


def wide_inputs(node: ir.Node) -> tuple[int, ...]:
    """Return the positions of the inputs that have the type in which the node computes."""
    typed = _TYPED[node.op_type]
    places = range(len(node.inputs)) if typed is None else typed
    return tuple(p for p in places if p < len(node.inputs) and node.inputs[p] is not None)


def is_known(node: ir.Node) -> bool:
    """Return whether a node's operator is known to give the same result in int32 if its values fit."""
    return not node.domain and node.op_type in _TYPED and len(node.outputs) == 1


def _indices(graph: ir.Graph, values: Values) -> dict[ir.Value, Range]:
    """Return the range of each value that indexes an axis of known size, if the node's result is used."""
    ranges: dict[ir.Value, Range] = {}
    live = _live(graph)
    for node in graph:
        if node not in live or not is_op(node, *_INDEXED):
            continue
        data, index = node.inputs[0], node.inputs[1]
        size = _size(values.sizes(data), int_of(node, "axis", 0))
        if size is not None and index is not None and index.dtype == _WIDE and constant(index) is None:
            low, high = ranges.get(index, (-size, size - 1))
            ranges[index] = (max(low, -size), min(high, size - 1))
    return ranges


def _live(graph: ir.Graph) -> set[ir.Node]:
    """Return the nodes on which the outputs depend; other nodes may not be executed, so they check no bounds."""
    needed_nodes: set[ir.Node] = set()
    for node in reversed(list(graph)):
        users = [use.node for value in node.outputs for use in value.uses()]
        # Readers in subgraphs count as needed.
        needed = any(user in needed_nodes or user.graph is not graph for user in users)
        if needed or any(value.is_graph_output() for value in node.outputs):
            needed_nodes.add(node)
    return needed_nodes


def _size(sizes: Sizes | None, axis: int) -> int | None:
    """Return the size of an axis; None if it is unknown, zero or out of range."""
    if sizes is None or not -len(sizes) <= axis < len(sizes):
        return None
    return sizes[axis] or None


def _range(  # noqa: PLR0911  (one a kind)
    node: ir.Node, ranges: Mapping[ir.Value, Range], values: Values
) -> Range | None:
    if node.op_type == "Cast":
        return _of_cast(node, ranges, values)
    if node.op_type == "Clip":
        return _of_clip(node, ranges)
    if node.op_type in _PICKED:
        size = _size(values.sizes(node.inputs[0]), int_of(node, "axis", 0))
        return None if size is None else (0, size - 1)
    if not is_known(node) or node.op_type in COMPARISONS:
        return None
    own = [range_of(node.inputs[place], ranges) for place in wide_inputs(node)]
    operands = [operand for operand in own if operand is not None]
    if len(operands) < len(own):
        return None
    if node.op_type in _SUMS:
        return _summed(values.sizes(node.inputs[0]), operands)
    rule = _RULES.get(node.op_type, _hull)
    return rule(node, operands) if operands else None


def _of_cast(node: ir.Node, ranges: Mapping[ir.Value, Range], values: Values) -> Range | None:
    if int_of(node, "to", 0) != _WIDE.value or node.inputs[0] is None:
        return None
    return range_of(node.inputs[0], ranges) or _OF_TYPE.get(values.inferred(node.inputs[0]).dtype or _WIDE)


def _of_clip(node: ir.Node, ranges: Mapping[ir.Value, Range]) -> Range | None:
    """Return the range of a Clip, even if its input is unbounded; if the limits cross, the upper limit applies."""
    # An unknown operand may be any number, and an absent limit does not bound.
    none = ((_LOWEST, _HIGHEST), (_LOWEST, _LOWEST), (_HIGHEST, _HIGHEST))
    operands = [
        none[place] if value is None else range_of(value, ranges) or none[0]
        for place, value in enumerate((*node.inputs, None, None)[:3])
    ]
    low, high = (min(max(x, lower), upper) for x, lower, upper in zip(*operands, strict=True))
    return None if low <= _LOWEST or high >= _HIGHEST else (low, high)


def _hull(_: ir.Node, operands: Sequence[Range]) -> Range:
    return min(low for low, _ in operands), max(high for _, high in operands)


def _corners(function: Callable[[int, int], int]) -> _Rule:
    """Return a range rule for a function of two operands whose extremes are at the ends of the operands' ranges."""

    def rule(_: ir.Node, operands: Sequence[Range]) -> Range:
        results = [function(a, b) for a in operands[0] for b in operands[1]]
        return min(results), max(results)

    return rule


def _quotient(_: ir.Node, operands: Sequence[Range]) -> Range | None:
    (low, high), divisor = operands
    if divisor[0] <= 0 <= divisor[1]:
        return None
    # Integer division rounds toward zero.
    results = [abs(a) // abs(b) * (1 if a * b >= 0 else -1) for a in (low, high) for b in divisor]
    return min(results), max(results)


def _remainder(node: ir.Node, operands: Sequence[Range]) -> Range | None:
    (low, high), (least, most) = operands
    if least <= 0:
        return None
    # With fmod the result has the sign of the dividend; otherwise that of the divisor, which is positive
    # here.
    signed = int_of(node, "fmod", 0) and low < 0
    return (-(most - 1) if signed else 0), (most - 1 if high > 0 or not signed else 0)


def _magnitude(_: ir.Node, operands: Sequence[Range]) -> Range:
    low, high = operands[0]
    return (0 if low <= 0 <= high else min(abs(low), abs(high))), max(abs(low), abs(high))


def _summed(sizes: Sizes | None, operands: Sequence[Range]) -> Range | None:
    """Return the range of a sum: the number of elements times the range, which also bounds every partial sum."""
    if sizes is None or None in sizes:
        return None
    count = math.prod(size for size in sizes if size is not None)
    low, high = operands[0]
    return min(0, count * low), max(0, count * high)


def _counted(_: ir.Node, operands: Sequence[Range]) -> Range | None:
    start, limit, step = operands
    # ONNX Runtime computes the distance too, so it must fit.
    distance = max(abs(limit[1] - start[0]), abs(limit[0] - start[1]))
    low, high = min(start[0], limit[0]), max(start[1], limit[1])
    return None if step[0] <= 0 <= step[1] else (min(low, -distance), max(high, distance))


_RULES: dict[str, _Rule] = {
    "Add": _corners(lambda a, b: a + b),
    "Sub": _corners(lambda a, b: a - b),
    "Mul": _corners(lambda a, b: a * b),
    "Div": _quotient,
    "Mod": _remainder,
    "Neg": lambda _, operands: (-operands[0][1], -operands[0][0]),
    "Abs": _magnitude,
    "Sign": lambda _, operands: (-1, 1),
    "Range": _counted,
}

COMPUTING = COMPARISONS | {
    "Add", "Sub", "Mul", "Div", "Clip", "CumSum", "ReduceSum", "ReduceMax", "ReduceMin", "Min", "Max", "Where",
}  # fmt: skip
"""Operators that WebGPU computes in 32 bits. Others only move numbers, or run on the CPU in any case (Mod, Neg, Abs,
Sign)."""

_TYPED: dict[str, tuple[int, ...] | None] = {
    **dict.fromkeys((*COMPARISONS, "Add", "Sub", "Mul", "Div", "Mod", "Min", "Max", "Concat"), None),
    **dict.fromkeys(
        ("Neg", "Abs", "Sign", "Identity", "Transpose", "Flatten", "Reshape", "Squeeze", "Unsqueeze"), (0,)
    ),
    **dict.fromkeys(("Expand", "Tile", "Slice", "Gather", "GatherElements", "CumSum"), (0,)),
    **dict.fromkeys(("ReduceSum", "ReduceMax", "ReduceMin"), (0,)),
    "Where": (1, 2),
    "Clip": (0, 1, 2),
    "Range": (0, 1, 2),
    "Cast": (),
}
"""Operators that compute the same in 32 bits, with the positions of the inputs that have the computation type; None for
all."""
