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
    "The user's own node; where the optimised graph calls it otherwise, resting on the name tells. Bound: the least "
    "time this machine needs for the node's work; x: how many times that it takes where nothing disturbs it; lost: the "
    "time beyond. Bound by overhead: starting the node is most of what it costs. A column's head sorts."
)
MOST = 200
FIRST = 10
"""Rows that are shown at first."""
Cells = list[tuple[str, float | None]]
"""Texts, each with what it is sorted by where that is a number."""


def content(given: Given) -> dict[str, object] | None:
    """At most ``MOST`` rows; columns that say nothing of this profile are left out."""
    result = given.result
    top = sorted(result.nodes, key=lambda n: -n.time_ns)[:MOST]
    if not top:
        return None
    columns = [
        ("provider", len({n.provider for n in result.nodes}) > 1),
        ("calls", any(n.calls != 1 for n in top)),
        ("wait", any(words.wait(n) for n in top)),
        ("rate", any(n.flops for n in top)),
        *((name, any(n.floor_ns for n in top)) for name in ("x", "bound", "lost")),
    ]
    shown = [name for name, there in columns if there]
    rows = []
    for node in top:
        cells = _cells(node, result)
        name, about = words.name_of(node), _about(node)
        rows.append(
            {
                "name": name,
                "about": about,
                "op_type": node.op_type,
                "cells": [cells[c] for c in FIXED + shown],
            }
        )
    return {
        "heads": FIXED + shown,
        "texts": TEXTS,
        "wide": WIDE,
        "rows": rows,
        "first": FIRST,
        "n_nodes": len(result.nodes),
        "rest": len(result.nodes) - len(top),
        "unmapped": result.unmapped,
    }


FIXED = ["time", "share"]
TEXTS = ("provider", "bound")
WIDE = ("provider", "calls", "wait", "rate", "lost")
"""Columns that a phone has no room for."""


def _about(node: ProfiledNode) -> str:
    """All that is known of its names."""
    parts = [f"with {', '.join(node.originals[1:])}"] if node.originals[1:] else []
    if node.originals and node.name != node.originals[0]:
        parts.append(f"as {node.name}")
    parts += [f"inserted: {node.purpose}"] if node.purpose else []
    parts += [f"in {node.inside}"] if node.inside else []
    return "; ".join(parts)


def _cells(node: ProfiledNode, result: ProfileResult) -> dict[str, tuple[str, float | None]]:
    """Each column's text, and what it is sorted by."""
    lost = max(0.0, node.least_ns - node.floor_ns) if node.floor_ns else None
    rate = node.flops / node.least_ns * 1e9 if node.flops and node.least_ns else None
    return {
        "time": (duration(node.time_ns), node.time_ns),
        "share": (words.share(node.time_ns, result), node.time_ns),
        "provider": (node.provider.removesuffix("ExecutionProvider"), None),
        "calls": (f"{node.calls:g}", node.calls),
        "wait": (words.wait(node), node.wait_ns / node.time_ns if node.time_ns else 0.0),
        "rate": (f"{operations(rate)}/s" if rate else "", rate or 0.0),
        "x": (words.floor_ratio(node), node.least_ns / node.floor_ns if node.floor_ns else 0.0),
        "bound": (node.bound, None),
        "lost": (duration(lost) if lost is not None else "", lost or 0.0),
    }
