"""Tensors leave the blocked layout (NCHWc) and enter it again.

What it is: four or more ReorderInput and ReorderOutput nodes, because operators between the convolutions have no
    kernel in the blocked layout.
Why it costs: each conversion reads and writes the whole tensor.
Evidence: these nodes in the profile, their share of the run, and the operators that force the conversions.
Fix and its safety: advice: apply the rewrites for activations and scales where they match; they keep tensors in the
    blocked layout. Otherwise replace the operators in between, or compare with level extended, which does not use this
    layout.
Example: ``--rewrite hard-swish``
References: ONNX Runtime documentation, "Graph optimizations" (layout optimizations); microsoft/onnxruntime#20218.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ortune.records import Finding, ProfiledNode
from ortune.rules._words import KINDS, listed, percent
from ortune.rules.facts import Facts

CODE = "LAY007"

_INTO, _OUT = "ReorderInput", "ReorderOutput"
_LEAST = 4
_SHARE = 0.05


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding if conversions to and from the blocked layout take a large fraction of the profiled run."""
    run = facts.nodes()
    moves = [node for node in run if node.op_type in (_INTO, _OUT)]
    share = sum(node.time_ns for node in moves) / facts.profile.wall_ns if facts.profile and moves else 0.0
    entered, left = (sum(node.op_type == kind for node in moves) for kind in (_INTO, _OUT))
    if len(moves) >= _LEAST and entered > 1 and share >= _SHARE:
        between = _between(run, moves)
        yield Finding(
            code=CODE,
            what=f"{entered} conversions into the blocked layout (NCHWc) and {left} out of it "
            f"take {percent(share)} of the run",
            where=tuple(node.name for node in moves),
            evidence=f"operators in between: {listed((f'{n} {op}' for op, n in between.most_common()), KINDS)}"
            if between
            else "",
            fix="compare with the level that has no blocked layout: "
            "ortune compare model.onnx --b-set graph_optimization_level=extended",
            share_ratio=share,
        )


def _between(run: list[ProfiledNode], moves: list[ProfiledNode]) -> Counter[str]:
    """Return the number of nodes per operator that read a tensor converted out of the blocked layout."""
    out = {node.name for node in moves if node.op_type == _OUT}
    return Counter(node.op_type for node in run if out.intersection(node.reads))
