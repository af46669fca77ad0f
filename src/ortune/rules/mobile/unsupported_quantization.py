"""The accelerator does not support this form of quantization.

What it is: QDQ nodes in a form that the execution provider does not support. NNAPI supports unsigned activations, one
    scale per tensor, and for the weights of a Conv one scale per channel with zero points of zero. QNN supports one
    scale per channel only for signed weights with zero points of zero, and no unsigned weights with int16 activations.
    XNNPACK supports activations and weights of one type, and one scale per channel only if they are signed. CoreML
    supports no QDQ nodes.
Why it costs: the quantized nodes stay on the CPU, and each splits the model. With onnxruntime-qnn 2.7 a Conv in such a
    form makes session creation fail.
Evidence: types, scales and zero points of the QDQ nodes in the file, before any optimisation.
Fix and its safety: advice: quantize with unsigned 8-bit activations and symmetric weights for NNAPI, with symmetric
    int8 weights for QNN, with signed activations and weights for XNNPACK; use the float model with CoreML.
Example: ``ortune partition model-int8.onnx --for nnapi``
References: NNAPI execution provider, "helper.cc"; ONNX Runtime documentation, "Quantization on mobile".
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.catalogue.providers import COREML, NNAPI, QNN, XNNPACK
from ortune.graph.nodes import is_op
from ortune.records import Finding, NodeReason
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

_FORMS = ("quantized-form", "element-type", "refused")
"""Reasons that concern types, scales and zero points; other reasons also apply to float32."""
_FIX = {
    NNAPI.target: "quantize with unsigned 8-bit activations and symmetric weights",
    COREML.target: "use the float model with CoreML",
    QNN.target: "quantize with symmetric int8 weights",
    XNNPACK.target: "quantize with signed 8-bit activations and weights",
}


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding on quantized nodes that the provider rejects because of the form of quantization."""
    partition = partition_of(facts)
    if partition is None:
        return
    quantized = {node for unit in partition.wiring.units if unit.quantizers for node in unit.nodes}
    nodes = [
        node
        for node, why in partition.left.items()
        if (why.code in _FORMS and node in quantized)
        or (is_op(node, "QuantizeLinear", "DequantizeLinear") and _rejects_separate_node(facts.target, why))
    ]
    if nodes:
        yield Finding(
            code=CODE,
            what=f"{facts.provider.target} does not support this form of quantization: {counted(nodes)}",
            where=tuple(map(name_of, nodes)),
            fix=_FIX[facts.target],
        )


def _rejects_separate_node(target: str, why: NodeReason) -> bool:
    """Return whether a provider rejects a separate QDQ node because of its form; QNN and XNNPACK reject all."""
    return target == COREML.target or (target == NNAPI.target and why.code in (*_FORMS, "not-constant"))
