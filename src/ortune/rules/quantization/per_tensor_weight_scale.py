"""Channels of very different magnitude share one quantization scale.

What it is: 8-bit weights with a single scale, where at least a tenth of the output channels use three or fewer of the
    127 steps.
Why it costs: those channels lose almost all their precision, so their outputs are wrong.
Evidence: the largest value of each channel, relative to the range of the type.
Fix and its safety: advice: quantize again with one scale per channel (per_channel=True).
Example: a depthwise convolution quantized dynamically
References: ONNX Runtime documentation, "Quantize ONNX models" (per channel quantization); Nagel et al., "Data-Free
    Quantization Through Weight Equalization and Bias Correction", 2019.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx_ir as ir

from ortune.graph.attributes import int_of
from ortune.graph.constants import constant, one_number
from ortune.graph.model.graphs import nodes
from ortune.graph.nodes import input_of, is_op, maker_of, source_of
from ortune.records import Finding
from ortune.rules._words import counted, name_of
from ortune.rules.facts import Facts

CODE = "QNT014"

_FEW_STEPS, _MANY_STEPS = 3, 100
_SHARE = 0.1
_LEAST_CHANNELS = 8
_MOST = 1 << 24  # maximum elements of a weight to read
_WEIGHTS = {
    "ConvInteger": (1, None, 3),
    "DynamicQuantizeMatMul": (1, 2, 3),
    "MatMulInteger": (1, None, 3),
    "MatMulIntegerToFloat": (1, 3, 5),
    "QGemm": (3, 4, 5),
    "QLinearConv": (3, 4, 5),
    "QLinearMatMul": (3, 4, 5),
}
"""Maps operators to the input positions of (weights, scale or None if the operator has no scale, zero point)."""

_TEXT = """
<ir_version: 8, opset_import: ["" : 17]>
depthwise (float[1,8,4,4] x) => (float[1,8,4,4] y)
<int8[8,1,1,1] w = {NUMBERS}, float s = {0.1}, int8 z = {0}>
{
    d = DequantizeLinear (w, s, z)
    [bad_product] y = Conv <group = 8> (x, d)
}
"""
BAD = _TEXT.replace("NUMBERS", "127,0,1,2,90,1,60,100")
GOOD = _TEXT.replace("NUMBERS", "127,40,31,22,90,51,60,100")


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding on weights with one scale for channels of very different magnitude."""
    lost: dict[ir.Node, tuple[int, int]] = {}
    for node in nodes(facts.model.ir) if facts.model else ():
        weights = _weights(node)
        if weights is not None:
            n_lost, channels = _lost(node, weights)
            if n_lost >= max(1, _SHARE * channels):
                lost[node] = n_lost, channels
    if lost:
        n_lost, channels = next(iter(lost.values()))
        use = "uses" if n_lost == 1 else "use"
        yield Finding(
            code=CODE,
            what=f"channels of very different magnitude share one quantization scale: {counted([*lost])}",
            where=tuple(map(name_of, lost)),
            evidence=f"{n_lost} of {channels} channels {use} {_FEW_STEPS} of 127 steps or fewer",
            fix="quantize again with one scale per channel (per_channel=True)",
        )


def _weights(node: ir.Node) -> np.ndarray | None:
    """Return the 8-bit weights of a product with a single scale, minus the zero point; None for other nodes."""
    turned = False
    if node.op_type in _WEIGHTS:
        at, scale_at, zero_at = _WEIGHTS[node.op_type]
        value, scale = input_of(node, at), None if scale_at is None else input_of(node, scale_at)
        zero = input_of(node, zero_at)
    elif is_op(node, "Conv", "Gemm", "MatMul"):
        maker = maker_of(node.inputs[1])
        turned = is_op(maker, "Transpose")
        if maker is not None and turned:
            maker = maker_of(maker.inputs[0])
        if maker is None or not is_op(maker, "DequantizeLinear"):
            return None
        value, scale, zero = (input_of(maker, place) for place in range(3))
    else:
        return None
    numbers = constant(source_of(value), most=_MOST)
    if numbers is None or numbers.dtype not in (np.int8, np.uint8) or numbers.ndim < 2:
        return None
    if (scale is not None and one_number(scale) is None) or (zero is not None and one_number(zero) is None):
        return None
    middle = one_number(zero)
    numbers = numbers.T if turned and numbers.ndim == 2 else numbers
    return numbers.astype(np.int32) - (0 if middle is None else int(middle.reshape(())))


def _lost(node: ir.Node, weights: np.ndarray) -> tuple[int, int]:
    """Return (channels that use very few steps, or 0 if no channel uses many; all channels)."""
    # Output channels are on the first axis of a Conv, and of a Gemm with transposed weights; else on the
    # last.
    first = "Conv" in node.op_type or bool(int_of(node, "transB", 0))
    rows = np.moveaxis(weights, 0 if first else -1, 0)
    largest = np.abs(rows.reshape(len(rows), -1)).max(axis=1, initial=0)
    if len(rows) < _LEAST_CHANNELS or largest.max(initial=0) < _MANY_STEPS:
        return 0, len(rows)
    # Channels of zeros may have been pruned.
    return int(((largest > 0) & (largest <= _FEW_STEPS)).sum()), len(rows)
