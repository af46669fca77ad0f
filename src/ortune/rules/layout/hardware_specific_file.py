"""The file is already optimised for one kind of CPU.

What it is: a graph that ONNX Runtime saved after its layout optimisations. It contains operators of a blocked layout
    (com.microsoft.nchwc), whose block size matches the vector width of the CPU it was saved on.
Why it costs: on another CPU it does not run, or runs with the wrong block size; and it cannot be optimised again from
    scratch.
Evidence: operators of that domain.
Fix and its safety: advice: start from the exported model.
Example: a model saved with ``optimized_model_filepath`` at level all
References: ONNX Runtime documentation, "Graph optimizations", section on offline mode.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.graph.model.graphs import nodes
from ortune.records import Finding
from ortune.rules._words import name_of
from ortune.rules.facts import Facts

CODE = "LAY003"

_BOUND = frozenset({"com.microsoft.nchwc.Conv", "com.microsoft.nchwc.ReorderInput"})


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding if the file has nodes in the blocked layout, except for targets in browsers."""
    if facts.model is None or facts.provider.in_page:
        return  # the rule blocked-layout reports it as an error there
    blocked = [n for n in nodes(facts.model.ir) if f"{n.domain}.{n.op_type}" in _BOUND]
    if blocked:
        yield Finding(
            code=CODE,
            what="the file already has the NCHWc layout of the kind of CPU it was saved on",
            where=tuple(name_of(node) for node in blocked),
            fix="use the originally exported model",
        )
