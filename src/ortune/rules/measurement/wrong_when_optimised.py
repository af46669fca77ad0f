"""ONNX Runtime's optimiser makes something else of the model, so the outputs are wrong.

What it is: outputs at the level of optimisation that is asked for, the default for most, are far from those of the same
    model without optimisation: further than rounding moves them, which is measured too.
Why it costs: a wrong answer is wrong, fast or slow. A fusion that reads an operand otherwise than the nodes that it
    replaces gives one without an error.
Evidence: the distance of the outputs, how far one step of rounding moves them, and the first node whose value differs.
Fix and its safety: advice: the highest level whose outputs are right, until a newer ONNX Runtime mends it.
Example: a QGemm made of a Gemm whose int32 bias has a scale of its own (onnxruntime 1.32)
References: ONNX Runtime documentation, "Graph Optimizations".
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.records import DEFAULT_WRONG, Finding
from ortune.rules.facts import Facts

CODE = DEFAULT_WRONG


def find(facts: Facts) -> Iterator[Finding]:
    """Where the outputs were held against those of the model without optimisation."""
    check = facts.level_check
    if check is None or not check.wrong:
        return
    build = f"ONNX Runtime {facts.ort_version}".rstrip()
    place = f" from node {check.node!r} on" if check.node else ""
    moved = "" if check.moved_relative_l2 is None else f", rounding explains {check.moved_relative_l2:.2g}"
    apart = f"relative L2 {check.outputs.relative_l2:.2g}"
    if (n := check.outputs.nonfinite_candidate) and not check.outputs.nonfinite_reference:
        apart, moved = f"{n} {'element' if n == 1 else 'elements'} NaN or infinite", ""
    yield Finding(
        code=CODE,
        severity="error",
        what=f"outputs are wrong: at optimisation level {check.level}, {build} computes something else{place} "
        f"({apart}{moved})",
        where=(check.node,) if check.node else (),
        evidence=f"{apart} against level {check.reference}{moved}",
        fix=f"run the model with --set level={check.right}, whose outputs are right",
    )
