"""Activations are rounded to int8 in products with weights of few bits.

What it is: MatMulNBits at accuracy level 4 quantizes the activations to int8 in blocks. The file requests this level,
    or ONNX Runtime chooses it for DequantizeLinear and MatMul that it fuses.
Why it costs: no time, it is faster; but outputs differ from those in float32, usually by 0.1 to 1 %.
Evidence: the difference from the unoptimised model, or from a copy of the file, and that with accuracy level 1 there
    is none.
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
    if check is None:
        return
    outputs = check.rounded or check.outputs
    if outputs.cause != "int8-activations":
        return
    options = " ".join(outputs.without_cause_by)
    moved = 100 * outputs.relative_l2
    yield Finding(
        code=CODE,
        severity="note",
        what=f"MatMulNBits rounds activations to int8, which changes outputs by {moved:.1f} %",
        evidence=f"relative L2 {outputs.without_cause_l2:.1g} at accuracy level 1",
        fix=f"if that is too much, use {options}",
    )
