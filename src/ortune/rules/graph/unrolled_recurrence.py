"""A recurrence is unrolled into separate nodes for each step.

What it is: eight or more steps of an LSTM, GRU or RNN in a row, each with its own nodes: a loop over time that the
    exporter traced. Other chains of MatMul with shared weights are reported from 32 steps.
Why it costs: every node adds to the load time, and each step runs several small nodes where one LSTM or GRU would run
    all steps.
Evidence: a chain of MatMul with the same weights, and what the nodes in between compute.
Fix and its safety: exact: the rewrite ``unrolled-recurrence``. Advice for other recurrences: export the layer as LSTM,
    GRU or Scan.
Example: ``torch.nn.LSTMCell`` in a Python loop, where ``torch.nn.LSTM`` computes the same
References: microsoft/onnxruntime#27796; onnx/tensorflow-onnx#2108.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import onnx
import onnx.parser
import onnx_ir as ir

from ortune.graph.model.graphs import graphs, name_of, op_set
from ortune.graph.nodes import scopes_of
from ortune.records import Finding
from ortune.rewrites import PatternFacts, Recurrence
from ortune.rewrites.unrolled_recurrence import REWRITE, replaceable_recurrences
from ortune.rules._fixes import with_fix
from ortune.rules._words import short
from ortune.rules.facts import Facts

CODE = "GRA010"
COUNTS_BLOCKS = True

_STEPS = 32
_WEIGHTS = 4  # maximum weights of a graph to follow: a cell has no more, and each takes a pass over the graph
_NAMED = ("Gemm", "MatMul", "Sigmoid", "Tanh")
_PRODUCTS = op_set("MatMul Gemm")


def _cells(steps: int, name: str) -> onnx.ModelProto:
    lines = [
        f"[{name}_x{i}] x{i} = Gather <axis = 0> (x, i{i})\n[{name}_p{i}] p{i} = MatMul (x{i}, wx)\n"
        f"[{name}_q{i}] q{i} = MatMul (h{i}, wh)\n[{name}_s{i}] s{i} = Add (p{i}, q{i})\n"
        f"[{name}_t{i}] h{i + 1} = Tanh (s{i})"
        for i in range(steps)
    ]
    indices = "".join(f", int64 i{i} = {{{i}}}" for i in range(steps))
    return onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]>\n'
        f"steps (float[{steps},1,2] x, float[1,2] h0) => (float[1,2] h{steps})\n"
        f"<float[2,2] wx = {{1,2,3,4}}, float[2,2] wh = {{1,0,0,1}}{indices}> {{ {chr(10).join(lines)} }}"
    )


def bad() -> onnx.ModelProto:
    """Return a model with a recurrence of twenty steps."""
    model = _cells(20, "bad")
    for node in model.graph.node:  # the nodes that feed the steps are not part of the finding
        if node.op_type == "Gather":
            node.name = node.name.replace("bad", "fed")
    return model


def good() -> onnx.ModelProto:
    """Return a model with a recurrence of so few steps that unrolling is as fast."""
    return _cells(4, "step")


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding on recognized unrolled recurrences, else one per graph on the weights that are reused most."""
    if facts.model is None:
        return
    look, cells = PatternFacts(facts.model.ir), list[Recurrence]()
    for scope, look.opset in scopes_of(facts.model.ir):
        cells += replaceable_recurrences(scope, look)[0]
    if cells:
        yield with_fix(REWRITE, _of_cells(cells), facts)
        return
    for graph in graphs(facts.model.ir):
        uses = Counter(node.inputs[1] for node in graph if _product(node))
        often = [weight for weight, n in uses.most_common(_WEIGHTS) if n >= _STEPS and weight is not None]
        longest = {weight: _steps(graph, weight) for weight in often}
        tied = [weight for weight in often if longest[weight] >= _STEPS]
        if tied:
            steps = max(longest[weight] for weight in tied)
            names = {name_of(node) for node in graph if _product(node) and node.inputs[1] in tied}
            yield Finding(
                code=CODE,
                what=f"a recurrence is unrolled into {steps} steps with the same weights, {short(tied[0].name or '')}",
                where=tuple(sorted(names)),
                fix="export the layer as LSTM, GRU or Scan",
            )


def _of_cells(cells: Sequence[Recurrence]) -> Finding:
    """Return one finding for all recurrences of a model."""
    every = [node for recurrence in cells for node in recurrence.nodes]
    kinds = Counter(node.op_type for node in every)
    named = ", ".join(f"{kinds[op]} {op}" for op in _NAMED if kinds[op])
    first = f"{_article(cells[0].kind)} {cells[0].kind} with {len(cells[0].cells)} steps"
    more = f" and {len(cells) - 1} more like it" if len(cells) > 1 else ""
    verb = "are" if len(cells) > 1 else "is"
    return Finding(
        code=CODE, what=f"{first}{more} {verb} unrolled into {named}", where=tuple(map(name_of, every))
    )


def _article(kind: str) -> str:
    return "a" if kind == "GRU" else "an"


def _product(node: ir.Node) -> bool:
    return node.op_type in _PRODUCTS and len(node.inputs) > 1


def _steps(graph: ir.Graph | ir.Function, weight: ir.Value) -> int:
    """Return the maximum number of products with the weights `weight` on one path through the graph."""
    depth: dict[ir.Value, int] = {}
    most = 0
    for node in graph:
        here = max((depth.get(value, 0) for value in node.inputs if value is not None), default=0)
        here += _product(node) and node.inputs[1] is weight
        most = max(most, here)
        depth.update(dict.fromkeys(node.outputs, here))
    return most
