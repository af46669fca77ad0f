"""One node takes a large part of the run.

What it is: a single node with a large share of the time. This is not a fault, but shows where to look first.
Why it costs: making this node faster helps more than any other change.
Evidence: the node's share in a profile. The share is ignored where profiling slows the run down too much.
Fix and its safety: advice: run ``ortune profile``, which shows what limits the node.
Example: ``ortune profile model.onnx``
References: ONNX Runtime documentation, "Profiling tools".
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.records import Finding, fused_with
from ortune.rules._words import percent, short
from ortune.rules.facts import Facts

CODE = "GRA001"

_SHARE = 0.3


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding if one node takes a large fraction of the run, in the short or the full profile."""
    looked = facts.trusted_operators()
    top = looked.nodes[0] if looked is not None and len(looked.nodes) > 1 else None
    share = looked.share_of_run(top.time_ns) if looked is not None and top is not None else 0.0
    if top is not None and share >= _SHARE:
        purpose = f", inserted: {top.purpose}" if top.purpose else ""
        yield _found(share, top.originals or (top.name,), f"{top.op_type}{purpose}")
    nodes, run = facts.nodes(_SHARE), facts.profile
    if nodes and run is not None:
        yield _found(nodes[0].time_ns / run.wall_ns, nodes[0].originals or (nodes[0].name,), nodes[0].op_type)


def _found(share: float, names: tuple[str, ...], what: str) -> Finding:
    label = f"{short(names[0])} {fused_with(names)}".rstrip() + f" ({what})" if names[0] else what
    return Finding(
        code=CODE,
        severity="note",
        what=f"one node takes {percent(share)} of the run: {label}",
        where=names,
        share_ratio=share,
    )
