"""Part of the run is spent moving or converting data.

What it is: Transpose, Cast, Reshape, Concat, Slice, Gather and similar operators, which compute nothing.
Why it costs: they are memory-bound, and what they move is often moved back soon after.
Evidence: their share of the operator time in a profile.
Fix and its safety: advice: use one layout and one type throughout, and enable the graph optimisations where they are
    off.
Example: a split and a concatenation around a small layer
References: ONNX Runtime documentation, "Graph optimizations".
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.graph.kinds import MOVES
from ortune.graph.model.graphs import op_set
from ortune.records import Finding
from ortune.rules._words import KINDS, percent
from ortune.rules.facts import Facts

CODE = "LAY001"

_SHARE = 0.1
# Operators that compute nothing: they move, copy or convert.
_MOVES = MOVES | op_set(
    "Cast Concat Expand Gather MemcpyFromHost MemcpyToHost Pad ReorderInput ReorderOutput Split Tile"
)


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding if a large fraction of the short profile is data movement."""
    profile = facts.trusted_operators()
    moving = [o for o in profile.operators if o.op_type in _MOVES] if profile else []
    share = sum(o.share_ratio for o in moving)
    if profile is not None and share >= _SHARE:
        shares = ", ".join(f"{o.op_type} {percent(o.share_ratio)}" for o in moving[:KINDS])
        yield Finding(
            code=CODE,
            what=f"{percent(share)} of operator time is data movement and conversion ({shares})",
            share_ratio=profile.share_of_run(sum(o.time_ns for o in moving)),
        )
