"""Weights are listed among the inputs.

What it is: an initializer that is also a graph input is a default that each call may override, so ONNX Runtime takes it
    for unknown. Old exporters list every weight so.
Why it costs: what is not constant is not folded, fused or prepacked.
Evidence: names that are both, in a model of IR version 4 or newer.
Fix and its safety: exact: the rewrite initializers-out-of-inputs. Callers that feed one of them must keep it.
Example: ``ortune compare model.onnx --b-rewrite initializers-out-of-inputs``
References: ONNX IR specification, "Graphs"; microsoft/onnxruntime#4507, #6094.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.records import Finding, Plan, RewriteSpec
from ortune.rewrites.initializers_out_of_inputs import REWRITE
from ortune.rules.facts import Facts

CODE = "GRA002"


def find(facts: Facts) -> Iterator[Finding]:
    """As the rewrite that takes them out proposes itself."""
    if facts.model is None or REWRITE.name in (spec.name for spec in facts.plan.rewrites):
        return
    graph = facts.model.ir.graph
    for params, reason in REWRITE.proposes(facts.model.ir, facts.work):
        kept = params.get("keep", "").split("+")
        names = [value.name or "" for value in graph.inputs if value.name in graph.initializers]
        yield Finding(
            code=CODE,
            what=reason,
            where=tuple(name for name in names if name not in kept),
            plan=Plan(rewrites=(RewriteSpec(name=REWRITE.name, params=params),)),
            safety=REWRITE.safety,
        )
