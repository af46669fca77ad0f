"""Latency may depend on the input values, which are synthetic.

What it is: operators whose work or output size depends on values: NonZero, NonMaxSuppression, Loop and similar.
Why it costs: no cost; but a time measured with synthetic inputs may not match that of real inputs.
Evidence: the operators, by name.
Fix and its safety: advice: pass real inputs.
Example: ``--inputs samples/``
References: ONNX operator documentation of these operators.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.graph import outputs
from ortune.records import Finding
from ortune.rules._words import counted_names
from ortune.rules.facts import Facts

CODE = "MSR001"


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding on operators with data-dependent cost if the inputs are synthetic."""
    dependent = outputs.value_dependent_ops(facts.model.ir) if facts.model else []
    if dependent and not (facts.work and facts.work.inputs_path):
        yield Finding(
            code=CODE,
            what=f"latency may depend on the input values, which are synthetic: {counted_names(dependent)}",
            where=tuple(name for name, _ in dependent),
            fix="pass real inputs with --inputs PATH",
        )
