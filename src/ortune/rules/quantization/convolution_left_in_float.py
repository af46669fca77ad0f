"""Convolutions between quantized values are computed in float.

What it is: Conv whose input and weights come from DequantizeLinear, and whose output does not go to a QuantizeLinear
    alone (straight, or through Relu or Clip).
Why it costs: ONNX Runtime makes QLinearConv only of the whole group; without it the values are widened and the
    convolution runs in float32: the cost of quantizing on top of that of the float model.
Evidence: the nodes around each convolution. The graph that ONNX Runtime 1.31 optimises keeps them as they are.
Fix and its safety: advice: let the quantizer quantize what follows too, or leave these convolutions out of it.
Example: ``quantize_static(..., op_types_to_quantize=[...])`` with the operator that follows
References: microsoft/onnxruntime#5319, #1543, #17389.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from ortune.model.graphs import nodes
from ortune.records import Finding
from ortune.rewrites._graph import is_op, only_user
from ortune.rules._words import counted, name_of
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
    if facts.model is None or facts.target != "cpu":
        return
    why = {node: why for node in nodes(facts.model.ir) if is_op(node, "Conv") and (why := _island(node))}
    if why:
        yield Finding(
            code=CODE,
            what=f"in float between quantized values: {counted([*why])}",
            where=tuple(map(name_of, why)),
            evidence="; ".join(dict.fromkeys(why.values())),
            fix="quantize what follows too",
        )


def _island(node: ir.Node) -> str:
    """Why a convolution between quantized values is computed in float; "" where it is not, or is not between any."""
    makers = [value.producer() if value is not None else None for value in node.inputs[:2]]
    if not all(maker is not None and is_op(maker, "DequantizeLinear") for maker in makers):
        return ""
    value = node.outputs[0]
    user = only_user(value)
    if user is not None and is_op(user, "Relu", "Clip"):
        value = user.outputs[0]
        user = only_user(value)
    if user is None:
        return "its output is the model's own" if value.is_graph_output() else "several nodes read its output"
    return "" if is_op(user, "QuantizeLinear") else f"{user.op_type} follows, and no QuantizeLinear"
