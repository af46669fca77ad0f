"""Memory grows only with new input values.

What it is: something keeps memory for each input that it has not seen before: a cache whose key is made of the values.
Why it costs: a service whose inputs never repeat keeps memory for each call, until it is killed.
Evidence: a soak in which memory rises with new values in each call, and not with the same values, or not without the
    kernels of KleidiAI on ARM.
Fix and its safety: advice: find the release in which it began, and use another one; bound or remove the cache of a
    custom operator.
Example: ``ortune history model.onnx --objective memory-growth``
References: microsoft/onnxruntime#6397.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.records import Finding
from ortune.rules._soaked import first_cause, flattening_experiments
from ortune.rules.facts import Facts

CODE = "MEM004"


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding if repeating inputs, or disabling KleidiAI, flattens the memory rise of a soak."""
    yield from first_cause(
        CODE,
        "memory is kept for each input that was not seen before",
        "find the release in which it began: ortune history model.onnx --objective memory-growth",
        flattening_experiments(facts, "no-kleidiai") or flattening_experiments(facts, "same-values"),
    )
