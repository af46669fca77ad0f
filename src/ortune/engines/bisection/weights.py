"""Finds faults of stored values: not finite, saturated at the limits of the type, or on a grid that is too coarse."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

import numpy as np
import onnx_ir as ir

from ortune.graph.constants import stored
from ortune.graph.grids import quantizes
from ortune.graph.model.tensors import not_finite
from ortune.records import WeightFault

MOST_AT_ENDS = 0.05
"""Fraction of 8-bit weights that normally are at the limits of their type, given how scales are chosen."""
FEW_STEPS = 2
"""Largest magnitude, in grid steps, of a channel that has lost nearly all of its precision."""
FEWEST_CHANNELS = 2


def faults(nodes: Iterable[ir.Node], side: Literal["A", "B"]) -> Iterator[WeightFault]:
    """Yield the faults of the stored values that these nodes read, each once."""
    met: set[int] = set()
    for node in nodes:
        for value in node.inputs:
            tensor = stored(value)
            if value is None or tensor is None or tensor.dtype == ir.DataType.STRING or id(tensor) in met:
                continue
            met.add(id(tensor))
            yield from _fault(str(value.name), tensor, node, side)


def _fault(
    name: str, tensor: ir.TensorProtocol, node: ir.Node, side: Literal["A", "B"]
) -> Iterator[WeightFault]:
    array, onnx_type = tensor.numpy(), tensor.dtype.name.lower()
    kind: Literal["not-finite", "saturated", "too-coarse"]
    if n := sum(not_finite(tensor)):
        size, kind, faulty = array.size, "not-finite", True
    elif not _reads_quantized(node):
        return
    elif onnx_type == "int32" and array.ndim <= 1:
        # A bias: its scale is determined by those of the input and the weight, so its values may be saturated.
        limits = np.iinfo(np.int32)
        n, size, kind = int(((array == limits.min) | (array == limits.max)).sum()), array.size, "saturated"
        faulty = n > 0
    elif onnx_type in ("int8", "uint8") and array.ndim >= 2:
        limits = np.iinfo(array.dtype)
        # Symmetric int8 leaves -128 out: -127 is an end as well.
        low = limits.min + 1 if limits.min else limits.min
        n, size, kind = int(((array <= low) | (array == limits.max)).sum()), array.size, "saturated"
        # Each channel of its own scale has one extreme value or two, however few values it holds.
        faulty = n > max(MOST_AT_ENDS * size, 2 * max(array.shape[0], array.shape[-1]))
        if not faulty:
            n, size = _coarse_channels(array, node)
            kind, faulty = "too-coarse", n > 0
    else:
        return
    if faulty:
        yield WeightFault(side=side, kind=kind, name=name, onnx_type=onnx_type, n=n, size=size)


def _reads_quantized(node: ir.Node) -> bool:
    kinds = ("DequantizeLinear", "QAttention", "Integer")
    return quantizes(node) or any(kind in node.op_type for kind in kinds)


def _coarse_channels(array: np.ndarray, node: ir.Node) -> tuple[int, int]:
    """Return the number of channels that use almost no step of a shared scale, and the number of all channels."""
    if node.op_type == "DequantizeLinear":
        scale = stored(node.inputs[1])
        if scale is None or scale.size > 1:
            return 0, 0
    # Output channels come first in the filters of a convolution, and last in a matrix.
    axis = 0 if "Conv" in node.op_type or array.ndim > 2 else array.ndim - 1
    rest = tuple(i for i in range(array.ndim) if i != axis)
    # The zero point: uint8 weights are around 128.
    middle = 0 if array.dtype.kind == "i" else 128
    widest = np.abs(array.astype(np.int32) - middle).max(axis=rest)
    channels = int(widest.size)
    n = int((widest <= FEW_STEPS).sum())
    return (n if channels >= FEWEST_CHANNELS and widest.max() > 16 * FEW_STEPS else 0), channels
