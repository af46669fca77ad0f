"""The C library keeps free memory.

What it is: memory that was freed stays in the process, because pieces in use lie between the free ones.
Why it costs: the system and other processes cannot use it, and a limit counts it.
Evidence: a soak in which memory that is added is not added with another allocator, or if ``malloc_trim`` is called.
Fix and its safety: exact: preload the allocator. Without one, call ``malloc_trim(0)`` now and then, or set
    ``MALLOC_ARENA_MAX=2``.
Example: ``ortune soak model.onnx``
References: GNU C library manual, "malloc_trim"; microsoft/onnxruntime#22271.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.records import Finding
from ortune.rules._soaked import first_cause, flattening_experiments
from ortune.rules.facts import Facts

CODE = "MEM007"


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding if another allocator or malloc_trim flattens the memory rise of a soak."""
    yield from first_cause(
        CODE,
        "free memory stays in the process",
        "call malloc_trim(0) now and then, or set MALLOC_ARENA_MAX=2",
        flattening_experiments(facts, "allocator", "trim"),
    )
