"""Activations are rounded to int8 in fused 4-bit products.

What it is: DequantizeLinear and MatMul became MatMulNBits, whose accuracy level is 4 by default: the activations are
    quantized to int8 in blocks.
Why it costs: no time, it is faster; but outputs differ from those in float32, usually by 0.1 to 1 %.
Evidence: the difference from the unoptimised model, and that with accuracy level 1 there is none.
Fix and its safety: advice: accuracy level 1 computes the activations in float32, and is slower.
Example: int4 weights in blocks of 32 rows, with a default session
References: microsoft/onnxruntime#23004.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.records import Finding
from ortune.rules.facts import Facts

CODE = "MSR017"


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding if int8 activations explain the difference from the model without optimization."""
    check = facts.level_check
    if check is None or check.outputs.cause != "int8-activations":
        return
    moved = 100 * check.outputs.relative_l2
    yield Finding(
        code=CODE,
        severity="note",
        what=f"MatMulNBits rounds activations to int8, which changes outputs by {moved:.1f} %",
        evidence=f"relative L2 {check.outputs.without_cause_l2:.1g} with qdq_matmulnbits_accuracy_level=1",
        fix="if that is too much, use --set qdq_matmulnbits_accuracy_level=1",
    )
