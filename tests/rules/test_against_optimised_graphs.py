"""What rules say that ONNX Runtime leaves as it is, held against the graph that it makes."""

from __future__ import annotations

import math
from pathlib import Path

import onnx
import onnx.parser
import pytest
from optimised_graphs import HEAD, HEAD17, ONES, edited, optimised, rule_findings, saved

from ortune import rules
from ortune.records import Plan
from ortune.rules import Facts
from ortune.targets.machine import Machine

NORM = """ channels (float[2,8,16] x) => (float[2,8,16] y)
<float[16] s = {ONES}, float[16] b = {ONES}, float two = {2.0}, float e = {0.00001}, float h = {0.5}>
{ m = ReduceMean <axes = [-1]> (x)
  d = Sub (x, m)
  q = Pow (d, two)
  v = ReduceMean <axes = [-1]> (q)
  a = Add (v, e)
  r = Sqrt (a)
  n = Div (d, r)
  t = Mul (n, s)
  y = Add (t, b) }""".replace("ONES", ONES)
GELU = """ gelu (float[2,8] x) => (float[2,8] y)
<float c = {1.41421356}, float one = {1.0}, float h = {0.5}>
{ d = Div (x, c)
  f = Erf (d)
  a = Add (f, one)
  m = Mul (x, a)
  y = Mul (m, h) }"""
UNFUSED = {
    "the axis is -2, not the last": (NORM, {"[-1]": "[-2]"}),
    "Mul of the value with itself instead of Pow": (NORM, {"Pow (d, two)": "Mul (d, d)"}),
    "Pow with 0.5 instead of Sqrt": (NORM, {"Sqrt (a)": "Pow (a, h)"}),
    "Mul with the reciprocal instead of Div": (
        NORM, {"n = Div (d, r)": "i = Reciprocal (r)\n n = Mul (d, i)"},
    ),
    "no scale follows": (NORM, {"t = Mul (n, s)\n": "", "Add (t, b)": "Relu (n)"}),
    "the scale has more than one axis": (NORM, {"float[16] s": "float[1,1,16] s"}),
    "no shift follows the scale": (NORM, {"y = Add (t, b)": "y = Relu (t)"}),
    "epsilon is not a constant": (NORM, {"[2,8,16] x)": "[2,8,16] x, float g)", "(v, e)": "(v, g)"}),
    "before opset 17, ONNX Runtime moves the preceding Transpose past it": (
        NORM, {
            "16] x)": "16] o)", "{ m =": "{ x = Transpose <perm = [1,2,0]> (o)\n m =", "[2,8,16] o": "[16,2,8] o",
            "y = Add (t, b)": "z = Add (t, b)\n y = Transpose <perm = [2,0,1]> (z)",
            "float[2,8,16] y": "float[16,2,8] y",
        },
    ),
    "the pattern lacks Sqrt, Div": (NORM, {"r = Sqrt (a)\n  n = Div (d, r)": "r = Pow (a, o)\n n = Mul (d, r)",
        "float two": "float o = {-0.5}, float two",
    }),
    "the factor 0.5 is multiplied first": (GELU, {"Mul (x, a)": "Mul (a, h)", "Mul (m, h)": "Mul (x, m)"}),
    "the argument is multiplied by sqrt(0.5) instead of divided by sqrt(2)": (
        GELU, {"Div (x, c)": "Mul (x, c)", "1.41421356": "0.70710678"},
    ),
    "1.414 instead of sqrt(2)": (GELU, {"1.41421356": "1.414"}),
    "division by 2 instead of multiplication by 0.5": (GELU, {"{0.5}": "{2.0}", "Mul (m, h)": "Div (m, h)"}),
    "ONNX Runtime does not match this order of operations": (
        GELU, {
            "d = Div (x, c)": "u = Mul (x, x)\n v = Mul (u, x)\n w = Mul (v, k)\n g = Add (x, w)\n d = Mul (g, c)",
            "Erf (d)": "Tanh (d)", "{1.41421356}": "{0.7978845608}, float k = {0.044715}",
        },
    ),
}  # fmt: skip

