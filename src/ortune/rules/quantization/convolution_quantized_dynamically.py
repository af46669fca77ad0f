"""Convolutions are quantized dynamically.

What it is: ConvInteger, which dynamic quantization makes of convolutions.
Why it costs: on CPUs it has no kernel of the fast kind, takes its scale anew from each input, and is followed by
    casts and products of its own: a model of convolutions is seldom faster so than in float32.
Evidence: the operator, where the target is the CPU; and the instructions of the processor that it leaves unused.
Fix and its safety: advice: quantize statically, with quantize-dequantize pairs and samples of real inputs; dynamic
    quantization is for MatMul and recurrent layers.
Example: ``onnxruntime.quantization.quantize_static(..., quant_format=QuantFormat.QDQ)``
References: microsoft/onnxruntime#12854, #12206, #16009, #9694.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.model.graphs import nodes
from ortune.providers import CPU
from ortune.records import Finding, Host
from ortune.rules._words import counted, name_of
from ortune.rules.environment.no_int8_dot_product import DOT_PRODUCTS
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
    """Everywhere in the model, where the CPU runs it."""
    if facts.model is None or facts.target != CPU.target:
        return
    found = [node for node in nodes(facts.model.ir) if node.op_type == "ConvInteger"]
    if found:
        yield Finding(
            code=CODE,
            what=f"convolutions quantized dynamically: {counted(found)}",
            where=tuple(map(name_of, found)),
            evidence=_unused(facts.host),
            fix="quantize them statically",
        )


def _unused(host: Host | None) -> str:
    """The 8-bit instructions that a static quantization would use."""
    there = [name for name in host.features if name in DOT_PRODUCTS] if host is not None else []
    return f"this processor has {' and '.join(there)}, which static quantization would use" if there else ""
