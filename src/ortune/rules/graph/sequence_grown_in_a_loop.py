"""A sequence that grows in a loop is copied in every iteration.

What it is: SequenceInsert in the body of a Loop or Scan, on a sequence that is carried from one iteration to the next.
Why it costs: ONNX Runtime copies the sequence, with all its tensors, at every insertion. The time grows with the
    square of the number of iterations.
Evidence: the nodes.
Fix and its safety: advice: return each step's result as a scan output of the Loop, which is concatenated once, or
    write the model without a sequence.
Example: a Python list to which a scripted loop appends
References: ONNX operator documentation, "Loop" and "SequenceInsert"; microsoft/onnxruntime#5188.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx
import onnx.parser

from ortune.graph.model.graphs import name_of
from ortune.records import Finding
from ortune.rules._grown import insertions
from ortune.rules._words import counted
from ortune.rules.facts import Facts

CODE = "GRA024"


def _model(grown: bool) -> onnx.ModelProto:
    info, floats = onnx.helper.make_tensor_value_info, onnx.TensorProto.FLOAT
    listed = onnx.helper.make_tensor_sequence_value_info
    node = onnx.helper.make_node
    body = onnx.helper.make_graph(
        [
            node(
                "SequenceInsert",
                ["list" if grown else "first", "x"],
                ["longer"],
                name="bad_insert" if grown else "insert",
            ),
            node("Identity", ["go"], ["on"]),
        ],
        "body",
        [
            info("i", onnx.TensorProto.INT64, []),
            info("go", onnx.TensorProto.BOOL, []),
            listed("list", floats, None),
        ],
        [info("on", onnx.TensorProto.BOOL, []), listed("longer", floats, None)],
    )
    nodes = [
        node("SequenceEmpty", [], ["first"]),
        node("Loop", ["n", "", "first"], ["all"], body=body, name="loop"),
        node("ConcatFromSequence", ["all"], ["y"], axis=0),
    ]
    inputs = [info("x", floats, [2, 4]), info("n", onnx.TensorProto.INT64, [])]
    graph = onnx.helper.make_graph(nodes, "g", inputs, [info("y", floats, ["rows", 4])])
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)


def bad() -> onnx.ModelProto:
    """Return a model whose loop appends to a sequence in each step."""
    return _model(grown=True)


def good() -> onnx.ModelProto:
    """Return a model whose loop makes a sequence of one element in each step."""
    return _model(grown=False)


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding on SequenceInsert nodes that grow a sequence in a loop."""
    nodes = insertions(facts.model.ir) if facts.model is not None else []
    if nodes:
        yield Finding(
            code=CODE,
            what=f"a sequence is copied in every iteration of a loop: {counted(nodes)}",
            where=tuple(map(name_of, nodes)),
            evidence="the time grows with the square of the number of iterations",
            fix="return each step's result as a scan output of the Loop",
        )
