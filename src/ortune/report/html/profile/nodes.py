"""The dearest nodes with everything that is known of each."""

from __future__ import annotations

from ortune.records import ProfiledNode, ProfileResult
from ortune.report import profile_words as words
from ortune.report.html.profile import Given
from ortune.report.look_words import operations
from ortune.report.numbers import duration

ORDER = 50
TITLE = "Nodes"
NOTE = (
    "The user's own node first, and below it what the optimised graph calls it. Floor: the least time this machine "
    "needs for the node's work; x: how many times that it takes where nothing disturbs it; lost: the time beyond. "
    "Bound by overhead: starting the node is most of what it costs."
)
MOST = 200
FIRST = 20
"""Rows that are open at first; the others unfold."""


def content(given: Given) -> dict[str, object] | None:
    """At most ``MOST`` rows; columns that say nothing of this profile are left out."""
    result = given.result
    top = sorted(result.nodes, key=lambda n: -n.time_ns)[:MOST]
    if not top:
        return None
    columns = {
        "provider": len({n.provider for n in result.nodes}) > 1,
        "calls": any(n.calls != 1 for n in top),
        "wait": any(words.wait(n) for n in top),
        "rate": any(n.flops for n in top),
        "floor": any(n.floor_ns for n in top),
    }
    rows = [_row(node, result) for node in top]
    return {
        "columns": columns,
        "parts": [rows[:FIRST], rows[FIRST:]],
        "n_nodes": len(result.nodes),
        "rest": len(result.nodes) - len(top),
        "unmapped": result.unmapped,
    }


def _row(node: ProfiledNode, result: ProfileResult) -> dict[str, str]:
    lost = max(0.0, node.least_ns - node.floor_ns) if node.floor_ns else None
    whole = ", ".join(node.originals[1:])
    return {
        "name": words.name_of(node),
        "also": whole,
        "optimised": node.name if node.originals and node.name != node.originals[0] else "",
        "inside": node.inside,
        "purpose": node.purpose,
        "op_type": node.op_type,
        "provider": node.provider.removesuffix("ExecutionProvider"),
        "time": duration(node.time_ns),
        "share": words.share(node.time_ns, result),
        "calls": f"{node.calls:g}",
        "wait": words.wait(node),
        "rate": f"{operations(node.flops / node.least_ns * 1e9)}/s" if node.flops and node.least_ns else "",
        "floor": words.floor_ratio(node),
        "bound": node.bound,
        "lost": duration(lost) if lost is not None else "",
    }
