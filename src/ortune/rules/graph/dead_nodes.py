"""Nodes compute values that nothing reads.

What it is: nodes, and whole chains of them, whose outputs are read neither by another node nor by the caller.
Why it costs: ONNX Runtime keeps them in its optimised graph and runs them every time. Only unused constants are free.
Evidence: the readers of each output, followed backwards.
Fix and its safety: exact: the rewrite ``dead-nodes`` removes them.
Example: ``--rewrite dead-nodes``
References: ONNX IR specification, "Graphs".
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.graph.model.graphs import graphs
from ortune.records import Finding
from ortune.rewrites.dead_nodes import REWRITE, dead_nodes
from ortune.rules._fixes import fixed_by
from ortune.rules._words import name_of, subject
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
    """Yield a finding on nodes whose outputs are not read."""
    if facts.model is None:
        return
    dead = [node for graph in graphs(facts.model.ir) for node in dead_nodes(graph)]
    # Constants cost nothing at run time.
    running = [node for node in dead if node.op_type != "Constant"]
    if running:
        finding = Finding(
            code=CODE,
            what=f"{subject(running, 'computes', 'compute')} values that nothing reads",
            where=tuple(map(name_of, running)),
            fix="remove these nodes from the model",
        )
        yield fixed_by(REWRITE, finding, facts)
