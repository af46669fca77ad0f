"""What the rewrites of activations, scales and shifts leave in the graph that ONNX Runtime runs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnx.numpy_helper
import onnx.parser
import onnx_ir as ir
import onnxruntime as ort
import pytest
from corpus_models import hard_in_a_branch
from optimised_models import optimised
from rewrite_corpus import BETWEEN, CORPUS, INTO, SWISH

import zoo
from facts import facts
from ortune import rewrites, rules
from ortune.graph.model.open import open_model
from ortune.records import RewriteSpec

ALL = [RewriteSpec(name=name) for name in (SWISH, INTO, BETWEEN)]
BY_NAME = {sample.name: sample for sample in CORPUS}


def test_a_paddle_block_is_three_convolutions_and_one_activation(tmp_path: Path) -> None:
    opened = open_model(BY_NAME["paddle"].write(tmp_path))
    made = rewrites.rewrite_model(opened, ALL, tmp_path / "made")
    kinds = Counter(node.op_type for node in onnx.load(made.path).graph.node)
    assert kinds == {"Conv": 3, "HardSigmoid": 1, "Mul": 1}


@pytest.mark.parametrize(("name", "least"), [("ppocrv4-rec", 20), ("ppocrv4-det", 20)])
def test_ocr_models_stay_in_the_blocked_layout(name: str, least: int, tmp_path: Path) -> None:
    original = zoo.model_path(name)
    opened = open_model(original)
    made = rewrites.rewrite_model(opened, ALL, tmp_path)
    before, after = optimised(original, tmp_path), optimised(made.path, tmp_path)
    if not before["ReorderOutput"]:
        pytest.skip("this CPU has no blocked layout")
    assert after["ReorderOutput"] < before["ReorderOutput"] / 1.9
    assert after["Clip"] == 0
    assert sum(before.values()) - sum(after.values()) > 8 * least


def test_the_near_miss_is_told(tmp_path: Path) -> None:
    onnx.save(hard_in_a_branch(), tmp_path / "branch.onnx")
    result = rewrites.find(SWISH).apply(open_model(tmp_path / "branch.onnx").ir)
    assert result.modified
    (reason,) = result.reasons
    assert "'outer clip'" in reason
    assert "used elsewhere" in reason


SWISH_OF = """<ir_version: 8, opset_import: ["" : 13]> g ({outer}[4] x) => ({outer}[4] y) <
    {inner} three = {{3}}, {inner} zero = {{0}}, {inner} six = {{6}}, {inner} by = {{{by}}}
> {{
    q = {q} (x)
    a = Add (q, three)
    c = Clip (a, zero, six)
    p = Mul (q, c)
    d = {over} (p, by)
    y = {y} (d)
}}"""


@pytest.mark.parametrize(("inner", "to"), [("int32", 6), ("double", 11), ("float16", 10)])
def test_arithmetic_of_another_type_that_is_not_declared_stays(inner: str, to: int) -> None:
    text = SWISH_OF.format(
        outer="float", inner=inner, by=6, over="Div", q=f"Cast <to = {to}>", y="Cast <to = 1>"
    )
    if inner == "float16":  # which the text has as bits
        text = text.replace("{3}", "{16896}").replace("{6}", "{17920}")
    made = ir.from_proto(onnx.parser.parse_model(text))
    result = rewrites.find(SWISH).apply(made)
    assert not result.modified
    assert inner.upper() in result.reasons[0]


@pytest.mark.parametrize(
    ("over", "by", "swish"),
    [
        ("Div", "6", True),
        ("Mul", "0.16666667", True),
        ("Mul", "0.1666667", True),
        ("Div", "6.0005", False),
        ("Mul", "0.16667", False),
    ],
)
def test_a_divisor_is_the_bound_as_far_as_float32_tells(over: str, by: str, swish: bool) -> None:
    text = SWISH_OF.format(outer="float", inner="float", by=by, over=over, q="Relu", y="Relu")
    result = rewrites.find(SWISH).apply(ir.from_proto(onnx.parser.parse_model(text)))
    assert result.modified == swish


@pytest.mark.parametrize(
    "body",
    [
        "d = Div (x, six) a = Add (x, three) c = Clip (a, zero, six) y = Mul (d, c)",
        "a = Add (x, three) l = Max (a, zero) c = Min (six, l) d = Div (c, six) y = Mul (d, x)",
        "a = Sub (x, minus) l = Relu (a) c = Min (l, six) d = Div (c, six) y = Mul (x, d)",
        "d = Div (x, six) a = Add (half, d) c = Clip (a, zero, one) y = Mul (x, c)",
        "a = Add (x, three) d = Div (a, six) l = Min (d, one) c = Max (l, zero) y = Mul (c, x)",
    ],
)
def test_a_hard_swish_is_known_by_its_values(body: str, tmp_path: Path) -> None:
    numbers = {"zero": 0, "half": 0.5, "one": 1, "three": 3, "minus": -3, "six": 6}
    held = ", ".join(f"float {name} = {{{value}}}" for name, value in numbers.items())
    text = f"""<ir_version: 8, opset_import: ["" : 13]> g (float[8] x) => (float[8] y) <{held}> {{
        {body.replace(") ", ")" + chr(10))} }}"""
    model = ir.from_proto(onnx.parser.parse_model(text))
    ir.save(model, tmp_path / "before.onnx")
    assert rules.find_rule("GRA017").findings(rules.Facts(model=open_model(tmp_path / "before.onnx")))
    assert rewrites.find(SWISH).apply(model).modified
    ir.save(model, tmp_path / "after.onnx")
    x = np.linspace(-5, 5, 8, dtype=np.float32)
    before, after = (
        ort.InferenceSession(tmp_path / f"{name}.onnx").run(None, {"x": x})[0] for name in ("before", "after")
    )
    np.testing.assert_allclose(before, after, atol=1e-6)
    assert Counter(node.op_type for node in model.graph) == {"HardSigmoid": 1, "Mul": 1}


def layers_that_share_their_weights(size: int) -> ir.Model:
    """Three layers with one weight, each behind a scale of its own: each fold would need a copy."""
    lines = [
        f"s{i} = Constant <value_float: float = {i + 2}.0> () m{i} = Mul ({f'x{i}'}, s{i}) x{i + 1} = MatMul (m{i}, w)"
        for i in range(3)
    ]
    model = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 17]>
        shared (float[4, {size}] x0) => (float[4, {size}] x3) {{ {" ".join(lines)} }}"""
    )
    weight = np.random.default_rng(0).standard_normal((size, size)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    return ir.from_proto(model)


def test_weights_that_layers_share_are_not_copied() -> None:
    large = layers_that_share_their_weights(96)
    assert not rewrites.find(INTO).proposes(large, None)
    result = rewrites.find(INTO).apply(large)
    assert not result.modified
    facts(result.reasons[0], "need a copy")
    assert rewrites.find(INTO).apply(layers_that_share_their_weights(16)).modified


def test_the_proposals_say_what_is_there() -> None:
    found = {
        spec.name: reason for spec, reason in rewrites.proposals(open_model(zoo.model_path("ppocrv4-rec")).ir)
    }
    assert found[SWISH].startswith("28 activations")
    assert set(found) >= {SWISH, INTO}
