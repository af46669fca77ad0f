"""Initializers are also graph inputs.

What it is: an initializer that is also a graph input is a default value that each run may override, so ONNX Runtime
    cannot treat it as a constant. Old exporters list every weight this way.
Why it costs: values that are not constant are not folded, fused or prepacked.
Evidence: names that are both an initializer and an input, in a model of IR version 4 or newer.
Fix and its safety: exact: the rewrite initializers-out-of-inputs. If callers feed one of the initializers, keep it as
    an input.
Example: ``ortune compare model.onnx --b-rewrite initializers-out-of-inputs``
References: ONNX IR specification, "Graphs"; microsoft/onnxruntime#4507, #6094.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.records import Finding, Plan, RewriteSpec
from ortune.rewrites.initializers_out_of_inputs import REWRITE
from ortune.rules._concerned import readers, share_of_run
from ortune.rules._words import percent
from ortune.rules.facts import Facts

CODE = "GRA002"


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding if the rewrite that removes initializers from the inputs applies."""
    if facts.model is None or facts.rewritten_by(REWRITE.name):
        return
    graph = facts.model.ir.graph
    for params, reason in REWRITE.proposes(facts.model.ir, facts.work):
        kept = params.get("keep", "").split("+")
        names = [value.name or "" for value in graph.inputs if value.name in graph.initializers]
        share = _share(facts, {name for name in names if name not in kept})
        yield Finding(
            code=CODE,
            what=reason,
            where=tuple(name for name in names if name not in kept),
            evidence=_reads(share),
            share_ratio=share,
            plan=Plan(rewrites=(RewriteSpec(name=REWRITE.name, params=params),)),
            safety=REWRITE.safety,
        )


def _share(facts: Facts, weights: set[str]) -> float | None:
    """Return the fraction of the profiled run in nodes that read the weights; None if unknown."""
    if facts.profile is None or facts.model is None:
        return None
    model = facts.model.ir
    shares = share_of_run(readers(model, weights), model, facts.profile)
    return None if shares is None else shares[0]


def _reads(share: float | None) -> str:
    """Format the fraction of the run as evidence; "" if unknown."""
    return "" if share is None else f"nodes that read them take {percent(share)} of the run"
