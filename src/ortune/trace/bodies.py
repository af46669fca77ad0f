"""Nodes without a name: called by operator and number as ONNX Runtime does, in bodies behind the node around them.

ONNX Runtime numbers the nodes of each graph from 0, so nodes of several bodies share their numbers. The profile does
not say which branch of an If ran, so a node of each with one operator and one number stays one node. Which of the two
it was follows from the nodes that only one branch has (``analysis.mapping``).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ortune.trace.table import NO_PARENT, Codes, Numbers

NodeKey = tuple[str, str, str, int]
"""Name, operator, execution provider and number: graphs may name nodes alike, and one may run on two providers."""

_DEEPEST = 16
"""Bodies within bodies: no model has more, and what a damaged file says of more is one node."""
_LONGEST_PATH = 400


def called(key: NodeKey) -> str:
    """Return the name of a node; one without is called by its operator and number."""
    name, op_type, _, index = key
    return name or f"{op_type or 'node'}_{index}"


def apart(keys: Sequence[NodeKey], codes: Codes, parent: Numbers) -> tuple[Codes, list[tuple[str, NodeKey]]]:
    """Distinguish the nodes without a name of several bodies by the node around them.

    Args:
        keys: Of each node, as the events have it.
        codes: The node of each row.
        parent: The row of the control-flow node around each row.

    Returns:
        The node of each row, and each node's name and key, in order of their first rows.
    """
    nodes = [(called(key), key) for key in keys]
    nameless = np.array([not key[0] for key in keys], dtype=np.bool_)
    mine = codes.astype(np.int64)
    # One level of bodies a round: first those right in the main graph, then those in these, whose outer nodes
    # have their own names by then.
    around = parent == NO_PARENT
    for _ in range(_DEEPEST if nameless.any() else 0):
        inside = (parent != NO_PARENT) & around[parent]
        if not inside.any():
            break
        rows = np.flatnonzero(inside & nameless[codes])
        # Outer and inner node as one number, which ``divmod`` takes apart again.
        pairs, number = np.unique(mine[parent[rows]] * len(keys) + codes[rows], return_inverse=True)
        mine[rows] = len(nodes) + number
        for outer, inner in (divmod(pair, len(keys)) for pair in pairs.tolist()):
            nodes.append((f"{nodes[outer][0][:_LONGEST_PATH]}/{called(keys[inner])}", keys[inner]))
        around = inside
    # Numbered anew, in the order of the first rows: nodes that were split leave gaps.
    left, first, again = np.unique(mine, return_index=True, return_inverse=True)
    order = np.argsort(first)
    number = np.empty(len(left), dtype=np.int32)
    number[order] = np.arange(len(left), dtype=np.int32)
    return number[again], [nodes[code] for code in left[order].tolist()]
