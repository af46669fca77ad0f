"""Node data for model-explorer: the graph of the user's own model, coloured by time.

The file is the form for a single graph, without a graph's id: it is laid over whichever graph is open. Keys are names
of nodes, which are the ids of nodes in the adapter for ONNX; if a node of the optimised graph replaces several,
the one that bears its name has the time, else the first, so that sums over layers are right. The adapter (0.4) shows
the bodies of an ``If`` in the graph around it, and calls their nodes ``if1/then_branch/conv1``; bodies of ``Loop`` and
``Scan`` are graphs of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, BinaryIO

import msgspec

from ortune.records import ProfiledNode, ProfileResult
from ortune.trace.table import Trace

GRADIENT = (
    {"stop": 0, "bgColor": "#ffffff"},
    {"stop": 0.25, "bgColor": "#fbe3a6"},
    {"stop": 1, "bgColor": "#c0392b"},
)
"""From the least time to that of the dearest node."""
BRANCHES = ("then_branch", "else_branch")
DEEPEST = 6
"""Each ``If`` around a node doubles its keys, since a profile does not tell which branch ran."""
RESERVED = "results"
"""A file in which this key is in ``results`` is taken for one of several graphs."""


def write(trace: Trace, result: ProfileResult, file: BinaryIO) -> None:
    """Milliseconds of the mean steady run by node; the trace itself is not needed."""
    del trace
    named = {node.name: node for node in result.nodes}
    times: dict[str, float] = {}
    for node in result.nodes:
        for key in _keys(node, named):
            times[key] = times.get(key, 0.0) + node.time_ns
    times.pop(RESERVED, None)
    values: dict[str, dict[str, Any]] = {key: {"value": round(ns / 1e6, 6)} for key, ns in times.items()}
    if len({value["value"] for value in values.values()}) == 1:
        # Between a least and a greatest value that are the same no colour can be found.
        values = {key: {**value, "bgColor": GRADIENT[-1]["bgColor"]} for key, value in values.items()}
    document: dict[str, Any] = {"name": "ms a run", "results": values, "gradient": GRADIENT}
    file.write(msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n")


def owner(node: ProfiledNode) -> str:
    """Return the one node of the user's model that a node's time is shown at."""
    if not node.originals or node.name in node.originals:
        return node.name
    return node.originals[0]


def _keys(node: ProfiledNode, named: Mapping[str, ProfiledNode]) -> set[str]:
    """Return all ids that the node may have; those that no node has colour nothing."""
    plain = owner(node)
    unfolded = {plain}
    around = named.get(node.inside)
    for _ in range(DEEPEST):
        if around is None or around.op_type != "If":
            return {plain, *unfolded}
        unfolded = {f"{owner(around)}/{branch}/{key}" for branch in BRANCHES for key in unfolded}
        around = named.get(around.inside)
    return {plain}
