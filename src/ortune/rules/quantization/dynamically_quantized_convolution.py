"""Convolutions are quantized dynamically.

What it is: ConvInteger, the result of dynamic quantization of convolutions.
Why it costs: it has no fast kernel on CPUs, computes its scale from each input, and adds casts and multiplications. A
    convolutional model is seldom faster this way than in float32.
Evidence: the operator, where the target is the CPU, and the CPU instructions that it leaves unused.
Fix and its safety: advice: quantize statically, with quantize-dequantize pairs and real sample inputs. Dynamic
    quantization suits MatMul and recurrent layers.
Example: ``onnxruntime.quantization.quantize_static(..., quant_format=QuantFormat.QDQ)``
References: microsoft/onnxruntime#12854, #12206, #16009, #9694.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.catalogue.providers import CPU
from ortune.graph.dot_products import DOT_PRODUCTS
from ortune.graph.model.graphs import nodes
from ortune.records import Finding, Host
from ortune.rules._words import counted, name_of
from ortune.rules.facts import Facts

CODE = "QNT002"

BAD = """
<ir_version: 8, opset_import: ["" : 17]>
integers (uint8[1,8,8,8] x, uint8[8,8,3,3] w) => (int32[1,8,6,6] y)
{
    [bad_conv] y = ConvInteger (x, w)
}
"""
GOOD = """
<ir_version: 8, opset_import: ["" : 17]>
integers (uint8[8,8] x, uint8[8,8] w) => (int32[8,8] y)
{
    y = MatMulInteger (x, w)
}
"""


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding on ConvInteger nodes, if the target is the CPU."""
    if facts.model is None or facts.target != CPU.target:
        return
    convolutions = [node for node in nodes(facts.model.ir) if node.op_type == "ConvInteger"]
    if convolutions:
        yield Finding(
            code=CODE,
            what=f"convolutions are quantized dynamically: {counted(convolutions)}",
            where=tuple(map(name_of, convolutions)),
            evidence=_unused(facts.host),
            fix="quantize the convolutions statically, with sample inputs",
        )


def _unused(host: Host | None) -> str:
    """Return a clause with the CPU's 8-bit instructions that static quantization would use; "" if it has none."""
    there = [name for name in host.features if name in DOT_PRODUCTS] if host is not None else []
    return f"static quantization would use this CPU's {' and '.join(there)}" if there else ""
