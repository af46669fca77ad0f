"""Replacements for operators that ONNX's reference evaluator computes differently from the ONNX specification.

The evaluator implements quantization only from opset 19 on, and not in double precision. Before opset 14, its
BatchNormalization uses batch statistics, as in training. Before opset 13, Softmax, LogSoftmax and Hardmax normalize
over ``axis`` and all later axes, but the evaluator only uses ``axis``. Its GatherElements ignores the axis, or
fails, for more than 32 rows, and its MeanVarianceNormalization is limited to single precision. Its GlobalMaxPool takes
the largest value of all channels, unless there are two or three axes after them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray
from onnx import TensorProto
from onnx.reference.op_run import OpRun

from ortune.graph.attributes import int_of, text_of

Array = NDArray[Any]

_TYPES = {
    0: np.uint8,  # if the node has neither a zero point nor an output type
    TensorProto.UINT8: np.uint8,
    TensorProto.INT8: np.int8,
    TensorProto.UINT16: np.uint16,
    TensorProto.INT16: np.int16,
}


def _along(array: Array, values: Array, axis: int) -> Array:
    """Reshape one number, or one number per index of an axis, to broadcast with an array."""
    if values.size == 1:
        return values.reshape(())
    return values.reshape([-1 if i == axis % array.ndim else 1 for i in range(array.ndim)])


def _blocks(array: Array, values: Array, axis: int, block_size: int) -> Array:
    """Repeat values, one per block of an axis, for every index in the block; raise ValueError if the ranks differ."""
    if values.ndim != array.ndim:
        raise ValueError("scales of blocks have as many axes as what they scale")
    return np.repeat(values, block_size, axis=axis).take(range(array.shape[axis]), axis=axis)


class QuantizeLinear(OpRun):
    """Rounds to the nearest step, ties to even, and clips to the range of the integer type."""

    op_domain = ""

    def _run(
        self,
        x: Array,
        scale: Array,
        zero: Array | None = None,
        axis: int = 1,
        output_dtype: int = 0,
        block_size: int = 0,
        **_: Any,
    ) -> tuple[Array]:
        if block_size or (zero is None and output_dtype not in _TYPES):
            raise ValueError("no rounding to integers of 8 or 16 bits with one scale an index")
        zero = np.zeros(1, _TYPES[output_dtype]) if zero is None else zero
        limits = np.iinfo(zero.dtype)
        steps = np.rint(x / _along(x, scale, axis)) + _along(x, zero, axis).astype(np.float64)
        return (np.clip(steps, limits.min, limits.max).astype(zero.dtype),)


class BatchNormalization(OpRun):
    """Batch normalization for inference, with the stored statistics."""

    op_domain = ""

    def _run(
        self,
        x: Array,
        scale: Array,
        bias: Array,
        mean: Array,
        variance: Array,
        epsilon: float = 1e-5,
        training_mode: int = 0,
        spatial: int = 1,
        **_: Any,
    ) -> tuple[Array]:
        if training_mode or not spatial or len(self.output) > 1:
            raise ValueError("no inference with one number a channel")
        scale, bias, mean, variance = (_along(x, values, 1) for values in (scale, bias, mean, variance))
        return (((x - mean) / np.sqrt(variance + epsilon) * scale + bias).astype(x.dtype),)


class MeanVarianceNormalization(OpRun):
    """Subtracts the mean and divides by the standard deviation plus 1e-9."""

    op_domain = ""

    def _run(self, x: Array, axes: list[int] | None = None, **_: Any) -> tuple[Array]:
        over = tuple(axes or (0, 2, 3))
        apart = x - x.mean(axis=over, keepdims=True)
        spread = np.sqrt((apart * apart).mean(axis=over, keepdims=True))
        return ((apart / (spread + 1e-9)).astype(x.dtype),)


class GlobalMaxPool(OpRun):
    """Takes the largest value of each channel."""

    op_domain = ""

    def _run(self, x: Array) -> tuple[Array]:
        return (x.max(axis=tuple(range(2, x.ndim)), keepdims=True),)


class GatherElements(OpRun):
    """Gathers elements by their indices along an axis."""

    op_domain = ""

    def _run(self, data: Array, indices: Array, axis: int = 0, **_: Any) -> tuple[Array]:
        return (np.take_along_axis(data, indices.astype(np.int64), axis),)


class _OverAxes(OpRun):
    """Base class of operators over one axis, or, before opset 13, over the axis and all later axes, flattened."""

    op_domain = ""

    def _run(self, x: Array, axis: int = -1, **_: Any) -> tuple[Array]:
        if self.run_params["opsets"][""] >= 13:
            return (self._over(x, axis),)
        # Without the attribute, the evaluator passes the default of the newest version.
        named = any(attribute.name == "axis" for attribute in self.onnx_node.attribute)
        rows = math.prod(x.shape[: (axis if named else 1) % x.ndim])
        return (self._over(x.reshape(rows, -1), 1).reshape(x.shape),)

    def _over(self, x: Array, axis: int) -> Array:
        raise NotImplementedError


class Softmax(_OverAxes):
    """Exponentials, normalized to sum to 1."""

    def _over(self, x: Array, axis: int) -> Array:
        powers = np.exp(x - x.max(axis=axis, keepdims=True))
        shares: Array = powers / powers.sum(axis=axis, keepdims=True)
        return shares


class LogSoftmax(_OverAxes):
    """Logarithms of the softmax."""

    def _over(self, x: Array, axis: int) -> Array:
        below = x - x.max(axis=axis, keepdims=True)
        logarithms: Array = below - np.log(np.exp(below).sum(axis=axis, keepdims=True))
        return logarithms


class Hardmax(_OverAxes):
    """1 at the first maximum, 0 elsewhere."""

    def _over(self, x: Array, axis: int) -> Array:
        hard = np.zeros_like(x)
        np.put_along_axis(hard, np.expand_dims(x.argmax(axis=axis), axis), 1, axis=axis)
        return hard


class DequantizeLinear(OpRun):
    """Subtracts the zero point and multiplies by the scale."""

    op_domain = ""

    def _run(
        self,
        x: Array,
        scale: Array,
        zero: Array | None = None,
        axis: int = 1,
        block_size: int = 0,
        **_: Any,
    ) -> tuple[Array]:
        def along(values: Array) -> Array:
            return _blocks(x, values, axis, block_size) if block_size else _along(x, values, axis)

        steps = x.astype(np.float64)
        if zero is not None:
            steps = steps - along(zero).astype(np.float64)
        return ((steps * along(scale)).astype(scale.dtype),)


OURS = (
    BatchNormalization,
    DequantizeLinear,
    GatherElements,
    GlobalMaxPool,
    Hardmax,
    LogSoftmax,
    MeanVarianceNormalization,
    QuantizeLinear,
    Softmax,
)
"""Operators that replace the evaluator's operators of the same name."""


def misread(node: ir.Node) -> bool:
    """Return whether the evaluator deviates from ONNX for a node, or ONNX leaves its result undefined.

    Determined for onnx 1.23, by comparison with ONNX Runtime operator by operator.
    """
    if node.op_type == "MaxPool":
        return text_of(node, "auto_pad", "") == "SAME_LOWER" or int_of(node, "ceil_mode", 0) != 0
    if node.op_type == "Resize":
        coordinates = text_of(node, "coordinate_transformation_mode", "")
        return coordinates == "align_corners" or text_of(node, "nearest_mode", "") == "floor"
    return node.op_type == "LpNormalization"
