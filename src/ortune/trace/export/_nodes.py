"""Lookup of a trace's nodes in a profile result."""

from __future__ import annotations

from ortune.records import ProfiledNode, ProfileResult
from ortune.trace.table import Trace


def nodes_of(trace: Trace, result: ProfileResult) -> list[ProfiledNode | None]:
    """Return the result's node for each text of ``Trace.name``; None for a node that is not in the mean steady run."""
    node_of = {(node.name, node.op_type, node.provider): node for node in result.nodes}
    return [node_of.get(key) for key in trace.node_keys]
