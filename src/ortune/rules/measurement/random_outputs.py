"""Outputs differ from run to run.

What it is: operators that draw random numbers.
Why it costs: little; but outputs of two configurations cannot be compared value by value.
Evidence: the operators, by name.
Fix and its safety: advice: none is needed.
Example: RandomNormalLike in a sampling model
References: ONNX operator documentation, "RandomNormal", on the attribute seed.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.graph import outputs
from ortune.records import Finding
from ortune.rules._words import counted_names
from ortune.rules.facts import Facts

CODE = "MSR002"


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding on operators that draw random numbers."""
    random_nodes = outputs.random_ops(facts.model.ir) if facts.model else []
    if random_nodes:
        yield Finding(
            code=CODE,
            severity="note",
            what=f"outputs differ from run to run: {counted_names(random_nodes)}",
            where=tuple(name for name, _ in random_nodes),
        )
