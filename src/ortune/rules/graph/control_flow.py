"""The graph contains control flow.

What it is: If, Loop, Scan and SequenceMap, which run subgraphs.
Why it costs: ONNX Runtime optimises each body separately and never across its boundary. A loop runs its nodes one by
    one in every iteration. An If whose condition is constant is replaced by its branch at session creation and not
    reported.
Evidence: the operators and their names.
Fix and its safety: advice: where a branch or an iteration count never changes, export the model with it fixed.
Example: a decoder body that is unrolled once at export
References: ONNX operator documentation, "If", "Loop" and "Scan".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import onnx_ir as ir

from ortune.catalogue.named import GRAPH_OPTIMIZATION_LEVEL
from ortune.graph.model.graphs import op_set, scopes, subgraphs
from ortune.graph.nodes import holds, is_op
from ortune.records import Finding
from ortune.rewrites.constant_folding import constant_branches
from ortune.rules._words import counted, name_of
from ortune.rules.facts import Facts

CODE = "GRA003"

_OPERATORS = op_set("If Loop Scan SequenceMap")


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding on control-flow nodes in all graphs, except Ifs with a known branch."""
    if facts.model is None:
        return
    if not holds(facts.model.ir, *_OPERATORS):
        return
    optimises = facts.plan.settings.get(GRAPH_OPTIMIZATION_LEVEL.name) != "disable"
    branches = constant_branches(facts.model.ir) if optimises and holds(facts.model.ir, "If") else {}
    matches = [node for scope in scopes(facts.model.ir) for node in _remaining_nodes(scope, branches)]
    if matches:
        yield Finding(
            code=CODE,
            severity="note",
            what=f"ONNX Runtime does not optimise across control flow: {counted(matches)}",
            where=tuple(name_of(node) for node in matches),
        )


def _remaining_nodes(
    graph: ir.Graph | ir.Function, branches: Mapping[ir.Node, ir.Graph]
) -> Iterator[ir.Node]:
    """Yield the control-flow nodes of a graph and its subgraphs; of an If in `branches`, only the branch counts."""
    for node in graph:
        if node in branches:
            yield from _remaining_nodes(branches[node], branches)
            continue
        if is_op(node, *_OPERATORS):
            yield node
        for body in subgraphs(node):
            yield from _remaining_nodes(body, branches)
