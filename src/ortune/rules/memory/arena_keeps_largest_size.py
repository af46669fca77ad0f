"""The arena keeps the memory of the largest inputs.

What it is: the CPU arena extends for the largest sizes that it has seen, and returns nothing to the system.
Why it costs: one large request determines the memory of a process for the rest of its life.
Evidence: a soak in which the memory that sizes add is not added without the arena, with an arena that grows as
    requested, or with one that shrinks after each run.
Fix and its safety: exact: the one of these settings that costs least latency.
Example: ``ortune soak model.onnx --dim batch=1,8,32``
References: ONNX Runtime documentation, "Memory consumption"; microsoft/onnxruntime#23339.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.records import Finding
from ortune.rules._soaked import first_cause, flattening_experiments
from ortune.rules.facts import Facts

CODE = "MEM005"


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding if changes to the arena flatten the memory rise of a soak."""
    yield from first_cause(
        CODE,
        "the arena keeps what the largest inputs needed",
        "",
        flattening_experiments(facts, "no-arena", "exact-arena", "arena-shrinkage"),
    )
