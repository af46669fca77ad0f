"""Outputs are wrong because of ONNX Runtime's graph optimisation.

What it is: outputs at the requested optimisation level (usually the default) differ from those of the unoptimised model
    by more than rounding, which is measured too.
Why it costs: a wrong answer is useless at any speed. A faulty fusion silently computes something other than the nodes
    it replaces.
Evidence: the output error, the error of one rounding step, and the first node whose value differs. On a CPU without
    VNNI, the reason may be saturation: fused 8-bit products saturate where those of separate nodes do not.
Fix and its safety: advice: use the highest level whose outputs match the unoptimised model (or, for small models, the
    model evaluated in float64) and repeat, until a newer ONNX Runtime fixes the bug; where 8-bit products saturate, the
    same level with x64_quant_precision. A model that has lost values itself is corrected first.
Example: a QGemm fused from a Gemm whose int32 bias has its own scale (onnxruntime 1.32)
References: ONNX Runtime documentation, "Graph Optimizations".
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.printable import amount
from ortune.records import DEFAULT_WRONG, FLOAT64, Finding, LevelCheck, Plan
from ortune.rules._words import UNWRITTEN
from ortune.rules.facts import Facts

CODE = DEFAULT_WRONG


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding if optimization makes the outputs wrong."""
    check = facts.level_check
    if check is None or not check.wrong:
        return
    build = f"ONNX Runtime {facts.ort_version}".rstrip()
    place = f" from node {check.node!r} onwards" if check.node else ""
    moved = (
        ""
        if check.moved_relative_l2 is None
        else f", of which rounding explains {check.moved_relative_l2:.2g}"
    )
    apart = f"relative L2 error {check.outputs.relative_l2:.2g}"
    if (n := check.outputs.nonfinite_candidate) and not check.outputs.nonfinite_reference:
        apart, moved = f"{amount(n, 'element is', 'elements are')} NaN or infinite", ""
    compared = "the model in float64" if check.reference == FLOAT64 else f"level {check.reference}"
    yield Finding(
        code=CODE,
        severity="error",
        what=f"outputs are wrong{place} in {build} at optimisation level {check.level} ({apart}{moved})",
        where=(check.node,) if check.node else (),
        evidence=f"{apart} compared with {compared}{moved}",
        fix=_fix(check),
    )


def _fix(check: LevelCheck) -> str:
    """Return the text of the fix, which calls no level correct: outputs that match a faulty file's are faulty too."""
    if not check.right:
        return UNWRITTEN
    matched = "the model in float64" if check.reference == FLOAT64 else "the unoptimised model"
    return f"use {_right(check)}, whose outputs match {matched}"


def _right(check: LevelCheck) -> str:
    """Return the command-line options that correct the outputs."""
    if not check.right_settings:
        return f"--set level={check.right}"
    return " ".join(f"--set {text}" for text in Plan(settings=check.right_settings).assignments)
