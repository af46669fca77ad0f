"""MatMulNBits has floating-point zero points.

What it is: MatMulNBits whose zero points have the type of the scales instead of packed uint8.
Why it costs: the CPU has no integer kernel for them. It dequantizes all weights in every run, then multiplies in
    float32. With 8-bit weights it refuses to load the model.
Evidence: the type of the zero points, where the target is the CPU. Measured on one AVX-512 core, with ONNX Runtime 1.32
    and one row times 1,024 x 1,024 weights: about 80 times as long as with packed zero points in 4 bits, 20 times in 2.
Fix and its safety: advice: quantize again with packed zero points, or symmetrically without zero points. Zero points
    that are whole numbers can be packed without changing any value.
Example: 2-bit weights of a quantizer that optimises zero points (HQQ)
References: ONNX Runtime documentation, "Contrib operators", MatMulNBits.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from ortune.catalogue.providers import CPU
from ortune.graph.attributes import int_of
from ortune.graph.model.graphs import nodes
from ortune.graph.nodes import input_of
from ortune.graph.shapes.known import known_values
from ortune.records import Finding
from ortune.rules._words import name_of, subject
from ortune.rules.facts import Facts

CODE = "QNT018"

_ZERO_POINTS = 3
_REFUSED = 8
_HEAD = """
<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
two_bits (float[1,32] x, uint8[16,1,8] w, float[16] s, {}[16] z) => (float[1,16] y)
{{
    [bad_product] y = com.microsoft.MatMulNBits <K = 32, N = 16, bits = 2, block_size = 32, accuracy_level = 4>
        (x, w, s, z)
}}
"""

BAD = _HEAD.format("float")
GOOD = _HEAD.format("uint8").replace("bad_", "")


def find(facts: Facts) -> Iterator[Finding]:
    """Yield findings on MatMulNBits nodes with floating-point zero points, if the target is the CPU."""
    if facts.model is None or facts.target != CPU.target:
        return
    products = [n for n in nodes(facts.model.ir) if n.op_type == "MatMulNBits" and input_of(n, _ZERO_POINTS)]
    if not products:
        return
    values = known_values(facts.model.ir)
    slow = [node for node in products if _is_floating(values.inferred(input_of(node, _ZERO_POINTS)).dtype)]
    refused = [node for node in slow if int_of(node, "bits", 4) == _REFUSED]
    for found, effect in (
        (refused, "which ONNX Runtime refuses to load on a CPU"),
        ([node for node in slow if node not in refused], "so the CPU dequantizes their weights in every run"),
    ):
        if found:
            yield Finding(
                code=CODE,
                severity="error" if found is refused else "warning",
                what=f"{subject(found, 'has', 'have')} floating-point zero points, {effect}",
                where=tuple(map(name_of, found)),
                fix="quantize again with packed uint8 zero points, or without zero points",
            )


def _is_floating(dtype: ir.DataType | None) -> bool:
    return dtype is not None and dtype.is_floating_point()
