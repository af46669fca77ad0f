"""Compares the operators in the optimised graphs of two sides, which needs no timing."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import onnx_ir as ir

from ortune.engines.profiling.nodes import optimised
from ortune.graph.model.graphs import graphs
from ortune.measuring.sides import ResolvedSide
from ortune.records import OperatorCount


def differing_operators(
    a: ResolvedSide, b: ResolvedSide, custom_ops: tuple[str, ...], scratch: Path
) -> tuple[OperatorCount, ...]:
    """Return the operators whose number differs between the optimised graphs of two sides, the largest change first.

    Args:
        a: The first side.
        b: The second side.
        custom_ops: Libraries that both sides need.
        scratch: Folder for the graphs.

    Raises:
        OrtuneError: A graph cannot be made or read.
    """
    scratch.mkdir(exist_ok=True)
    of_a, of_b = (_count(optimised(side, custom_ops, scratch)) for side in (a, b))
    rows = [OperatorCount(name=name, a=of_a[name], b=of_b[name]) for name in {*of_a, *of_b}]
    differing = [row for row in rows if row.a != row.b]
    return tuple(sorted(differing, key=lambda row: (-abs(row.a - row.b), row.name)))


def _count(model: ir.Model) -> Counter[str]:
    """Return the number of nodes by operator, including bodies, without Constant nodes, since these are weights."""
    nodes = (node for graph in graphs(model) for node in graph)
    return Counter(
        f"{node.domain}:{node.op_type}" if node.domain else node.op_type
        for node in nodes
        if node.op_type != "Constant"
    )
