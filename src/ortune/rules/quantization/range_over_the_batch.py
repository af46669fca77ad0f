"""Dynamic quantization computes one range over the whole batch and its padding.

What it is: DynamicQuantizeLinear, or an operator that contains it, on a tensor with a dynamic batch dimension, or with
    positions that a mask hides. It computes one minimum and one maximum of the whole tensor.
Why it costs: one large value in any row, or in padding, makes the steps coarser for all others. The answer for a row
    then depends on the other rows and on the padded length, usually by about a per cent.
Evidence: the nodes, by following the batch dimension. A run of one row alone and in a batch measures the effect.
Fix and its safety: advice: quantize the float32 model with fixed ranges or weights alone. Otherwise group texts of
    similar length, and do not compare answers from different batch sizes exactly.
Example: ``onnxruntime.quantization.quantize_dynamic`` on a text encoder
References: ONNX operator documentation, "DynamicQuantizeLinear"; microsoft/onnxruntime#10111, #8625.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.graph.rows import batch_axes, masks, mixed_rows
from ortune.records import Finding
from ortune.rules._words import name_of, subject
from ortune.rules.facts import Facts

CODE = "QNT017"

BAD = """
<ir_version: 8, opset_import: ["" : 17]>
product (float[batch,8] x, uint8[8,8] w) => (int32[batch,8] y)
{
    [bad_range] q, s, z = DynamicQuantizeLinear (x)
    y = MatMulInteger (q, w, z)
}
"""
GOOD = BAD.replace("batch", "1")


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding on nodes that compute one quantization range over a batch or padding."""
    if facts.model is None:
        return
    model = facts.model.ir
    nodes = mixed_rows(model).ranges
    if nodes:
        over = " and ".join(
            name for name, there in (("batch", batch_axes(model)), ("padding", masks(model))) if there
        )
        yield Finding(
            code=CODE,
            what=f"{subject(nodes, 'computes', 'compute')} one quantization range over {over}, so the outputs for a "
            "row depend on the rest of the input",
            where=tuple(map(name_of, nodes)),
            fix="quantize the float32 model with fixed ranges (static-int8) or weights alone (weight-only-bits) if "
            "answers must not depend on the batch",
        )
