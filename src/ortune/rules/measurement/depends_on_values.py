"""Work may depend on the values fed, which were invented.

What it is: operators whose work or whose output's size follows values: NonZero, NonMaxSuppression, Loop and the like.
Why it costs: nothing; but a time that was measured with invented values may not be that of real ones.
Evidence: the operators, by name.
Fix and its safety: advice: feed real data.
Example: ``--inputs samples/``
References: ONNX operator documentation, the operators that are named.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.analysis import outputs
from ortune.records import Finding
from ortune.rules._words import counted_names
from ortune.rules.facts import Facts

CODE = "MSR001"


def find(facts: Facts) -> Iterator[Finding]:
    """Where values were invented."""
    found = outputs.value_dependent_ops(facts.model.ir) if facts.model else []
    if found and not (facts.work and facts.work.inputs_path):
        yield Finding(
            code=CODE,
            what=f"may depend on the values fed, which were invented: {counted_names(found)}",
            where=tuple(name for name, _ in found),
            fix="--inputs PATH",
        )