READ = {
    NORM: {
        "the mean": "m", "the difference": "d", "the square": "q", "the variance": "v", "the sum with epsilon": "a",
        "the square root": "r", "the normalised value": "n",
    },
    GELU: {
        "the argument of Erf": "d", "the output of Erf": "f", "the Add after Erf": "a", "the Mul after Erf": "m",
    },
}  # fmt: skip
for text, values in READ.items():
    for what, value in values.items():
        sizes = "p,q,o" if text is NORM else "p,q"
        twice = {"\n  y = ": f"\n  z = Relu ({value})\n  y = ", "] y)": f"] y, float[{sizes}] z)"}
        UNFUSED[f"another node reads {what}"] = (text, twice)


ONES_8 = ",".join("1" * 8)
SKIP = """ skip (float[2,4,8] x, float[2,4,8] r) => (float[2,4,8] y)
<float[8] s = {ONES}, float[8] b = {ONES}>
{ a = Add (x, r)
  y = LayerNormalization <axis = -1> (a, s, b) }""".replace("ONES", ONES_8)
BIAS = """ bias (float[4,2] x) => (float[4,2] y)
<float[2,2] w = {1,2,3,4}, float[2] b = {1,2}>
{ p = MatMul (x, w)
  y = Add (p, b) }"""
CONV = """ conv (float[1,2,4,4] x) => (float[1,2,4,4] y)
<float[2,2,1,1] w = {1,2,3,4}, float[2] s = {1,2}>
{ c = Conv (x, w)
  y = BatchNormalization (c, s, s, s, s) }"""
APART = {
    "another node reads the sum": (
        "GRA020", SKIP, {"y = Lay": "z = Relu (a)\n y = Lay", ",8] y)": ",8] y, float[2,4,8] z)"},
    ),
    "the operands have different shapes": ("GRA020", SKIP, {"float[2,4,8] r": "float[1,4,8] r"}),
    "4 axes instead of 3": ("GRA020", SKIP, {"[2,4,8]": "[2,4,1,8]"}),
    "normalises from axis 1, not over the last axis only": (
        "GRA020", SKIP, {"axis = -1": "axis = 1", "float[8] s": "float[1,8] s", "float[8] b": "float[1,8] b"},
    ),
    "another node reads the product": (
        "GRA021", BIAS, {"y = Add": "z = Relu (p)\n y = Add", "[4,2] y)": "[4,2] y, float[4,2] z)"},
    ),
    "the bias has shape [1, 2]": ("GRA021", BIAS, {"float[2] b": "float[1,2] b", "[4,2]": "[3,4,2]"}),
    "the input has more than two axes and dynamic dimensions": ("GRA021", BIAS, {"[4,2]": "[n,m,2]"}),
    "not fused: 1 BatchNormalization": (
        "GRA022", CONV, {"y = Batch": "z = Neg (c)\n y = Batch", "4] y)": "4] y, float[1,2,4,4] z)"},
    ),
}  # fmt: skip
FUSED = {"GRA020": "SkipLayerNormalization", "GRA021": "Gemm", "GRA022": "BatchNormalization"}


def shown(code: str, name: str) -> onnx.ModelProto:
    rule = rules.find_rule(code)
    example = rule.bad if name == "bad" else rule.good
    assert example is not None
    return example()


@pytest.mark.parametrize(
    ("code", "name", "operator", "count"),
    [
        ("GRA007", "bad", "Conv", 1),
        ("GRA011", "bad", "LayerNormalization", 0), ("GRA011", "good", "LayerNormalization", 1),
        ("GRA012", "bad", "Erf", 1), ("GRA012", "good", "Erf", 0),
        ("GRA014", "bad", "BatchNormalization", 1), ("GRA014", "good", "BatchNormalization", 0),
        ("GRA013", "bad", "Softmax", 1),
        ("GRA016", "bad", "Mul", 1), ("GRA016", "good", "Mul", 0),
        ("GRA017", "bad", "Clip", 1), ("GRA018", "bad", "MatMul", 1),
        ("GRA020", "bad", "SkipLayerNormalization", 0), ("GRA020", "good", "SkipLayerNormalization", 1),
        ("GRA021", "bad", "Gemm", 0), ("GRA021", "good", "Gemm", 1),
        ("GRA022", "bad", "Relu", 1), ("GRA022", "good", "Relu", 0),
        ("SHP004", "bad", "Shape", 1), ("SHP004", "good", "Shape", 0),
        ("PRC004", "bad", "Cast", 2),
        ("QNT004", "good", "QLinearConv", 1),
    ],
)  # fmt: skip
def test_what_is_said_to_stay_stays(code: str, name: str, operator: str, count: int, tmp_path: Path) -> None:
    model = shown(code, name)
    if code == "QNT004":
        feed_first_alone(model)
    assert optimised(saved(model, tmp_path))[operator] == count


