"""Prepacked weights add memory.

What it is: kernels keep copies of weights in an order that is faster to read.
Why it costs: the copies stay in memory next to the weights, in each session.
Evidence: a soak in which the memory that is added is not added without prepacking.
Fix and its safety: exact: switch prepacking off, which costs latency.
Example: ``ortune soak model.onnx --recreate 200``
References: ONNX Runtime documentation, "session.disable_prepacking".
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.records import Finding
from ortune.rules._soaked import first_cause, flattening_experiments
from ortune.rules.facts import Facts

CODE = "MEM010"


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding if disabling prepacking flattens the memory rise of a soak."""
    yield from first_cause(
        CODE, "copies of prepacked weights accumulate", "", flattening_experiments(facts, "no-prepacking")
    )
