"""Finds the activations that a quantization clips because they exceed its range."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

import numpy as np
import onnx_ir as ir

from ortune.engines.bisection.value_statistics import ValueStatistics
from ortune.graph.attributes import int_of
from ortune.graph.constants import constant_tensor, scalar
from ortune.graph.nodes import is_op
from ortune.records import ClippedActivation

EXPLAINS = 0.25
"""Least fraction of a difference that clipping must explain, since ordinary calibration also clips a few values."""
MUCH = 0.1
"""Least fraction of an activation's norm that clipping must remove if there is no difference to explain."""


def find_clipped(
    nodes: Iterable[ir.Node],
    side: Literal["A", "B"],
    seen: Mapping[str, ValueStatistics],
    feeds: Mapping[str, object],
    least: float,
) -> Iterator[ClippedActivation]:
    """Yield the activations that these nodes clip.

    Args:
        nodes: The nodes of one side between values that are equal and values that differ.
        side: The side.
        seen: Statistics of the side's values, by name.
        feeds: Input values of the side, by name.
        least: Least fraction of an activation's L2 norm that clipping must remove for a finding.
    """
    for node in nodes:
        value = node.inputs[0] if is_op(node, "QuantizeLinear") else None
        limits = None if value is None else represented_range(node)
        if value is None or limits is None:
            continue
        sample = seen.get(str(value.name))
        values = feeds.get(str(value.name)) if sample is None else sample.values()
        if not isinstance(values, np.ndarray):
            continue
        values = values[np.isfinite(values)].astype(np.float64)
        norm = float(np.linalg.norm(values))
        lost = float(np.linalg.norm(values - np.clip(values, *limits)))
        if norm and lost > least * norm:
            low, high = limits
            yield ClippedActivation(
                side=side,
                name=str(value.name),
                low=low,
                high=high,
                least=float(values.min()),
                most=float(values.max()),
                share=float(((values < low) | (values > high)).mean()),
            )


def represented_range(node: ir.Node) -> tuple[float, float] | None:
    """Return the smallest and largest number that a QuantizeLinear does not clip.

    None if its scale or zero point is unknown or per channel, or if its type has neither 8 nor 16 bits.
    """
    scale, zero = scalar(node.inputs[1]), node.inputs[2] if len(node.inputs) > 2 else None
    tensor = constant_tensor(zero)
    if scale is None or (zero is not None and (tensor is None or tensor.size != 1)):
        return None
    named = ir.DataType(int_of(node, "output_dtype", 0) or ir.DataType.UINT8)
    kind = named if tensor is None else tensor.dtype
    if kind not in (ir.DataType.INT8, ir.DataType.UINT8, ir.DataType.INT16, ir.DataType.UINT16):
        return None
    limits = np.iinfo(kind.numpy())
    at_zero = 0 if tensor is None else int(tensor.numpy().reshape(()))
    # Values less than half a step away are rounded to the ends.
    return (limits.min - at_zero - 0.5) * scale, (limits.max - at_zero + 0.5) * scale
