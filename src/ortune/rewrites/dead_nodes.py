"""Removes nodes and weights that nothing reads.

What it is: nodes, and whole chains of them, whose outputs are read neither by another node nor by the caller;
    initializers that no node reads. Operators of unknown domains stay, because they may have side effects.
Why it costs: ONNX Runtime keeps such nodes in its optimised graph and runs them every time. Unused weights make the
    file larger and loading slower.
Evidence: the readers of each output, followed backwards.
Fix and its safety: exact: nothing that is read changes.
Example: ``--rewrite dead-nodes``
References: ONNX IR specification, "Graphs".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx_ir as ir

from ortune.graph.model.graphs import graphs, subgraphs
from ortune.printable import amount, amounts
from ortune.records import Workload
from ortune.rewrites._base import CLEAN_UP, Proposed, Rewrite, RewriteResult, unchanged
from ortune.rewrites._editor import release

_WITHOUT_EFFECTS = frozenset({"", "ai.onnx", "ai.onnx.ml", "com.microsoft"})


def dead_nodes(graph: ir.Graph | ir.Function) -> list[ir.Node]:
    """Return the nodes on which no graph output depends, in graph order; Constant nodes are included.

    Nodes read only by the subgraph of a dead node are not included until that node is removed; call again then.
    """
    read: set[ir.Value] = set(graph.outputs)
    dead = []
    for node in reversed(list(graph)):
        if not read.isdisjoint(node.outputs) or _read_inside(node):
            read.update(value for value in node.inputs if value is not None)
            for inner in subgraphs(node):
                read.update(v for n in inner.all_nodes() for v in n.inputs if v is not None)
                read.update(inner.outputs)
        else:
            dead.append(node)
    return dead[::-1]


def _read_inside(node: ir.Node) -> bool:
    """Return whether a subgraph of another node reads an output of the node."""
    return any(use.node.graph is not node.graph for value in node.outputs for use in value.uses())


def remove(model: ir.Model) -> tuple[int, int, list[str]]:
    """Remove dead nodes and weights; return (removed nodes, removed weights, reasons that other dead nodes stay)."""
    removed = [0, 0]
    reasons: dict[str, None] = {}
    local = {domain for domain, *_ in model.functions}
    before = -1
    # Nodes read only by subgraphs of a dead node are dead in the next pass.
    while before != sum(removed):
        before = sum(removed)
        for graph in list(graphs(model)):
            kept: set[ir.Value] = set()
            for node in reversed(dead_nodes(graph)):
                if node.domain in _WITHOUT_EFFECTS | local and kept.isdisjoint(node.outputs):
                    release(node)
                    graph.remove(node, safe=True)
                    # Constants count as weights.
                    removed[node.op_type == "Constant"] += 1
                    continue
                kept.update(v for v in node.inputs if v is not None)
                reasons[
                    f"{node.op_type} {node.name!r} of the domain {node.domain!r} may have side effects"
                ] = None
    for graph in graphs(model, functions=False):
        if not isinstance(graph, ir.Graph):
            continue
        for name, value in list(graph.initializers.items()):
            if not (value.uses() or value.is_graph_output() or value.is_graph_input()):
                del graph.initializers[name]
                removed[1] += 1
    return removed[0], removed[1], list(reasons)


def _change(model: ir.Model, params: Mapping[str, str]) -> RewriteResult:
    nodes, weights, reasons = remove(model)
    if not nodes and not weights:
        return unchanged(*(reasons or ("all nodes and weights are used",)))
    what = f"Removed {amounts((nodes, 'node'), (weights, 'weight'))} that nothing reads."
    return RewriteResult(modified=True, what=what, reasons=tuple(reasons))


def _proposes(model: ir.Model, workload: Workload | None) -> Sequence[Proposed]:
    if not any(map(dead_nodes, graphs(model))):
        return []
    nodes, _, _ = remove(model.clone())
    # ONNX Runtime itself removes unused weights.
    return [({}, f"nothing reads the outputs of {amount(nodes, 'node')}")] if nodes else []


REWRITE = Rewrite(
    name="dead-nodes",
    summary="removes nodes and weights that nothing reads",
    safety="exact",
    stage=CLEAN_UP,
    change=_change,
    proposes=_proposes,
)
