"""The quantized form is one that the accelerator does not take.

What it is: QDQ nodes in a form that the execution provider refuses. NNAPI takes unsigned activations, one scale a
    tensor, and for the weights of a Conv one scale a channel with zero points of zero; CoreML takes no QDQ nodes.
Why it costs: the quantized nodes stay on the CPU, and each splits the model.
Evidence: types, scales and zero points of the QDQ nodes in the file, before any optimisation.
Fix and its safety: advice: quantize with unsigned 8-bit activations and symmetric weights for NNAPI; give CoreML the
    float32 model.
Example: ``ortune partition model-int8.onnx --for nnapi``
References: NNAPI execution provider, "helper.cc"; ONNX Runtime documentation, "Quantization on mobile".
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.providers.nnapi import PROVIDER as NNAPI
from ortune.records import Finding
from ortune.rules._mobile import partition_of
from ortune.rules._words import counted, name_of
from ortune.rules.facts import Facts

CODE = "MOB006"
TIER = "preview"
TARGET = NNAPI.target

_TEXT = """
<ir_version: 8, opset_import: ["" : 17]>
quantized (float[1,2,4,4] x) => (float[1,3,4,4] y)
<float s = {{0.1}}, {kind} z = {{{zero}}}, int8[3,2,1,1] w = {{1,2,3,4,5,6}}, float[3] ws = {{0.1,0.2,0.3}},
 int8[3] wz = {{0,0,0}}>
{{
    {first}q = QuantizeLinear (x, s, z)
    {second}d = DequantizeLinear (q, s, z)
    {third}dw = DequantizeLinear <axis = 0> (w, ws, wz)
    {fourth}c = Conv (d, dw)
    {fifth}qc = QuantizeLinear (c, s, z)
    {sixth}y = DequantizeLinear (qc, s, z)
}}
"""
_NAMES = ("first", "second", "third", "fourth", "fifth", "sixth")
BAD = _TEXT.format(kind="int8", zero=0, **{name: f"[bad_{name}] " for name in _NAMES})
GOOD = _TEXT.format(kind="uint8", zero=128, **dict.fromkeys(_NAMES, ""))


def find(facts: Facts) -> Iterator[Finding]:
    """QDQ nodes, and what is quantized by them, that are left."""
    partition = partition_of(facts)
    if partition is None:
        return
    quantized = {node for unit in partition.wiring.units if unit.quantizers for node in unit.nodes}
    alone = {
        unit.target
        for unit in partition.wiring.units
        if unit.target.op_type in ("QuantizeLinear", "DequantizeLinear")
    }
    nodes = [node for node in partition.left if node in quantized | alone]
    if nodes:
        yield Finding(
            code=CODE,
            what=f"{facts.provider.target} does not support this form of quantization: {counted(nodes)}",
            where=tuple(map(name_of, nodes)),
            fix="quantize with unsigned activations and symmetric weights for NNAPI; give CoreML the float32 model",
        )
