"""Node data for model-explorer: the original graph, coloured by time.

The file has the form for a single graph without an id, which applies to the open graph. Keys are node names, which are
the ids in the ONNX adapter. If a node of the optimized graph replaces several nodes, its time is shown at the node of
the same name, or else at the first, so sums over layers are correct. The adapter (0.4) shows subgraphs of ``If`` in the
enclosing graph, with nodes named ``if1/then_branch/conv1``; subgraphs of ``Loop`` and ``Scan`` are separate graphs.
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
"""Colours from zero to the time of the most expensive node."""
BRANCHES = ("then_branch", "else_branch")
DEEPEST = 6
"""Maximum nesting of ``If`` nodes; each doubles the keys of a node, since a profile does not record the branch."""
RESERVED = "results"
"""Reserved key: a file with this key in ``results`` would be read as a file for several graphs."""


def write(trace: Trace, result: ProfileResult, file: BinaryIO) -> None:
    """Write milliseconds of the mean steady run by node; the trace itself is not needed."""
    del trace
    named = {node.name: node for node in result.nodes}
    times: dict[str, float] = {}
    for node in result.nodes:
        for key in _keys(node, named):
            times[key] = times.get(key, 0.0) + node.time_ns
    times.pop(RESERVED, None)
    values: dict[str, dict[str, Any]] = {key: {"value": round(ns / 1e6, 6)} for key, ns in times.items()}
    if len({value["value"] for value in values.values()}) == 1:
        # With equal minimum and maximum, no colour can be interpolated.
        values = {key: {**value, "bgColor": GRADIENT[-1]["bgColor"]} for key, value in values.items()}
    document: dict[str, Any] = {"name": "ms a run", "results": values, "gradient": GRADIENT}
    file.write(msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n")


def owner(node: ProfiledNode) -> str:
    """Return the original node at which a node's time is shown."""
    if not node.originals or node.name in node.originals:
        return node.name
    return node.originals[0]


def _keys(node: ProfiledNode, named: Mapping[str, ProfiledNode]) -> set[str]:
    """Return all ids that the node may have in the adapter; unused ids have no effect."""
    plain = owner(node)
    unfolded = {plain}
    around = named.get(node.inside)
    for _ in range(DEEPEST):
        if around is None or around.op_type != "If":
            return {plain, *unfolded}
        unfolded = {f"{owner(around)}/{branch}/{key}" for branch in BRANCHES for key in unfolded}
        around = named.get(around.inside)
    return {plain}
