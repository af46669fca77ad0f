"""Memory patterns of many shapes are kept.

What it is: for each combination of input shapes, ONNX Runtime keeps a plan of the memory of a run.
Why it costs: with many different shapes these plans, and the blocks that they need, add up.
Evidence: a soak in which the memory that is added is not added without memory patterns.
Fix and its safety: exact: switch memory patterns off.
Example: ``ortune soak model.onnx --dim seq=16,32,48,64``
References: microsoft/onnxruntime#11118.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.records import Finding
from ortune.rules._soaked import first_cause, flattening_experiments
from ortune.rules.facts import Facts

CODE = "MEM006"


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding if disabling the memory pattern flattens the memory rise of a soak."""
    yield from first_cause(
        CODE,
        "a memory plan is kept for each combination of input shapes",
        "",
        flattening_experiments(facts, "no-pattern"),
    )
