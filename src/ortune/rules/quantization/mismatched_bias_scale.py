"""The scale of a quantized bias does not match its layer.

What it is: quantized Conv or Gemm whose int32 bias passes through DequantizeLinear with a scale other than input scale
    times weight scale.
Why it costs: ONNX Runtime leaves such a Conv in float32. It fuses such a Gemm into QGemm with the stored bias
    unchanged. QGemm applies the wrong scale to the bias, so outputs are wrong.
Evidence: the three scales. Both effects were reproduced with ONNX Runtime 1.32.
Fix and its safety: advice: quantize again with the bias scale equal to input scale times weight scale.
Example: a bias quantized by a tool as if it were a weight
References: ONNX Runtime documentation, "Quantize ONNX models"; Jacob et al., "Quantization and Training of Neural
    Networks", 2018, section 2.4.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx_ir as ir

from ortune.graph.constants import constant
from ortune.graph.nodes import input_of, is_op, maker_of, with_operator
from ortune.records import Finding
from ortune.rules._pairs import dequantizer
from ortune.rules._words import counted, name_of
from ortune.rules.facts import Facts

CODE = "QNT011"

_NEAR = 1e-3  # relative tolerance

_TEXT = """
<ir_version: 8, opset_import: ["" : 17]>
biased (uint8[2,2] q) => (float[2,2] y)
<float sx = {0.5}, uint8 zx = {128}, int8[2,2] w = {1,2,3,4}, float sw = {0.25}, int8 zw = {0}, int32[2] b = {8,9},
    float sb = {SCALE}>
{
    x = DequantizeLinear (q, sx, zx)
    dw = DequantizeLinear (w, sw, zw)
    db = DequantizeLinear (b, sb)
    [bad_product] p = Gemm (x, dw, db)
    qy = QuantizeLinear (p, sx, zx)
    y = DequantizeLinear (qy, sx, zx)
}
"""
BAD = _TEXT.replace("SCALE", "0.001")
GOOD = _TEXT.replace("SCALE", "0.125")


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding on products whose bias scale does not match the scales of input and weight."""
    products = with_operator(facts.model.ir, "Conv", "Gemm") if facts.model else ()
    biased = [node for node in products if _is_off(node)]
    gemms = [node for node in biased if is_op(node, "Gemm")]
    if biased:
        yield Finding(
            code=CODE,
            severity="error" if gemms else "warning",
            what=f"the bias scale is not input scale times weight scale: {counted(biased)}",
            where=tuple(map(name_of, biased)),
            evidence="ONNX Runtime applies the wrong scale to the bias of Gemm"
            if gemms
            else "Conv runs in float32",
            fix="quantize again with the bias scale equal to input scale times weight scale",
        )


def _is_off(node: ir.Node) -> bool:
    """Return whether the scales of a product's input, weight and bias are known and do not match."""
    x = _scale(dequantizer(input_of(node, 0)))
    weight, bias = (_scale(maker_of(input_of(node, place))) for place in (1, 2))
    if x is None or weight is None or bias is None or x.size != 1:
        return False
    wanted = x.reshape(()) * weight.reshape(-1)
    # A single scale matches any number of channels; two other sizes cannot be compared.
    sizes = {wanted.size, bias.size} - {1}
    return len(sizes) < 2 and not np.allclose(bias.reshape(-1), wanted, rtol=_NEAR, atol=0.0)


def _scale(maker: ir.Node | None) -> np.ndarray | None:
    """Return the scale of a DequantizeLinear; None for other nodes."""
    return constant(maker.inputs[1]) if maker is not None and is_op(maker, "DequantizeLinear") else None
