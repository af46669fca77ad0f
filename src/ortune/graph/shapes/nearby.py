"""Ranks and axes derived from a node and its nearest producers, without shape inference over the whole model."""

from __future__ import annotations

import onnx_ir as ir

from ortune.graph.attributes import ints_of
from ortune.graph.constants import constant, constant_tensor
from ortune.graph.nodes import input_of, is_op

_RANKED = {
    "Conv": 3,
    "ConvTranspose": 3,
    "BatchNormalization": 2,
    "Gemm": 2,
    "GlobalAveragePool": 3,
    "MaxPool": 3,
}
_ELEMENTWISE = frozenset(
    {
        "Add",
        "Sub",
        "Mul",
        "Div",
        "Relu",
        "Sigmoid",
        "Tanh",
        "Clip",
        "HardSigmoid",
        "LeakyRelu",
        "Identity",
        "Cast",
    }
)
_DEPTH = 16  # maximum number of producers examined for a rank


def rank_of_constant(value: ir.Value | None) -> int:
    """Return the rank of a constant; 0 for any other value."""
    tensor = constant_tensor(value)
    return 0 if tensor is None else len(tensor.shape)


def least_rank(value: ir.Value | None, depth: int = _DEPTH) -> int:
    """Return a lower bound of a value's rank, from its shape or its producer; 0 if unknown."""
    if value is None:
        return 0
    if value.shape is not None:
        return len(value.shape)
    node = value.producer()
    if node is None or depth == 0:
        return rank_of_constant(value) if node is None else 0
    if is_op(node, *_RANKED):
        return _RANKED[node.op_type]
    if is_op(node, *_ELEMENTWISE):
        return max((least_rank(v, depth - 1) for v in node.inputs), default=0)
    return 0


def reduced_axis(node: ir.Node) -> int | None:
    """Return the single axis of a reduction or Unsqueeze; None if unknown or not exactly one."""
    axes = reduced_axes(node)
    return axes[0] if axes is not None and len(axes) == 1 else None


def reduced_axes(node: ir.Node) -> tuple[int, ...] | None:
    """Return the axes of a reduction, Squeeze or Unsqueeze as written; None if unknown or omitted."""
    second = input_of(node, 1)
    if second is None:
        listed = ints_of(node, "axes")
        return None if listed is None else tuple(listed)
    numbers = constant(second)
    return tuple(int(axis) for axis in numbers.reshape(-1)) if numbers is not None else None
