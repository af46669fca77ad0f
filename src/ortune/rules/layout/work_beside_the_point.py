"""A node does work that the model does not ask for, or whose size is only estimated.

What it is: what is said of the count of a node's operations: channels that are padded to whole blocks, a mask that is
    computed and thrown away, a heap whose comparisons depend on values.
Why it costs: padding takes time that no result needs. Where the count is an estimate, so is what is said of it.
Evidence: shapes of the optimised graph.
Fix and its safety: advice: where channels are padded, a number of them that fills blocks (a multiple of 16).
Example: a convolution of 17 channels, which runs as one of 32
References: ONNX Runtime documentation, "Graph optimizations", section on the NCHWc layout.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.records import Finding
from ortune.rules._words import NAMED, called, percent, place
from ortune.rules.facts import Facts

CODE = "LAY004"

_WORTH_NAMING = 0.05


def find(facts: Facts) -> Iterator[Finding]:
    """In a profiled run."""
    for node in [n for n in facts.nodes(_WORTH_NAMING) if n.remark][:NAMED]:
        share = node.time_ns / facts.profile.wall_ns if facts.profile else 0.0
        yield Finding(
            code=CODE,
            severity="note",
            what=f"{called(node)}, {percent(share)} of the run: {node.remark}",
            where=place([node]),
            share_ratio=share,
        )
