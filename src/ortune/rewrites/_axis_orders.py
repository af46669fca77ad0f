"""Operators that can move before a Transpose, and the effect on the order of axes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import onnx_ir as ir

from ortune.graph.attributes import int_of
from ortune.graph.constants import constant
from ortune.graph.model.graphs import op_set
from ortune.graph.nodes import is_op
from ortune.graph.shapes.known import Dims
from ortune.graph.shapes.nearby import reduced_axes

_UNARY = op_set(
    "Abs Cast Ceil Celu Clip DequantizeLinear Elu Erf Exp Floor Gelu HardSigmoid HardSwish Identity LeakyRelu Log Mish "
    "Neg Not QuantizeLinear Reciprocal Relu Round Selu Sigmoid Sign Softplus Softsign Sqrt Tanh ThresholdedRelu"
)
"""Operators that are elementwise in their first input if the other inputs are scalars."""
BROADCASTING = op_set(
    "Add And Div Equal Greater GreaterOrEqual Less LessOrEqual Max Min Mod Mul Or Pow PRelu Sub Where Xor"
)
REDUCTIONS = op_set("ReduceL1 ReduceL2 ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare")
ALONG_AN_AXIS = op_set("LogSoftmax Softmax")

Order = tuple[int, ...]
"""The "perm" of a Transpose: axis ``n`` of its output is axis ``order[n]`` of its input."""


def moved_inputs(node: ir.Node) -> list[ir.Value]:
    """Return the inputs of a node whose axes correspond to the axes of its output."""
    inputs = list(node.inputs) if is_op(node, "Concat", *BROADCASTING) else list(node.inputs[:1])
    return [value for value in inputs if value is not None]


def axis_of(node: ir.Node, default: int, rank: int) -> int:
    """Return a node's axis as a non-negative number."""
    return int_of(node, "axis", default) % rank


def removes_axes(node: ir.Node) -> bool:
    """Return whether a node is a reduction that removes its axes."""
    return is_op(node, *REDUCTIONS) and not int_of(node, "keepdims", 1)


def is_plain(order: Order) -> bool:
    """Return whether an order of axes is the identity."""
    return list(order) == sorted(order)


def without_axes(order: Order, gone: Sequence[int]) -> Order:
    """Return an order of axes without `gone`, which are numbered as after the Transpose."""
    left = [before for axis, before in enumerate(order) if axis not in gone]
    # Renumber the remaining axes from 0.
    return tuple(sorted(left).index(before) for before in left)


def with_axes(order: Order, new: Sequence[int]) -> Order:
    """Return an order of axes with new axes inserted at the same positions before and after the Transpose."""
    rank = len(order) + len(new)
    places = [axis for axis in range(rank) if axis not in {axis % rank for axis in new}]
    result = list(range(rank))
    for place, before in zip(places, order, strict=True):
        result[place] = places[before]
    return tuple(result)


def constant_axes(node: ir.Node) -> list[int]:
    """Return the axes of a Squeeze or Unsqueeze if they are constant, or an empty list."""
    numbers = constant(node.inputs[1]) if len(node.inputs) > 1 else None
    return [] if numbers is None else [int(axis) for axis in numbers.reshape(-1)]


def removed_axes(node: ir.Node, before: Dims | None, after: Dims | None) -> list[int] | None:
    """Return the axes removed by a Squeeze or by a Reshape that acts like one; None if unknown or for other nodes."""
    if before is None:
        return None
    if is_op(node, "Squeeze"):
        return [axis % len(before) for axis in constant_axes(node)]
    sizes = constant(node.inputs[1])
    if sizes is None or after is None or sizes.ndim != 1 or len(sizes) != len(after):
        return None
    left = [int(size) for size in sizes]
    # One size may follow from the others; a zero would copy a size by position.
    if 0 in left or 1 in left or sum(size == -1 for size in left) > 1:
        return None
    kept = [axis for axis, size in enumerate(before) if size != 1]
    # If all the others are equal, so is the unknown one.
    same = len(kept) == len(left) and all(
        size in (-1, before[axis]) for axis, size in zip(kept, left, strict=True)
    )
    return [axis for axis, size in enumerate(before) if size == 1] or None if same else None


def _any_rank(node: ir.Node, order: Order) -> bool:
    constants = [constant(value) for value in node.inputs]
    return all(numbers is None or numbers.ndim <= len(order) for numbers in constants)


def _by_number(node: ir.Node, order: Order) -> bool:
    more = [constant(value) for value in node.inputs[1:] if value is not None]
    return all(numbers is not None and numbers.ndim == 0 for numbers in more)


def _concat(node: ir.Node, order: Order) -> bool:
    """Return whether a Concat can move before Transposes without concatenating the last axis, which is slower."""
    constants = [constant(value) for value in node.inputs]
    whole = all(numbers is None or numbers.ndim == len(order) for numbers in constants)
    axis, last = axis_of(node, 0, len(order)), len(order) - 1
    return whole and (order[axis] != last or axis == last)


def _reduction(node: ir.Node, order: Order) -> bool:
    return bool(reduced_axes(node))


def _some_axes(node: ir.Node, order: Order) -> bool:
    return bool(constant_axes(node))


def _sized(node: ir.Node, order: Order) -> bool:
    return len(node.inputs) > 1 and constant(node.inputs[1]) is not None


def _along(node: ir.Node, order: Order) -> bool:
    """Return whether a Softmax can move before Transposes; over an inner axis, ONNX Runtime would transpose twice."""
    axis, last = axis_of(node, -1, len(order)), len(order) - 1
    return axis != last or order[axis] == last


def _pad(node: ir.Node, order: Order) -> bool:
    numbers = constant(node.inputs[1]) if len(node.inputs) > 1 else None
    return numbers is not None and len(node.inputs) < 4 and numbers.size == 2 * len(order)


def _slice(node: ir.Node, order: Order) -> bool:
    return len(node.inputs) > 3 and constant(node.inputs[3]) is not None


# For each operator, whether a node can be computed before Transposes with the given order.
MOVERS: Mapping[str, Callable[[ir.Node, Order], bool]] = {
    **dict.fromkeys(_UNARY, _by_number),
    **dict.fromkeys(BROADCASTING, _any_rank),
    **dict.fromkeys(REDUCTIONS, _reduction),
    **dict.fromkeys(ALONG_AN_AXIS, _along),
    "Concat": _concat,
    "Pad": _pad,
    "Reshape": _sized,
    "Slice": _slice,
    "Squeeze": _some_axes,
    "Unsqueeze": _some_axes,
}
