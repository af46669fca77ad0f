"""Convolutions between quantized values are computed in float.

What it is: Conv whose weights come from DequantizeLinear, and whose input does not, or whose output does not go to a
    QuantizeLinear alone (straight, through Relu or Clip, or through what only moves values). A Relu or Clip between is
    left to the QuantizeLinear only where that cuts off at the same numbers: a Relu stays before one whose zero point is
    not the least number, as of activations that are quantized symmetrically. On x86 an input or output of int8 that
    several nodes read keeps the group apart too: the others are made uint8 there.
Why it costs: ONNX Runtime makes QLinearConv only of the whole group; without it the values are widened and the
    convolution runs in float32: the cost of quantizing on top of that of the float model.
Evidence: the nodes around each convolution. The graph that ONNX Runtime 1.31 optimises keeps them as they are.
Fix and its safety: advice: let the quantizer quantize what stands before and behind too, with zero points where a Relu
    follows (``ActivationSymmetric=False``) and with activations of uint8 on x86; or leave these convolutions out of it.
Example: ``quantize_static(..., op_types_to_quantize=[...])`` with the operator that follows
References: microsoft/onnxruntime#5319, #1543, #17389.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from ortune.records import Finding, Host
from ortune.rules._pairs import closing, dequantized, in_float, open_input, signed
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
    """Everywhere in the model, where the CPU runs it."""
    yield from in_float(CODE, facts, ("Conv",), _island)


def _island(node: ir.Node, host: Host | None) -> str:
    """Why a convolution between quantized values is computed in float; "" where it is not, or is not between any."""
    if len(node.inputs) < 2 or not dequantized(node.inputs[1]):
        return ""
    quantize, why = closing(node)
    if dequantized(node.inputs[0]):
        return why or (signed(node, quantize, host) if quantize is not None else "")
    # With nothing quantized around it only its weights were meant to be.
    return open_input(node.inputs[0]) if quantize is not None else ""
