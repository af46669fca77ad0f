"""Quantization for ONNX's own reference, which knows it from opset 19 on alone, and not in double precision."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto
from onnx.reference.op_run import OpRun

from ortune.outputs.files import Array

_TYPES = {
    0: np.uint8,  # where the node names none
    TensorProto.UINT8: np.uint8,
    TensorProto.INT8: np.int8,
    TensorProto.UINT16: np.uint16,
    TensorProto.INT16: np.int16,
}


def _along(array: Array, values: Array, axis: int) -> Array:
    """One number, or one for each index of an axis, in a shape that fits the array."""
    if values.size == 1:
        return values.reshape(())
    return values.reshape([-1 if i == axis % array.ndim else 1 for i in range(array.ndim)])


def _blocks(array: Array, values: Array, axis: int, block_size: int) -> Array:
    """One number for each block of an axis, repeated for every index of the block."""
    if values.ndim != array.ndim:
        raise ValueError("scales of blocks have as many axes as what they scale")
    return np.repeat(values, block_size, axis=axis).take(range(array.shape[axis]), axis=axis)


class QuantizeLinear(OpRun):
    """Rounded to the nearest step, of two the even one, and cut off at the ends of the type."""

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


class DequantizeLinear(OpRun):
    """Integers less the zero point, times the scale."""

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
