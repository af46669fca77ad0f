"""Convolutions between quantized values run in float32.

What it is: Conv whose weights come from DequantizeLinear, but whose input does not, or whose output does not go to a
    single QuantizeLinear. Relu, Clip and data movement may be in between. A Relu or Clip in between is absorbed only if
    QuantizeLinear clips at the same values. A Relu before a symmetric QuantizeLinear therefore stays. On x86, an int8
    input or output with several readers also prevents the fusion; one with a single reader is converted to uint8.
Why it costs: ONNX Runtime creates QLinearConv only from the complete group of DequantizeLinear, Conv and
    QuantizeLinear. Otherwise the values are dequantized and the convolution runs in float32, which adds the cost of
    quantization to that of the float model.
Evidence: the nodes around each convolution. ONNX Runtime 1.31 keeps them in its optimised graph.
Fix and its safety: advice: let the quantizer include the adjacent operators, with asymmetric activations where a Relu
    follows (``ActivationSymmetric=False``) and uint8 activations on x86; or exclude these convolutions from
    quantization.
Example: ``quantize_static(..., op_types_to_quantize=[...])`` with the following operator included
References: microsoft/onnxruntime#5319, #1543, #17389.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from ortune.records import Finding, Host
from ortune.rules._pairs import dequantized, in_float, output_quantizer, signed, why_input_open
from ortune.rules.facts import Facts

CODE = "QNT004"

_INSIDE = """
    q = QuantizeLinear (x, s, z)
    dx = DequantizeLinear (q, s, z)
    dw = DequantizeLinear (w, s, t)"""
_HEAD = """
<ir_version: 8, opset_import: ["" : 17]>
island (float[1,8,8,8] x, int8[8,8,3,3] w, float s, uint8 z, int8 t) => (float[1,8,6,6] y)
{"""

BAD = f"""{_HEAD}{_INSIDE}
    [bad_conv] c = Conv (dx, dw)
    y = Sigmoid (c)
}}
"""
GOOD = f"""{_HEAD}{_INSIDE}
    c = Conv (dx, dw)
    qc = QuantizeLinear (c, s, z)
    y = DequantizeLinear (qc, s, z)
}}
"""


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding on convolutions between quantized values that compute in float, if the target is the CPU."""
    yield from in_float(CODE, facts, ("Conv",), _island)


def _island(node: ir.Node, host: Host | None) -> str:
    """Return why a convolution between quantized values computes in float; "" for other convolutions."""
    if len(node.inputs) < 2 or not dequantized(node.inputs[1]):
        return ""
    quantize, why = output_quantizer(node)
    if dequantized(node.inputs[0]):
        return why or (signed(node, quantize, host) if quantize is not None else "")
    # If nothing around it is quantized, only its weights were meant to be.
    return why_input_open(node.inputs[0]) if quantize is not None else ""
