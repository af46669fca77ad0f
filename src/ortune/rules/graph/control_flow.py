"""The graph has control flow.

What it is: If, Loop, Scan and SequenceMap run graphs of their own.
Why it costs: ONNX Runtime optimises each body by itself and nothing across its edge; a loop runs its nodes one by one,
    as often as it goes round.
Evidence: the operators, by name.
Fix and its safety: advice: where a branch or a number of rounds is always the same, export the model with it fixed.
Example: the body of a decoder that is unrolled once at export
References: ONNX operator documentation, "If", "Loop" and "Scan".
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.model.graphs import nodes, op_set
from ortune.records import Finding
from ortune.rules._words import counted, name_of
from ortune.rules.facts import Facts

CODE = "GRA003"

_OPERATORS = op_set("If Loop Scan SequenceMap")


def find(facts: Facts) -> Iterator[Finding]:
    """Everywhere in the model, bodies and functions included."""
    walked = nodes(facts.model.ir) if facts.model else ()
    found = [node for node in walked if node.op_type in _OPERATORS and not node.domain]
    if found:
        yield Finding(
            code=CODE,
            severity="note",
            what=f"control flow, not optimised across: {counted(found)}",
            where=tuple(name_of(node) for node in found),
        )
