"""Contents of small tensors: the shape arithmetic that decides sizes, done in numpy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from ortune.graph.attributes import int_of, ints_of, tensor_of
from ortune.graph.model.operators import STANDARD

Array = NDArray[np.generic]

MOST_ELEMENTS = 4096
"""Larger results are not kept: sizes are never decided by so much."""


def evaluate(node: ir.Node, inputs: Sequence[Array | None]) -> Array | None:
    """Evaluates a node on known inputs; None if its operator is not supported or fails."""
    function = _FUNCTIONS.get(node.op_type)
    if function is None or node.domain not in STANDARD or not inputs:
        return None
    if any(array is None for array, value in zip(inputs, node.inputs, strict=True) if value is not None):
        return None
    operands: list[Any] = list(inputs)
    try:
        with np.errstate(all="ignore"):
            result = np.asarray(function(node, operands))
    except (ValueError, IndexError, TypeError, AttributeError, ZeroDivisionError, OverflowError, MemoryError):
        return None  # operands that do not fit, or are left out: the shape walk says so in its own words
    return result if result.size <= MOST_ELEMENTS else None


_Function = Callable[[ir.Node, list[Any]], Array]


def _plain(function: Callable[..., Array]) -> _Function:
    def run(node: ir.Node, x: list[Any]) -> Array:
        _require_small(np.broadcast_shapes(*(array.shape for array in x)))
        return function(*x)

    return run


def _require_small(shape: Sequence[int]) -> None:
    """Refuse a result that would not be kept, before it is made."""
    if np.prod(shape, dtype=float) > MOST_ELEMENTS:
        raise OverflowError


def _axes(node: ir.Node, x: Sequence[Array | None]) -> list[int] | None:
    listed = ints_of(node, "axes")
    operand = x[1] if len(x) > 1 else None
    return listed if listed is not None else (None if operand is None else [int(a) for a in operand.ravel()])


def _cast(node: ir.Node, x: list[Array]) -> Array:
    return x[0].astype(ir.DataType(int_of(node, "to", 1)).numpy())


def _div(a: Array, b: Array) -> Array:
    if a.dtype.kind not in "iu":
        return np.divide(a, b)
    if not np.all(b):
        raise ZeroDivisionError
    # ONNX rounds integers towards zero, numpy downwards.
    quotient = np.abs(a) // np.abs(b) * np.sign(a) * np.sign(b)
    return np.asarray(quotient).astype(a.dtype)


def _reshape(node: ir.Node, x: list[Array]) -> Array:
    target = [int(d) for d in x[1].ravel()]
    if not int_of(node, "allowzero", 0):
        target = [x[0].shape[i] if d == 0 else d for i, d in enumerate(target)]
    return x[0].reshape(target)


def _slice(node: ir.Node, x: list[Array]) -> Array:
    if len(x) < 3:
        starts, ends, axes = (ints_of(node, name) for name in ("starts", "ends", "axes"))
        steps = None
    else:
        starts, ends, axes, steps = (
            None if i >= len(x) or x[i] is None else [int(v) for v in x[i].ravel()] for i in range(1, 5)
        )
    if starts is None or ends is None:
        raise ValueError
    axes = list(range(len(starts))) if axes is None else axes
    cut = [slice(None)] * x[0].ndim
    for i, axis in enumerate(axes):
        step = steps[i] if steps is not None else 1
        # Going backwards, an end before the beginning is written as a very small number.
        end = None if step < 0 and ends[i] < -x[0].shape[axis] else ends[i]
        cut[axis] = slice(starts[i], end, step)
    return x[0][tuple(cut)]


def _range(node: ir.Node, x: list[Array]) -> Array:
    start, limit, step = (a.ravel()[0] for a in x)
    if (limit - start) / step > MOST_ELEMENTS:
        raise OverflowError
    return np.arange(start, limit, step, dtype=x[0].dtype)


def _constant_of_shape(node: ir.Node, x: list[Array]) -> Array:
    shape = [int(d) for d in x[0].ravel()]
    _require_small(shape)
    fill = tensor_of(node, "value")
    return np.full(shape, np.float32(0) if fill is None else fill.numpy().ravel()[0])


def _expand(node: ir.Node, x: list[Array]) -> Array:
    shape = np.broadcast_shapes(x[0].shape, tuple(int(d) for d in x[1].ravel()))
    _require_small(shape)
    return np.broadcast_to(x[0], shape)


def _concat(node: ir.Node, x: list[Array]) -> Array:
    _require_small([sum(array.size for array in x)])
    return np.concatenate(x, axis=int_of(node, "axis", 0))


def _gather(node: ir.Node, x: list[Array]) -> Array:
    axis = int_of(node, "axis", 0)
    _require_small([x[0].size // max(1, x[0].shape[axis]), x[1].size])
    return np.take(x[0], x[1].astype(np.int64), axis=axis)


def _squeeze(node: ir.Node, x: list[Array]) -> Array:
    axes = _axes(node, x)
    return np.squeeze(x[0], None if axes is None else tuple(axes))


def _unsqueeze(node: ir.Node, x: list[Array]) -> Array:
    axes = _axes(node, x)
    if axes is None:
        raise ValueError
    return np.expand_dims(x[0], tuple(axes))


def _reduce(function: Callable[..., Array]) -> _Function:
    def run(node: ir.Node, x: list[Array]) -> Array:
        axes = _axes(node, x)
        if not axes and int_of(node, "noop_with_empty_axes", 0):
            return x[0]
        return function(x[0], axis=tuple(axes) if axes else None, keepdims=bool(int_of(node, "keepdims", 1)))

    return run


def _fold(function: Callable[[Array, Array], Array]) -> _Function:
    def run(node: ir.Node, x: list[Array]) -> Array:
        _require_small(np.broadcast_shapes(*(array.shape for array in x)))
        result = x[0]
        for other in x[1:]:
            result = function(result, other)
        return result

    return run


_FUNCTIONS: dict[str, _Function] = {
    "Add": _plain(np.add),
    "And": _plain(np.logical_and),
    "Cast": _cast,
    "Ceil": _plain(np.ceil),
    "Concat": _concat,
    "ConstantOfShape": _constant_of_shape,
    "Div": _plain(_div),
    "Equal": _plain(np.equal),
    "Expand": _expand,
    "Floor": _plain(np.floor),
    "Gather": _gather,
    "Greater": _plain(np.greater),
    "GreaterOrEqual": _plain(np.greater_equal),
    "Identity": _plain(lambda a: a),
    "Less": _plain(np.less),
    "LessOrEqual": _plain(np.less_equal),
    "Max": _fold(np.maximum),
    "Min": _fold(np.minimum),
    "Mul": _plain(np.multiply),
    "Neg": _plain(np.negative),
    "NonZero": _plain(lambda a: np.asarray(np.nonzero(a), np.int64)),
    "Not": _plain(np.logical_not),
    "Or": _plain(np.logical_or),
    "Range": _range,
    "ReduceMax": _reduce(np.max),
    "ReduceMin": _reduce(np.min),
    "ReduceProd": _reduce(np.prod),
    "ReduceSum": _reduce(np.sum),
    "Reshape": _reshape,
    "Round": _plain(np.round),
    "Slice": _slice,
    "Sqrt": _plain(np.sqrt),
    "Squeeze": _squeeze,
    "Sub": _plain(np.subtract),
    "Transpose": lambda node, x: np.transpose(x[0], ints_of(node, "perm")),
    "Unsqueeze": _unsqueeze,
    "Where": _plain(np.where),
}
