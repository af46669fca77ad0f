"""Matrix multiplications between quantized values run in float32.

What it is: MatMul or Gemm whose weights come from DequantizeLinear, in a form that ONNX Runtime does not fuse. Reasons:
    the input is not quantized, a Relu or Clip precedes a QuantizeLinear that clips at other values, or other nodes read
    the output too. A Gemm with a bias is not fused unless alpha and beta are 1. On x86, an int8 input or output with
    several readers also prevents the fusion. The rule also covers MatMul with float weights between quantized values.
Why it costs: the values are dequantized and the operator runs in float32, which adds the cost of quantization to that
    of the float model.
Evidence: the nodes around each operator. ONNX Runtime 1.31 keeps them in its optimised graph. Where no QuantizeLinear
    follows at all, ONNX Runtime creates MatMulIntegerToFloat or QGemm, and this rule reports nothing.
Fix and its safety: advice: let the quantizer include the adjacent operators, with asymmetric activations where a Relu
    follows (``ActivationSymmetric=False``) and uint8 activations on x86; or exclude these operators from quantization.
Example: ``quantize_static(..., extra_options={"ActivationSymmetric": False})``
References: microsoft/onnxruntime#5319, #1543, #17389.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from ortune.graph.attributes import float_of
from ortune.graph.constants import constant
from ortune.graph.nodes import input_of, is_op
from ortune.records import Finding, Host
from ortune.rules._pairs import dequantized, in_float, output_quantizer, signed, why_input_open
from ortune.rules.facts import Facts

CODE = "QNT010"

_HEAD = """
<ir_version: 8, opset_import: ["" : 17]>
island (float[8,4] x, int8[4,4] w, float s, uint8 z, int8 t) => (float[8,4] y)
<int8 middle = {0}, int8 least = {-128}, float step = {0.1}>
{
    q = QuantizeLinear (x, s, z)
    dx = DequantizeLinear (q, s, z)
    dw = DequantizeLinear (w, s, t)"""

BAD = f"""{_HEAD}
    [bad_product] p = MatMul (dx, dw)
    r = Relu (p)
    qr = QuantizeLinear (r, step, middle)
    y = DequantizeLinear (qr, step, middle)
}}
"""
GOOD = f"""{_HEAD}
    p = MatMul (dx, dw)
    r = Relu (p)
    qr = QuantizeLinear (r, step, least)
    y = DequantizeLinear (qr, step, least)
}}
"""


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding on MatMul and Gemm between quantized values that compute in float on the CPU."""
    yield from in_float(CODE, facts, ("MatMul", "Gemm"), _island)


def _island(node: ir.Node, host: Host | None) -> str:
    """Return why a MatMul or Gemm between quantized values computes in float; "" for other nodes."""
    x, weight = node.inputs[:2]
    quantize, why = output_quantizer(node)
    if dequantized(x) and dequantized(weight):
        readers = [use.node for use in node.outputs[0].uses()]
        shared = len(readers) > 1 or node.outputs[0].is_graph_output()
        if shared and any(is_op(reader, "QuantizeLinear") for reader in readers):
            return "QuantizeLinear is not the only reader of its output"
        biased = quantize is not None and is_op(node, "Gemm") and input_of(node, 2) is not None
        for factor in ("alpha", "beta") if biased else ():
            if (number := float_of(node, factor, 1.0)) != 1.0:
                return f"its {factor} is {number:g}, not 1"
        return why or signed(node, quantize, host) if quantize is not None else ""
    if quantize is None or why:
        return ""
    if dequantized(weight):
        return why_input_open(x)
    array = constant(weight)
    floats = array is not None and array.dtype.kind == "f"
    return "its weights are not quantized" if floats and dequantized(x) and is_op(node, "MatMul") else ""
