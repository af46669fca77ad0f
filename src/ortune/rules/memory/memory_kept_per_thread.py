"""Each thread keeps memory.

What it is: threads of the pool keep buffers of their own, which grow to the largest work they have had.
Why it costs: the memory is multiplied by the number of threads, and stays.
Evidence: a soak in which the memory that is added is not added with one thread.
Fix and its safety: exact: fewer threads, which costs latency.
Example: ``ortune soak model.onnx``
References: microsoft/onnxruntime#29538.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.records import Finding
from ortune.rules._soaked import first_cause, flattening_experiments
from ortune.rules.facts import Facts

CODE = "MEM008"


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding if running with one thread flattens the memory rise of a soak."""
    yield from first_cause(
        CODE, "each thread keeps memory of its own", "", flattening_experiments(facts, "one-thread")
    )
