"""Nodes make what nobody reads.

What it is: nodes, and whole chains of them, whose outputs neither another node nor the caller reads.
Why it costs: ONNX Runtime keeps them in its optimised graph and runs them at every call; only such constants cost
    nothing.
Evidence: the uses of each node's outputs, followed backwards.
Fix and its safety: advice: take the nodes out, or export only the outputs that are wanted.
Example: a branch for training that an export left in
References: ONNX IR specification, "Graphs".
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from ortune.model.graphs import graphs, subgraphs
from ortune.records import Finding
from ortune.rules._words import counted, name_of
from ortune.rules.facts import Facts

CODE = "GRA007"

BAD = """
<ir_version: 8, opset_import: ["" : 17]>
left (float[1,4,8,8] x, float[4,4,3,3] w) => (float[1,4,8,8] y)
{
    [bad_product] p = Conv (x, w)
    [bad_wave] q = Sin (p)
    y = Relu (x)
}
"""
GOOD = """
<ir_version: 8, opset_import: ["" : 17]>
used (float[1,4,8,8] x, float[4,4,3,3] w) => (float[1,4,8,8] y, float[1,4,6,6] q)
{
    p = Conv (x, w)
    q = Sin (p)
    y = Relu (x)
}
"""


def find(facts: Facts) -> Iterator[Finding]:
    """In every graph."""
    if facts.model is None:
        return
    found = [node for graph in graphs(facts.model.ir) for node in _dead(graph)]
    if found:
        yield Finding(
            code=CODE,
            what=f"run for nobody: {counted(found)}",
            where=tuple(map(name_of, found)),
            fix="take them out of the model",
        )


def _dead(graph: ir.Graph | ir.Function) -> list[ir.Node]:
    """Nodes that no output of the graph needs, in the order of the graph; constants are not run anyway."""
    read: set[ir.Value] = set(graph.outputs)
    dead = []
    for node in reversed(list(graph)):
        if not read.isdisjoint(node.outputs) or _read_inside(node):
            read.update(value for value in node.inputs if value is not None)
            for inner in subgraphs(node):
                read.update(v for n in inner.all_nodes() for v in n.inputs if v is not None)
                read.update(inner.outputs)
        elif node.op_type != "Constant":
            dead.append(node)
    return dead[::-1]


def _read_inside(node: ir.Node) -> bool:
    """Whether a graph in another node reads it: those are not told from the dead, and left alone."""
    return any(use.node.graph is not node.graph for value in node.outputs for use in value.uses())
