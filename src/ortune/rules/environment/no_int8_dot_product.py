"""The CPU has no 8-bit dot product.

What it is: without VNNI, AMX or ARM's dot-product instructions, an 8-bit dot product takes several instructions:
    products are added in 16 bits, or operands are widened first.
Why it costs: an int8 model gains little here, and may be slower than its float model.
Evidence: the instruction sets that the CPU reports.
Fix and its safety: advice: measure before quantizing. 4-bit weights may still help where memory bandwidth is the
    limit.
Example: ``ortune compare model.onnx --b-rewrite dynamic-int8``
References: ONNX Runtime documentation, "Quantize ONNX models", section on performance.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.graph.dot_products import lacks_it
from ortune.records import Finding
from ortune.rewrites.dynamic_int8 import REWRITE
from ortune.rules.facts import Facts

CODE = "ENV004"


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding if the CPU lacks an 8-bit dot product and, given a model, its weights could be 8-bit."""
    if not lacks_it(facts.host) or facts.host is None:
        return
    measures = "measure int8 before shipping it"
    if facts.model is not None:
        if not REWRITE.proposes(facts.model.ir, facts.work):
            return
        measures += f": ortune compare model.onnx --b-rewrite {REWRITE.name}"
    yield Finding(
        code=CODE,
        what="this CPU has no 8-bit dot product (VNNI, AMX, dotprod), so int8 models are seldom faster here",
        where=(facts.host.cpu,),
        evidence=f"instruction sets: {', '.join(facts.host.features)}",
        fix=measures,
    )
