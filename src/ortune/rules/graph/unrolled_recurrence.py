"""A recurrence was written out step by step.

What it is: products with the same weights, one after another, 32 or more of them: a loop over time that the exporter
    traced.
Why it costs: loading takes time for every node; each step is a few small nodes, where one LSTM or GRU runs all of
    them.
Evidence: how often the same weights stand one after another on a way through the graph.
Fix and its safety: advice: export the layer as LSTM, GRU or Scan.
Example: ``torch.nn.LSTMCell`` in a Python loop, where ``torch.nn.LSTM`` does the same
References: microsoft/onnxruntime#27796; onnx/tensorflow-onnx#2108.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import onnx
import onnx.parser
import onnx_ir as ir

from ortune.model.graphs import graphs, name_of, op_set
from ortune.records import Finding
from ortune.rules._words import short
from ortune.rules.facts import Facts

CODE = "GRA010"
TIER = "preview"

_STEPS = 32
_WEIGHTS = 4  # of a graph that are followed: a cell has no more, and each takes a walk
_PRODUCTS = op_set("MatMul Gemm")


def _cells(steps: int) -> onnx.ModelProto:
    cells = [f"[bad_{i}] p{i} = MatMul (h{i}, w)  h{i + 1} = Tanh (p{i})" for i in range(steps)]
    lines = "\n".join(cells).replace("  ", "\n")
    return onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]>\n'
        f"steps (float[1,8] h0, float[8,8] w) => (float[1,8] h{steps}) {{ {lines} }}"
    )


def bad() -> onnx.ModelProto:
    """Forty steps."""
    return _cells(40)


def good() -> onnx.ModelProto:
    """As many layers as a model may share."""
    return _cells(12)


def find(facts: Facts) -> Iterator[Finding]:
    """In every graph, for the weights that stand most often."""
    for graph in graphs(facts.model.ir) if facts.model else ():
        uses = Counter(node.inputs[1] for node in graph if _product(node))
        often = [weight for weight, n in uses.most_common(_WEIGHTS) if n >= _STEPS and weight is not None]
        longest = {weight: _steps(graph, weight) for weight in often}
        found = [weight for weight in often if longest[weight] >= _STEPS]
        if found:
            steps = max(longest[weight] for weight in found)
            names = {name_of(node) for node in graph if _product(node) and node.inputs[1] in found}
            yield Finding(
                code=CODE,
                what=f"{steps} steps written out one after another, all with the weights {short(found[0].name or '')}",
                where=tuple(sorted(names)),
                fix="export the layer as LSTM, GRU or Scan",
            )


def _product(node: ir.Node) -> bool:
    return node.op_type in _PRODUCTS and len(node.inputs) > 1


def _steps(graph: ir.Graph | ir.Function, weight: ir.Value) -> int:
    """The most products with these weights on one way through the graph."""
    depth: dict[ir.Value, int] = {}
    most = 0
    for node in graph:
        here = max((depth.get(value, 0) for value in node.inputs if value is not None), default=0)
        here += _product(node) and node.inputs[1] is weight
        most = max(most, here)
        depth.update(dict.fromkeys(node.outputs, here))
    return most
