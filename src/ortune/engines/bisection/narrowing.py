"""Reduces the nodes at a place of divergence, and selects the node to report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx_ir as ir

from ortune.engines.bisection.matching import CARRIERS, paired_before
from ortune.engines.bisection.observing import ObservedGraph, described
from ortune.engines.bisection.value_pairs import NEAR
from ortune.engines.bisection.value_statistics import ValueStatistics, relative_l2
from ortune.records import GraphNode, ValuePair

GROWTH = 8.0
"""Largest ratio of a result's difference to its inputs' difference at which the difference began upstream and grew."""
_PRODUCTS = ("Attention", "Conv", "Einsum", "GRU", "Gemm", "LSTM", "MatMul", "RNN")


def narrowed(
    ours: list[ir.Node],
    others: list[ir.Node],
    pair: ValuePair,
    inputs: Sequence[ValuePair],
    seen_a: Mapping[str, ValueStatistics],
    seen_b: Mapping[str, ValueStatistics],
    apart: float,
) -> tuple[list[ir.Node], list[ir.Node]]:
    """Return the nodes of each side that can cause the difference.

    If a node still computes, or already lacks, a value of the other side, the nodes on one side of it are excluded.

    Args:
        ours: Nodes of A between paired values.
        others: Nodes of B between these values.
        pair: The pair of values that the nodes compute.
        inputs: The pairs of values that the nodes read.
        seen_a: Statistics of A's values, by name.
        seen_b: Statistics of B's values, by name.
        apart: Relative L2 distance of the values of ``pair``.
    """
    # If B still computes A's value, the nodes between that value and B's result are the whole difference; and the
    # reverse for A.
    behind = _behind(others, seen_b, seen_a[pair.a], pair.limit)
    behind = behind or _first_inexact(others, seen_b, [(seen_a[p.a], p.limit) for p in inputs], apart)
    if behind:
        return [], behind
    behind = _behind(ours, seen_a, seen_b[pair.b], pair.limit)
    behind = behind or _first_inexact(ours, seen_a, [(seen_b[p.b], p.limit) for p in inputs], apart)
    return (behind, []) if behind else (ours, others)


def _behind(
    nodes: list[ir.Node], values: Mapping[str, ValueStatistics], wanted: ValueStatistics, limit: float
) -> list[ir.Node]:
    """Return the nodes that follow the node with this result; [] if no node has it."""
    # The last node computes the result itself.
    for node in nodes[:-1]:
        if any(distance <= limit for distance in _distances(node, values, wanted)):
            into = {node, *paired_before(node.inputs, set())[1]}
            return [other for other in nodes if other not in into]
    return []


def _first_inexact(
    nodes: list[ir.Node],
    values: Mapping[str, ValueStatistics],
    inputs: Sequence[tuple[ValueStatistics, float]],
    apart: float,
) -> list[ir.Node]:
    """Return a list with the first node that reproduces an input with an error, such as a conversion; [] if none does.

    The error must be large enough to explain the distance of the result.
    """
    for node in nodes[:-1]:
        for wanted, limit in inputs:
            for distance in _distances(node, values, wanted):
                if limit < distance <= NEAR and apart <= GROWTH * distance:
                    return [node]
    return []


def _distances(node: ir.Node, values: Mapping[str, ValueStatistics], wanted: ValueStatistics) -> list[float]:
    results = (values.get(str(value.name)) for value in node.outputs)
    return [relative_l2(wanted, data) for data in results if data is not None and data.shape == wanted.shape]


def node_of(
    ours: Sequence[ir.Node], others: Sequence[ir.Node], a: ObservedGraph, b: ObservedGraph
) -> GraphNode:
    """Return the node to report: the highest-ranked node of A, or of B if A has no nodes there."""
    if not ours:
        return described(max(others, key=work_of), b)
    behind = b.names.get(max(others, key=work_of).name or "", ()) if others else ()
    own = {node.name: node for node in ours}
    own_node = next((own[name] for name in behind[:1] if name in own), None)
    return described(own_node or max(ours, key=work_of), a)


def work_of(node: ir.Node) -> int:
    """Rank a node by the work of its operator: 2 for MatMul, Conv and similar, 0 for type conversions, else 1."""
    if node.op_type in CARRIERS:
        return 0
    return 2 if any(kind in node.op_type for kind in _PRODUCTS) else 1