def feed_first_alone(model: onnx.ModelProto) -> None:
    """Makes every input but the first a weight."""
    for value in list(model.graph.input)[1:]:
        kind = value.type.tensor_type
        shape = [dim.dim_value for dim in kind.shape.dim]
        model.graph.initializer.append(
            onnx.helper.make_tensor(value.name, kind.elem_type, shape, [1] * math.prod(shape))
        )
        model.graph.input.remove(value)


def test_a_convolution_between_pairs_that_are_not_closed_stays_in_float(tmp_path: Path) -> None:
    model = shown("QNT004", "bad")
    feed_first_alone(model)
    assert not optimised(saved(model, tmp_path))["QLinearConv"]


@pytest.mark.parametrize(
    ("channels", "blocked"), [(16, True), (17, False), (18, False), (20, True), (33, False)]
)
def test_input_channels_that_are_not_in_fours_leave_the_blocked_layout(
    channels: int, blocked: bool, tmp_path: Path
) -> None:
    weights = ",".join(["0.5"] * 16 * channels)
    path = saved(
        onnx.parser.parse_model(
            f"{HEAD} g (float[1,{channels},8,8] x) => (float[1,16,8,8] y)"
            f"<float[16,{channels},1,1] w = {{{weights}}}> {{ y = Conv (x, w) }}"
        ),
        tmp_path,
    )
    assert bool(rule_findings("LAY005", path)) != blocked
    if "avx2" in Machine().host.features:  # elsewhere there is no such layout
        assert bool(optimised(path)["ReorderOutput"]) == blocked


@pytest.mark.parametrize("reason", UNFUSED)
def test_the_reason_why_it_is_not_fused_is_told_and_holds(reason: str, tmp_path: Path) -> None:
    text, changes = UNFUSED[reason]
    code, fused = ("GRA011", "LayerNormalization") if text is NORM else ("GRA012", "Gelu")
    (tmp_path / "known").mkdir()
    known = saved(onnx.parser.parse_model(HEAD + text), tmp_path / "known")
    assert rule_findings(code, known) == [] and optimised(known)[fused] == 1
    for was, becomes in changes.items():
        assert was in text
        text = text.replace(was, becomes)
    path = saved(onnx.parser.parse_model(HEAD + text), tmp_path)
    (told,) = rule_findings(code, path)
    assert told.evidence == reason
    assert not optimised(path)[fused]


def test_from_opset_17_on_a_transpose_keeps_no_layer_normalization_apart(tmp_path: Path) -> None:
    text, changes = UNFUSED["before opset 17, ONNX Runtime moves the preceding Transpose past it"]
    path = saved(edited(text, changes), tmp_path)
    assert rule_findings("GRA011", path) == []
    assert optimised(path)["LayerNormalization"] == 1


@pytest.mark.parametrize("bias", ["float[1,2] b = {1,2}", "float[4,1] b = {1,2,3,4}"])
def test_a_row_and_a_column_are_biases_of_a_product_of_two_axes(bias: str, tmp_path: Path) -> None:
    path = saved(onnx.parser.parse_model(HEAD17 + BIAS.replace("float[2] b = {1,2}", bias)), tmp_path)
    assert rule_findings("GRA021", path) == [] and optimised(path)["Gemm"] == 1


