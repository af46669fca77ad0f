"""A node computes more than its outputs need, or its work is only estimated.

What it is: remarks on a node's operation count: channels padded to whole blocks, attention scores that are computed and
    masked out, or an operation count that depends on values (TopK, tree ensembles).
Why it costs: padding takes time that no output needs. Where the operation count is an estimate, so is everything
    derived from it.
Evidence: the shapes in the optimised graph.
Fix and its safety: advice: where channels are padded, use a multiple of 16.
Example: a convolution with 17 output channels, which computes 32
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
    """Yield findings on the slowest profiled nodes that have a remark."""
    for node in [n for n in facts.nodes(_WORTH_NAMING) if n.remark][:NAMED]:
        share = node.time_ns / facts.profile.wall_ns if facts.profile else 0.0
        yield Finding(
            code=CODE,
            severity="note",
            what=f"{called(node)}, {percent(share)} of the run: {node.remark}",
            where=place([node]),
            share_ratio=share,
        )
