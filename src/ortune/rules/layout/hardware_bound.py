"""The file is optimised for one kind of CPU already.

What it is: a graph that ONNX Runtime has saved after its layout optimisations holds operators of a blocked layout
    (com.microsoft.nchwc), whose blocks are as wide as the vectors of the processor that it was saved on.
Why it costs: on another processor it does not run, or runs with blocks of the wrong width; and it cannot be optimised
    from its start again.
Evidence: operators of that domain.
Fix and its safety: advice: start from the model as it was exported.
Example: a model saved with ``optimized_model_filepath`` at the level "all"
References: ONNX Runtime documentation, "Graph optimizations", section on offline mode.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.model.graphs import nodes
from ortune.records import Finding
from ortune.rules._words import name_of
from ortune.rules.facts import Facts

CODE = "LAY003"

_BOUND = frozenset({"com.microsoft.nchwc.Conv", "com.microsoft.nchwc.ReorderInput"})


def find(facts: Facts) -> Iterator[Finding]:
    """From the file alone."""
    if facts.model is None or facts.provider.in_page:
        return  # there it is worse: blocked-layout
    found = [n for n in nodes(facts.model.ir) if f"{n.domain}.{n.op_type}" in _BOUND]
    if found:
        yield Finding(
            code=CODE,
            what="the file is already optimised for the kind of CPU that it was made on (nchwc layout)",
            where=tuple(name_of(node) for node in found),
            fix="start from the original model",
        )
