"""Control flow is told of where ONNX Runtime keeps it, and not where it puts a branch in its place."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnx.parser
import onnxruntime as ort
import pytest

from ortune.graph.model.open import open_model
from ortune.records import Plan
from ortune.rules import Facts, find_rule

HEAD = '<ir_version: 8, opset_import: ["" : 17]>\n'
ONE = """y = If (c) <
    then_branch = t () => (float[m,n] a) { a = Relu (x) }, else_branch = e () => (float[m,n] b) { b = Neg (x) }
> }"""
TWO = """y = If (c) <
    then_branch = t () => (float[m,n] a)
    {
        a = If (q) <
            then_branch = u () => (float[m,n] d) { d = Relu (x) }, else_branch = v () => (float[m,n] f) { f = Abs (x) }
        >
    },
    else_branch = e () => (float[m,n] b) { b = Neg (x) }
> }"""
ROUNDS = """
y = Loop (n, , x) <
    body = once (int64 i, bool on, float[2,3] was) => (bool still, float[2,3] now)
    {
        still = Identity (on)
        c = Constant <value = bool {1}> ()
        now = If (c) <
            then_branch = t () => (float[2,3] a) { a = Relu (was) },
            else_branch = e () => (float[2,3] b) { b = Neg (was) }
        >
    }
> }"""
PARTS = "<int64[1] i = {{{i}}}, int64[1] k = {{{k}}}> {{ s = Shape (x) d = Gather (s, i) c = Equal (d, k) "
MODELS = {
    "fed": ("g (float[2,3] x, bool c) => (float[m,n] y) {" + ONE, 1),
    "a weight": ("g (float[2,3] x) => (float[m,n] y) <bool c = {1}> {" + ONE, 0),
    "a weight that may be fed": ("g (float[2,3] x, bool[1] c) => (float[m,n] y) <bool[1] c = {1}> {" + ONE, 1),
    "a constant": ("g (float[2,3] x) => (float[m,n] y) { c = Constant <value = bool {1}> () " + ONE, 0),
    "computed": ("g (float[2,3] x) => (float[m,n] y) <bool k = {1}> { c = Not (k) " + ONE, 0),
    "of known sizes": ("g (float[2,3] x) => (float[m,n] y) " + PARTS.format(i=0, k=2) + ONE, 0),
    "of one known size among others": ("g (float[k,3] x) => (float[m,n] y) " + PARTS.format(i=1, k=3) + ONE, 1),
    "a dynamic dimension": ("g (float[k,3] x) => (float[m,n] y) " + PARTS.format(i=0, k=2) + ONE, 1),
    "one in the branch that is taken": (
        "g (float[2,3] x, bool q) => (float[m,n] y) <bool c = {1}> {" + TWO, 1,
    ),
    "one in the branch that is not": ("g (float[2,3] x, bool q) => (float[m,n] y) <bool c = {0}> {" + TWO, 0),
    "in a loop, which stays": ("g (float[2,3] x, int64 n) => (float[2,3] y) {" + ROUNDS, 1),
}  # fmt: skip


def kept(graph: onnx.GraphProto) -> int:
    """Control flow of a graph and of those in it."""
    inner = [attribute.g for node in graph.node for attribute in node.attribute if attribute.HasField("g")]
    return sum(node.op_type in ("If", "Loop") for node in graph.node) + sum(map(kept, inner))


@pytest.mark.parametrize("level", ["all", "disable"])
@pytest.mark.parametrize("name", MODELS)
def test_control_flow_is_told_of_where_it_is_kept(name: str, level: str, tmp_path: Path) -> None:
    text, count = MODELS[name]
    model = onnx.parser.parse_model(HEAD + text)
    if "[m,n] y" in text:
        model.graph.output[0].type.tensor_type.ClearField("shape")
    for number, node in enumerate(model.graph.node):
        node.name = f"{node.op_type} {number}"
    onnx.save(model, tmp_path / "m.onnx")
    options = ort.SessionOptions()
    options.log_severity_level, options.optimized_model_filepath = 4, str(tmp_path / "optimised.onnx")
    if level == "disable":
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    ort.InferenceSession(tmp_path / "m.onnx", options, providers=["CPUExecutionProvider"])
    there = kept(onnx.load(tmp_path / "optimised.onnx").graph)
    if level == "all":
        assert there == count
    settings = {} if level == "all" else {"graph_optimization_level": "disable"}
    facts = Facts(model=open_model(tmp_path / "m.onnx"), plan=Plan(settings=settings))
    assert sum(len(found.where) for found in find_rule("GRA003").findings(facts)) == there
