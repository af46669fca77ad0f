"""Rewrites that change the graph in memory, on graphs that nobody made for them: whole, idempotent, equal."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
import pytest
from fused_forms import gelu_tanh_products
from onnx.reference import ReferenceEvaluator
from onnxruntime.capi.onnxruntime_pybind11_state import Fail
from rewrite_fuzzing import Subject, Tally, check, over_node_cases, over_random_graphs
from same_outputs import run

from graphs import Graph
from ortune import rewrites
from ortune.graph.nodes import is_op
from ortune.rewrites._base import Rewrite, RewriteResult

SAMPLE = 160
OPERATORS, NODE_CASES = 9, 5  # one in so many


@pytest.mark.parametrize("part", range(2))
def test_a_sample_of_random_graphs(part: int) -> None:
    half, tally = SAMPLE // 2, Tally()
    over_random_graphs(range(part * half, (part + 1) * half), tally)
    assert not tally.wrong
    for name in ("hard-swish", "affine-into-weights", "gelu", "constant-folding", "no-op-nodes"):
        assert tally.changed[name] >= half // 60, tally.changed


def test_a_sample_of_node_cases() -> None:
    tally = Tally()
    over_node_cases(tally, every=NODE_CASES, operators=OPERATORS)
    assert tally.models >= 40
    assert not tally.wrong
    assert tally.changed["constant-folding"] >= 5


LOST = """<ir_version: 8, opset_import: ["": 13]>
g (float[n,2] x) => (float[n,2] y) <int64 zero = {0}, int64 one = {1}> {
  same = Concat <axis = 0> (x)
  wide = Cast <to = 11> (same)
  back = Cast <to = 1> (wide)
  shape = Shape (back)
  count = Gather (shape, zero)
  single = Equal (count, one)
  y = If (single) <
    then_branch = then () => (float[n,2] t) { t = Relu (back) },
    else_branch = other () => (float[n,2] e) { e = Neg (back) }
  >
}"""
"""Without its first node ONNX Runtime loses what the body of the If reads."""


def test_a_value_that_the_runtime_loses_is_no_fault_of_a_rewrite() -> None:
    model, feeds = onnx.parser.parse_model(LOST), {"x": np.array([[1, -1]], np.float32)}
    made = ir.serde.deserialize_model(model)
    assert rewrites.find("no-op-nodes").apply(made).modified
    with pytest.raises(Fail, match="Missing Input: back"):
        run(ir.serde.serialize_model(made), feeds)
    assert check(rewrites.find("no-op-nodes"), model, feeds, run(model, feeds))


STACKED = LOST.replace("(float[n,2] y)", "(float[n,2] y, float[two,n,2] z)").replace(
    "int64 one = {1}", "int64 one = {1}, int64 two = {2}, bool on = {1}"
)
STACKED = (
    STACKED[:-1]
    + """
  last, z = Loop (two, on, x) <
    body = round (int64 i, bool go, float[n,2] s) => (bool go_on, float[n,2] t, float[n,2] r) {
      go_on = Identity (go)
      t = Neg (s)
      r = Relu (s)
    }
  >
}"""
)
"""The same beside a Loop."""


def test_where_the_runtime_fails_the_reference_is_held_against_itself() -> None:
    model, feeds = onnx.parser.parse_model(STACKED), {"x": np.array([[1, -1]], np.float32)}
    expected = run(model, feeds)
    assert expected[1].shape == (2, 1, 2)
    assert ReferenceEvaluator(model).run(None, feeds)[1].shape == (2, 2)  # a fault of its Loop
    assert check(rewrites.find("no-op-nodes"), model, feeds, expected)


def faulty(change: Callable[[ir.Model], bool], name: str = "faulty") -> Rewrite:
    """A rewrite that says of a change what the change gives."""

    def changed(model: ir.Model, params: Mapping[str, str]) -> RewriteResult:
        return RewriteResult(modified=change(model), what="")

    return Rewrite(name=name, summary="", safety="exact", change=changed, proposes=lambda *_: [])


def renamed(model: ir.Model) -> bool:
    next(iter(model.graph)).outputs[0].name = "other"
    return False


def retyped(model: ir.Model) -> bool:
    model.graph.outputs[0].shape = ir.Shape(["m", 2])
    return False


def reordered(model: ir.Model) -> bool:
    node = model.graph[-1]
    node.attributes["axis"] = ir.AttrInt64("axis", 1)
    return False


def stamped(model: ir.Model) -> bool:
    model.graph[0].metadata_props["seen"] = "1"
    return False


PLAIN = """<ir_version: 8, opset_import: ["": 13]>
g (float[n,2] x) => (float[n,2] y) { t = Relu (x) y = Softmax <axis = -1> (t) }"""


@pytest.mark.parametrize("change", [renamed, retyped, reordered, stamped])
def test_what_is_changed_in_secret_is_found(change: Callable[[ir.Model], bool]) -> None:
    model, feeds = onnx.parser.parse_model(PLAIN), {"x": np.ones((1, 2), np.float32)}
    with pytest.raises(AssertionError, match="but reported no change"):
        check(faulty(change), model, feeds, run(model, feeds))
    assert not check(faulty(lambda model: False), model, feeds, run(model, feeds))


def test_what_is_changed_in_what_copies_share_is_found() -> None:
    def wider(model: ir.Model) -> bool:
        constant = model.graph[0].attributes["value"].as_tensor()
        constant.numpy()[...] += 1
        model.graph[0].name = "made"
        return True

    text = """<ir_version: 8, opset_import: ["": 13]>
    g (float[2] x) => (float[2] y) { [c] c = Constant <value = float[2] {1, 2}> () y = Add (x, c) }"""
    model, feeds = onnx.parser.parse_model(text), {"x": np.ones(2, np.float32)}
    for tensor in (a.t for n in model.graph.node for a in n.attribute):  # as one that can be written to
        tensor.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor).copy(), tensor.name))
    subject = Subject.of(model, feeds, run(model, feeds))
    node = subject.given.graph[0]
    shared = ir.tensor(np.array([1, 2], np.float32))
    for copy in (node, subject.copy.graph[0]):
        copy.attributes["value"] = ir.AttrTensor("value", shared)
    with pytest.raises(AssertionError, match="what copies share"):
        subject.check(faulty(wider))


FAR = np.array([[-4.463070869445801, -3.754625082015991, *np.linspace(-2, 2, 22)]], np.float32)
"""At the first one, float32 has two digits of ``1 + tanh``."""


def over_gelu(*, far: bool) -> tuple[bool, float]:
    """Whether Gelu is made where a number is divided by it, and how far the outputs then are apart at most."""
    g, x = Graph(), FAR if far else FAR[:, 2:]
    model = g.model([1, x.size], [g.op("Div", g.number(0.1), gelu_tanh_products(g, "x"))])
    expected = run(model, {"x": x})
    made = ir.serde.deserialize_model(model)
    rewrites.find("gelu").apply(made)
    apart = np.abs(run(ir.serde.serialize_model(made), {"x": x})[0] / expected[0] - 1).max()
    return check(rewrites.find("gelu"), model, {"x": x}, expected), float(apart)


def test_what_float32_loses_of_a_number_is_no_fault_of_a_rewrite() -> None:
    assert over_gelu(far=False)[1] < 1e-4
    changed, apart = over_gelu(far=True)
    assert changed
    assert apart > 1e-2


def test_a_wrong_rewrite_is_found_where_float32_loses_a_number_too() -> None:
    def change(model: ir.Model) -> bool:
        value = next(n for n in model.graph if is_op(n, "Div")).inputs[0]
        assert value is not None
        assert value.const_value is not None
        if float(value.const_value.numpy()) > 0.1005:
            return False
        value.const_value = ir.tensor(np.array(0.101, np.float32), name=value.name)
        return True

    wrong = faulty(change)
    g = Graph()
    model = g.model([1, FAR.size], [g.op("Div", g.number(0.1), gelu_tanh_products(g, "x"))])
    with pytest.raises(AssertionError):
        check(wrong, model, {"x": FAR}, run(model, {"x": FAR}))


STEP = """<ir_version: 8, opset_import: ["": 13]>
g (float[2] x) => (int64[2] y) <float[2] w = {1.3333334, 0.7}> { t = Mul (x, w) y = Cast <to = 7> (t) }"""


def weights_times(factors: list[float]) -> Rewrite:
    """Changes the weights of ``STEP``, once."""

    def change(model: ir.Model) -> bool:
        weight = model.graph.initializers["w"]
        assert weight.const_value is not None
        given = weight.const_value.numpy()
        if given[0] != np.float32(1.3333334):
            return False
        weight.const_value = ir.tensor(given * np.array(factors, np.float32), name="w")
        return True

    return faulty(change)


def test_a_number_at_a_step_may_be_on_either_side_and_others_may_not() -> None:
    model, feeds = onnx.parser.parse_model(STEP), {"x": np.array([3, 3], np.float32)}
    expected = run(model, feeds)
    (made,) = run(model, {"x": np.array([2.9999995, 3], np.float32)})
    assert made.tolist() == [3, 2]
    assert expected[0].tolist() == [4, 2]
    assert check(weights_times([0.9999999, 1]), model, feeds, expected)
    with pytest.raises(AssertionError):
        check(weights_times([0.9999999, 2]), model, feeds, expected)
