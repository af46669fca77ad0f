"""Rewrites that change the graph in memory, on graphs that nobody made for them: whole, idempotent, equal."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
import pytest
from fused_forms import gelu_tanh_products
from onnx.reference import ReferenceEvaluator
from onnxruntime.capi.onnxruntime_pybind11_state import Fail
from rewrite_fuzzing import Tally, check, over_node_cases, over_random_graphs, run
from test_fused_patterns import Graph

from ortune import rewrites
from ortune.rewrites._base import Rewrite, RewriteResult
from ortune.rewrites._graph import is_op

SAMPLE = 140
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


STACKED = """<ir_version: 8, opset_import: ["": 13]>
g (float[1,2] x) => (float[2,1,2] y) <int64 two = {2}, bool on = {1}> {
  last, y = Loop (two, on, x) <
    body = round (int64 i, bool go, float[1,2] s) => (bool go_on, float[1,2] t, float[1,2] n) {
      go_on = Identity (go)
      t = Neg (s)
      n = Relu (s)
    }
  >
}"""


def test_where_the_runtime_fails_the_reference_is_held_against_itself() -> None:
    model, x = onnx.parser.parse_model(STACKED), np.array([[1, -1]], np.float32)
    assert run(model, {"x": x})[0].shape == (2, 1, 2)
    assert ReferenceEvaluator(model).run(None, {"x": x})[0].shape == (2, 2)  # a fault of its Loop
    tally = Tally()
    over_random_graphs(range(745, 746), tally)
    assert (tally.models, tally.wrong) == (1, [])
    assert tally.changed["cascaded-nodes"] == 1


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
    def change(model: ir.Model, params: Mapping[str, str]) -> RewriteResult:
        value = next(n for n in model.graph if is_op(n, "Div")).inputs[0]
        assert value is not None
        assert value.const_value is not None
        if float(value.const_value.numpy()) > 0.1005:
            return RewriteResult(modified=False, what="")
        value.const_value = ir.tensor(np.array(0.101, np.float32), name=value.name)
        return RewriteResult(modified=True, what="")

    wrong = Rewrite(name="wrong", summary="", safety="exact", change=change, proposes=lambda *_: [])
    g = Graph()
    model = g.model([1, FAR.size], [g.op("Div", g.number(0.1), gelu_tanh_products(g, "x"))])
    with pytest.raises(AssertionError):
        check(wrong, model, {"x": FAR}, run(model, {"x": FAR}))
