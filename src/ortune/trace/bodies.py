"""Names for unnamed nodes: operator and number as in ONNX Runtime, with the enclosing node as prefix in subgraphs.

ONNX Runtime numbers the nodes of each graph from 0, so nodes of several subgraphs share numbers. The profile does not
record which branch of an If ran, so nodes with the same operator and number in both branches count as one node. Nodes
that occur in only one branch show which branch ran (``graph.mapping``).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ortune.trace.table import NO_PARENT, Codes, Numbers

NodeKey = tuple[str, str, str, int]
"""(name, operator, execution provider, number). Nodes may share a name, and a node may run on two providers."""

_DEEPEST = 16
"""Maximum nesting depth; deeper nesting, possible only in damaged files, is not distinguished."""
_LONGEST_PATH = 400


def node_label(key: NodeKey) -> str:
    """Return the name of a node, or operator and number of an unnamed node."""
    name, op_type, _, index = key
    return name or f"{op_type or 'node'}_{index}"


def distinguish_unnamed(
    keys: Sequence[NodeKey], codes: Codes, parent: Numbers
) -> tuple[Codes, list[tuple[str, NodeKey]]]:
    """Distinguish unnamed nodes of different subgraphs by their enclosing nodes.

    Args:
        keys: Key of each node, as in the events.
        codes: Node index of each row.
        parent: Row of the control-flow node around each row, or ``NO_PARENT``.

    Returns:
        The new node index of each row, and the (name, key) of each node, in the order of the nodes' first rows.
    """
    nodes = [(node_label(key), key) for key in keys]
    nameless = np.array([not key[0] for key in keys], dtype=np.bool_)
    mine = codes.astype(np.int64)
    # One nesting level per iteration, from the outside in, so enclosing nodes already have their names.
    around = parent == NO_PARENT
    for _ in range(_DEEPEST if nameless.any() else 0):
        inside = (parent != NO_PARENT) & around[parent]
        if not inside.any():
            break
        rows = np.flatnonzero(inside & nameless[codes])
        # Outer and inner node as one number, decoded by ``divmod``.
        pairs, number = np.unique(mine[parent[rows]] * len(keys) + codes[rows], return_inverse=True)
        mine[rows] = len(nodes) + number
        for outer, inner in (divmod(pair, len(keys)) for pair in pairs.tolist()):
            nodes.append((f"{nodes[outer][0][:_LONGEST_PATH]}/{node_label(keys[inner])}", keys[inner]))
        around = inside
    # Renumbered in the order of first rows: nodes that were split leave gaps.
    left, first, again = np.unique(mine, return_index=True, return_inverse=True)
    order = np.argsort(first)
    number = np.empty(len(left), dtype=np.int32)
    number[order] = np.arange(len(left), dtype=np.int32)
    return number[again], [nodes[code] for code in left[order].tolist()]
