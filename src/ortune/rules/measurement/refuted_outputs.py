"""Outputs are wrong at every optimisation level.

What it is: ONNX's reference evaluator, in float64, gives other outputs than this build of ONNX Runtime at every level
    of graph optimisation.
Why it costs: a wrong answer is useless at any speed. The kernel of an operator is wrong, so no other setting helps, and
    configurations that agree with each other are wrong alike.
Evidence: the error compared with the float64 outputs. The evaluator has to disagree in float32 too, so values that a
    model computes in lower precision on purpose are not reported.
Fix and its safety: advice: compare releases and use one whose outputs are correct.
Example: AveragePool with count_include_pad and padding at the end, opset 19 (onnxruntime 1.20)
References: ONNX operator documentation; onnx.reference.ReferenceEvaluator.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.records import REFUTED, Finding
from ortune.rules.facts import Facts

CODE = REFUTED


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding if the evaluation in float64 refutes the outputs at every optimization level."""
    exact = facts.exact
    if exact is None or exact.right is not False or exact.right_level or exact.outputs is None:
        return
    build = f"ONNX Runtime {facts.ort_version}".rstrip()
    if exact.outputs.accepting_tolerance is None:
        apart = exact.outputs.what
    else:
        apart = f"relative L2 error {exact.outputs.relative_l2:.2g}"
    yield Finding(
        code=CODE,
        severity="error",
        what=f"outputs are wrong in {build} at every optimisation level ({apart})",
        evidence="compared with ONNX's reference evaluator in float64",
        fix="use a release whose outputs are correct (ortune history compares releases)",
    )