@pytest.mark.parametrize("reason", APART)
def test_the_reason_why_two_stay_apart_is_told_and_holds(reason: str, tmp_path: Path) -> None:
    code, text, changes = APART[reason]
    (tmp_path / "known").mkdir()
    known = saved(onnx.parser.parse_model(HEAD17 + text), tmp_path / "known")
    before = optimised(known)
    assert rule_findings(code, known) == []
    for was, becomes in changes.items():
        assert was in text
        text = text.replace(was, becomes)
    path = saved(onnx.parser.parse_model(HEAD17 + text), tmp_path)
    (told,) = rule_findings(code, path)
    assert told.evidence == reason
    after = optimised(path)
    if (
        code == "GRA022"
    ):  # a normalisation of its own, as a convolution of one tap where the layout is blocked
        assert (before["Conv"], after["Conv"] + after["BatchNormalization"]) == (1, 2)
    else:
        assert (before[FUSED[code]], after[FUSED[code]]) == (1, 0)


# How ONNX Runtime treats a scale or shift beside a product, by its operator and the constant's shape.
BESIDE = [
    ("c = Conv (x, w) y = Mul (c, k)", "", False), ("c = Conv (x, w) y = Mul (c, k)", "[1]", True),
    ("c = Conv (x, w) y = Mul (c, k)", "[2,1,1]", False), ("c = Conv (x, w) y = Add (c, k)", "[1]", True),
    ("c = Conv (x, w) y = Add (c, k)", "[1,2,1,1]", False), ("c = Conv (x, w) y = Sub (c, k)", "[2,1,1]", True),
    ("c = Conv (x, w) y = Div (c, k)", "", True), ("c = ConvTranspose (x, w) y = Mul (c, k)", "[2,1,1]", True),
    ("o = Conv (x, w) c = Mul (o, k) y = Conv (c, w)", "[2,1,1]", False),
    ("o = Conv (x, w) c = Mul (o, k) y = Conv (c, w)", "[1]", True),
    ("c = Add (x, k) y = Conv (c, w)", "[2,1,1]", True), ("c = Div (x, k) y = Conv (c, w)", "", True),
]  # fmt: skip


@pytest.mark.parametrize(("nodes", "shape", "stays"), BESIDE)
def test_a_scale_is_told_of_where_it_stays(nodes: str, shape: str, stays: bool, tmp_path: Path) -> None:
    numbers = "2,3" if "2" in shape else "2"
    body = nodes.replace(") ", ")\n")
    weights = f"<float[2,2,1,1] w = {{1,2,3,4}}, float{shape} k = {{{numbers}}}>"
    text = f"{HEAD17} g (float[1,2,4,4] x) => (float[1,2,4,4] y) {weights} {{ {body} }}"
    path = saved(onnx.parser.parse_model(text), tmp_path)
    left = optimised(path)
    assert (
        bool(rule_findings("GRA016", path))
        == stays
        == bool(sum(left[op] for op in ("Mul", "Add", "Sub", "Div")))
    )


def test_a_batch_normalization_between_convolutions_goes_into_the_first(tmp_path: Path) -> None:
    second = CONV.replace("y = Batch", "n = Batch").replace("s, s) }", "s, s)\n y = Conv (n, w) }")
    path = saved(onnx.parser.parse_model(HEAD17 + second), tmp_path)
    assert rule_findings("GRA016", path) == []
    left = optimised(path)
    assert (left["Conv"], left["BatchNormalization"]) == (2, 0)


def test_a_batch_normalization_before_a_gemm_stays_and_is_told_of(tmp_path: Path) -> None:
    held = "".join(f", float[2] {name} = {{1,2}}" for name in "sbmv")
    text = f"{HEAD17} g (float[4,2] x) => (float[4,2] y) <float[2,2] w = {{1,2,3,4}}{held}> {{ r = Relu (x)\n"
    path = saved(
        onnx.parser.parse_model(text + "n = BatchNormalization (r, s, b, m, v)\n y = Gemm (n, w) }"), tmp_path
    )
    (told,) = rule_findings("GRA016", path)
    assert told.plan is not None and optimised(path)["BatchNormalization"] == 1


def test_optimisers_that_are_left_out_are_told(tmp_path: Path) -> None:
    facts = Facts(plan=Plan(settings={"disabled_optimizers": "GeluFusionL2;MatMulAddFusion"}))
    (told,) = rules.find_rule("SES002").findings(facts)
    assert told.plan is None and "GeluFusionL2, MatMulAddFusion" in told.what
