"""The file stores initializers that nothing reads.

What it is: initializers that no node reads and that are not a graph output.
Why it costs: the file and its download are larger, and loading reads them before they are dropped.
Evidence: the readers of each. Reported if they take at least 64 KiB and at least 1 % of the bytes of all weights.
Fix and its safety: exact: the rewrite ``dead-nodes`` removes them.
Example: the classifier head of a model that is used only for its features
References: ONNX IR specification, "Graphs", on initializers.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx

from ortune.graph.model.graphs import graphs, parameters, stored_bytes
from ortune.records import Finding
from ortune.rewrites.dead_nodes import REWRITE
from ortune.rules._fixes import with_fix
from ortune.rules._words import listed, percent, plural
from ortune.rules.facts import Facts

CODE = "MEM003"

_SHARE = 0.01
_LEAST_BYTES = 64 << 10


def _model(reader: str) -> onnx.ModelProto:
    weights = [
        onnx.helper.make_tensor(name, onnx.TensorProto.FLOAT, [160, 160], [0.5] * 160 * 160)
        for name in ("weights", "bad_weights")
    ]
    sides = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 160]) for name in ("x", "y")
    ]
    nodes = [
        onnx.helper.make_node("MatMul", ["x", "weights"], ["p"]),
        onnx.helper.make_node("MatMul", ["p", reader], ["y"]),
    ]
    graph = onnx.helper.make_graph(nodes, "g", sides[:1], sides[1:], weights)
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)


def bad() -> onnx.ModelProto:
    """Return a model with two weights, in which both products read the same weight."""
    return _model("weights")


def good() -> onnx.ModelProto:
    """Return a model in which each product reads its own weight."""
    return _model("bad_weights")


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding on unused initializers, except those among the graph inputs, which callers may feed."""
    if facts.model is None or facts.rewritten_by(REWRITE.name):
        return
    model = facts.model.ir
    unused = [
        value
        for graph in graphs(model, functions=False)
        for value in (graph.initializers.values() if hasattr(graph, "initializers") else ())
        if not value.uses() and not value.is_graph_output() and not value.is_graph_input()
    ]
    tensors = [value.const_value for value in unused if value.const_value is not None]
    size, total = sum(map(stored_bytes, tensors)), sum(map(stored_bytes, parameters(model)))
    if size >= max(_LEAST_BYTES, _SHARE * total):
        names = tuple(value.name or "" for value in unused)
        finding = Finding(
            code=CODE,
            severity="note",
            what=f"{len(names)} unused {plural(len(names), 'initializer')} ({percent(size / total)} of the bytes): "
            f"{listed(names)}",
            where=names,
            fix="export again without them",
        )
        yield with_fix(REWRITE, finding, facts)
