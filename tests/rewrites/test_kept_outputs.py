"""Outputs that are not asked for go, with what only they needed; the others are what they were."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
import pytest
from random_graphs import random_graph
from same_outputs import REFUSED, run

import ortune
import zoo
from facts import facts
from ortune import rewrites
from ortune.errors import UsageError
from ortune.graph.model.open import open_model
from ortune.inputs import workload as workloads
from ortune.inputs.feeds import make_feeds
from ortune.records import RewriteSpec
from ortune.rewrites._base import RewriteResult

KEPT = rewrites.find("kept-outputs")

HEADS = """<ir_version: 8, opset_import: ["": 13]>
heads (float[n,4] x, float[4] only_for_last) => (float[n,4] shared, float[n,4] first, float[n,4] last)
<float[4] a = {1, 2, 3, 4}, float[4] b = {4, 3, 2, 1}, bool go = {1}> {
  shared = Relu (x)
  first = Mul (shared, a)
  deep = Add (first, b)
  last = If (go) <
    then_branch = yes () => (float[n,4] t) { t = Sub (deep, only_for_last) },
    else_branch = no () => (float[n,4] e) { e = Neg (deep) }
  >
}"""


def kept(*names: str) -> tuple[onnx.ModelProto, RewriteResult]:
    made = ir.serde.deserialize_model(onnx.parser.parse_model(HEADS))
    result = KEPT.apply(made, dict.fromkeys(names, "keep"))
    proto = ir.serde.serialize_model(made)
    onnx.checker.check_model(proto, full_check=True)
    return proto, result


@pytest.mark.parametrize(
    ("names", "operators", "weights"),
    [
        (("shared",), {"Relu": 1}, set()),
        (("first",), {"Relu": 1, "Mul": 1}, {"a"}),
        (("first", "shared"), {"Relu": 1, "Mul": 1}, {"a"}),
        (("last",), {"Relu": 1, "Mul": 1, "Add": 1, "If": 1}, {"a", "b", "go"}),
    ],
)
def test_what_served_others_alone_goes(
    names: tuple[str, ...], operators: dict[str, int], weights: set[str]
) -> None:
    proto, result = kept(*names)
    assert result.modified
    order = [name for name in ("shared", "first", "last") if name in names]
    assert [value.name for value in proto.graph.output] == order
    assert Counter(node.op_type for node in proto.graph.node) == operators
    assert {tensor.name for tensor in proto.graph.initializer} == weights
    # Whoever runs it goes on feeding both.
    assert [value.name for value in proto.graph.input] == ["x", "only_for_last"]
    feeds = {"x": np.array([[1, -2, 3, -4]], np.float32), "only_for_last": np.ones(4, np.float32)}
    before = dict(zip(("shared", "first", "last"), run(onnx.parser.parse_model(HEADS), feeds), strict=True))
    for name, value in zip(order, run(proto, feeds), strict=True):
        np.testing.assert_array_equal(value, before[name])
    made = ir.serde.deserialize_model(proto)
    again = KEPT.apply(made, dict.fromkeys(names, "keep"))
    assert not again.modified
    (why,) = again.reasons
    facts(why, "no other outputs")


def test_it_says_what_went() -> None:
    assert kept("first")[1].what == "Removed shared, last, with 2 nodes and 2 weights."
    assert kept("shared", "last")[1].what == "Removed first."


def test_without_names_it_says_which_there_are() -> None:
    _, result = kept()
    assert not result.modified
    (why,) = result.reasons
    facts(why, "no output", "shared, first, last")


def test_a_name_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match="no output 'logits'") as refused:
        kept("first", "logits")
    assert "shared, first, last" in refused.value.do


def test_names_with_colons_can_be_given() -> None:
    spec = rewrites.parse("kept-outputs:StatefulPartitionedCall:2=keep,logits=keep")
    assert spec.params == {"StatefulPartitionedCall:2": "keep", "logits": "keep"}
    with pytest.raises(UsageError, match="'drop' is not a valid value"):
        rewrites.parse("kept-outputs:logits=drop")


def test_it_is_never_proposed() -> None:
    model = ir.serde.deserialize_model(onnx.parser.parse_model(HEADS))
    assert not KEPT.proposes(model, workloads.propose(model))


def test_of_random_graphs_any_output_stays_what_it_was() -> None:
    tried = 0
    for seed in range(120):
        model, feeds = random_graph(seed)
        names = [value.name for value in model.graph.output]
        if len(names) < 2:
            continue
        try:
            before = run(model, feeds)
        except REFUSED:
            continue
        for name, expected in zip(names, before, strict=True):
            made = ir.serde.deserialize_model(model)
            assert KEPT.apply(made, {name: "keep"}).modified
            proto = ir.serde.serialize_model(made)
            onnx.checker.check_model(proto)
            np.testing.assert_array_equal(run(proto, feeds)[0], expected)
            tried += 1
    assert tried > 60


def test_a_real_model_with_one_of_three_heads(tmp_path: Path) -> None:
    opened = open_model(zoo.model_path("basic-pitch"))
    names = [str(value.name) for value in opened.ir.graph.outputs]
    spec = RewriteSpec(name=KEPT.name, params={names[0]: "keep"})
    assert rewrites.removed_outputs([spec], names) == set(names[1:])
    made = rewrites.rewrite_model(opened, [spec], tmp_path)
    new = open_model(made.path)
    assert [str(value.name) for value in new.ir.graph.outputs] == names[:1]
    assert new.op_counts.total() < opened.op_counts.total()
    (case,) = workloads.propose(opened.ir).cases
    feeds = {k: v for k, v in make_feeds(opened.ir, case, seed=0).items() if isinstance(v, np.ndarray)}
    before = run(onnx.load(opened.path), feeds)[0]
    np.testing.assert_allclose(run(onnx.load(made.path), feeds)[0], before, rtol=1e-5, atol=1e-6)


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ORTUNE_LOCK", str(tmp_path / "lock"))
    monkeypatch.chdir(tmp_path)
    onnx.save(onnx.parser.parse_model(HEADS), tmp_path / "heads.onnx")
    return tmp_path / "heads.onnx"


NOTE = "excluded on request, so not compared: shared, last"


def test_by_hand_it_is_written_and_what_stays_is_compared(model: Path, tmp_path: Path) -> None:
    answer = ortune.rewrite(model, "kept-outputs:first=keep", dim={"n": 2})
    assert answer.verdict == "written"
    assert answer.result.outputs is not None
    assert [output.name for output in answer.result.outputs.outputs] == ["first"]
    assert NOTE in answer.result.notes
    assert len(open_model(tmp_path / "heads-rewritten.onnx").ir.graph.outputs) == 1


def test_what_is_left_out_is_no_output_for_what_comes_after() -> None:
    """A weight that was one goes, and a scale behind a convolution that was one is folded."""
    text = """<ir_version: 8, opset_import: ["": 13]>
    told (float[1,1,4,4] x) => (float[1,2,4,4] y, float[1,2,4,4] c, float[2] w2)
    <float[2,1,1,1] w = {1, 2}, float[1,2,1,1] s = {3, 4}, float[2] w2 = {5, 6}>
    { c = Conv (x, w) y = Mul (c, s) }"""
    model = ir.serde.deserialize_model(onnx.parser.parse_model(text))
    assert KEPT.apply(model, {"y": "keep"}).modified
    assert "w2" not in model.graph.initializers
    assert rewrites.find("affine-into-weights").apply(model).modified
