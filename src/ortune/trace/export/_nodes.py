"""What is known of the nodes of a trace."""

from __future__ import annotations

from ortune.records import ProfiledNode, ProfileResult
from ortune.trace.table import Trace


def nodes_of(trace: Trace, result: ProfileResult) -> list[ProfiledNode | None]:
    """Return the node of each text of ``Trace.name`` in the mean steady run; None for one that ran in none."""
    node_of = {(node.name, node.op_type, node.provider): node for node in result.nodes}
    return [node_of.get(key) for key in trace.node_keys]
