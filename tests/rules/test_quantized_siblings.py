"""Trouble with 8 bits that users reported, in other spellings than the one that its rule was written for."""

from __future__ import annotations

from pathlib import Path

import msgspec
import onnx
import onnx.parser
import pytest
from onnx import helper
from optimised_graphs import optimised_model
from rule_examples import HOST
from rule_facts import findings_in, graph_text

from ortune import rules
from ortune.graph.model.open import open_model
from ortune.rules import Facts

PAIR = "q = QuantizeLinear (x, s, z)\n dx = DequantizeLinear (q, s, z)\n"
CLOSED = "o = QuantizeLinear (p, s, z)\n y = DequantizeLinear (o, s, z)"
NUMBERS = "float s = {0.5}, uint8 z = {128}, int8[2,2] w = {1,2,3,4}, int8 t = {0}, float sb = {0.25}"
ENDS = "int32[2] b = {8,2147483647}"


@pytest.mark.parametrize(
    ("product", "bias", "named"),
    [
        ("p = Gemm <beta = 0.5> (dx, dw, db)", "int32[2] b = {8,9}", "its beta is 0.5, not 1"),
        ("p = Gemm <alpha = 2.0, transB = 1> (dx, dw, db)", "int32[2] b = {8,9}", "its alpha is 2, not 1"),
        ("p = Gemm <alpha = 1.0, beta = 1.0> (dx, dw, db)", "int32[2] b = {8,9}", ""),
    ],
)
def test_factors_of_a_product_between_pairs(product: str, bias: str, named: str, tmp_path: Path) -> None:
    body = f"{PAIR}dw = DequantizeLinear (w, s, t)\n db = DequantizeLinear (b, sb)\n {product}\n {CLOSED}"
    evidence = [
        f.evidence for f in findings_in(graph_text(body, weights=f"<{NUMBERS}, {bias}>"), "QNT010", tmp_path)
    ]
    assert evidence == ([named] if named else [])


@pytest.mark.parametrize(
    ("body", "bias", "named"),
    [
        ("c = Identity (b)\n db = DequantizeLinear (c, sb)\n y = Add (x, db)", ENDS, True),
        ("y = QLinearConv (x, s, z, v, s, t, s, z, b)", ENDS, True),
        ("y = QLinearConv (x, s, z, v, s, t, s, z, b)", "int32[2] b = {8,2147000000}", False),
    ],
)
def test_a_bias_at_its_ends(body: str, bias: str, named: bool, tmp_path: Path) -> None:
    conv = "QLinearConv" in body
    sides = {"x": "uint8[1,2,4,4] x", "y": "uint8[1,2,4,4] y"} if conv else {}
    weights = f"<{NUMBERS}, int8[2,2,1,1] v = {{1,2,3,4}}, {bias}>"
    findings = findings_in(graph_text(body, weights=weights, **sides), "QNT012", tmp_path)
    assert [finding.where for finding in findings] == ([("b",)] if named else [])


UNLIKE = "127,0,1,2,90,1,60,100"


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ("y = MatMulInteger (x, w, z, t)", True),
        ("y = QLinearMatMul (x, s, z, w, s, t, s, z)", True),
        ("y = QLinearMatMul (x, s, z, w, each, t, s, z)", False),
    ],
)
def test_channels_under_one_scale(body: str, named: bool, tmp_path: Path) -> None:
    weights = f"<float s = {{0.5}}, uint8 z = {{128}}, int8 t = {{0}}, int8[1,8] w = {{{UNLIKE}}}, "
    weights += "float[8] each = {1,1,1,1,1,1,1,1}>"
    kind = "int32" if "Integer" in body else "uint8"
    model = graph_text(body, x="uint8[4,1] x", y=f"{kind}[4,8] y", weights=weights)
    assert bool(findings_in(model, "QNT014", tmp_path)) == named


@pytest.mark.parametrize(
    ("body", "domain", "named"),
    [
        ("t1 = Transpose (dw)\n y = Gemm (x, t1)", "", True),
        ("y = Gemm <transB = 1> (x, dw)", "", True),
        ("y = DynamicQuantizeMatMul (x, wt, one, t)", "com.microsoft", True),
        ("y = DynamicQuantizeMatMul (x, wt, each, zeros)", "com.microsoft", False),
    ],
)
def test_channels_under_one_scale_of_other_products(
    body: str, domain: str, named: bool, tmp_path: Path
) -> None:
    weights = f"<float s = {{0.5}}, int8 t = {{0}}, int8[8,1] w = {{{UNLIKE}}}, int8[1,8] wt = {{{UNLIKE}}}, "
    weights += "float[1] one = {0.5}, float[8] each = {1,1,1,1,1,1,1,1}, int8[8] zeros = {0,0,0,0,0,0,0,0}>"
    model = onnx.parser.parse_model(
        graph_text(
            f"dw = DequantizeLinear (w, s, t)\n {body}", x="float[4,1] x", y="float[4,8] y", weights=weights
        )
    )
    model.graph.node[-1].domain = domain
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    assert bool(findings_in(model, "QNT014", tmp_path)) == named


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ("r = Gather (dw, i)\n y = Relu (r)", True),
        ("r = Gather (dw, i)\n o = QuantizeLinear (r, s, t)\n y = DequantizeLinear (o, s, t)", True),
        ("a, h = RNN <hidden_size = 2> (x, dv, v)\n y = Squeeze (h)", True),
        ("y = MatMul (k, dw)", False),
    ],
)
def test_weights_dequantized_for_tables_and_recurrences(body: str, named: bool, tmp_path: Path) -> None:
    """Each stays in the graph that ONNX Runtime optimises, beside a product that becomes MatMulNBits."""
    weights = f"<{NUMBERS}, int8[1,2,2] w1 = {{1,2,3,4}}, float[1,2,2] v = {{1,2,3,4}}>"
    before = "dv = DequantizeLinear (w1, s, t)" if "RNN" in body else "dw = DequantizeLinear (w, s, t)"
    model = graph_text(
        f"{before}\n {body}", x="int64[3] i, float[3,1,2] x, float[3,2] k", y="float[n,m] y", weights=weights
    )
    assert bool(findings_in(model, "QNT013", tmp_path)) == named
    left = optimised_model(tmp_path / "m.onnx")
    makers = {node.output[0]: node for node in left.graph.node}
    floats = [node for node in left.graph.node if node.op_type in ("Gather", "RNN")]
    fed = [makers[name].op_type for node in floats for name in node.input if name in makers]
    assert ("DequantizeLinear" in fed) == named


@pytest.mark.parametrize("code", ["QNT003", "QNT009"])
def test_weights_behind_a_copy_are_weights(code: str, tmp_path: Path) -> None:
    kind, features = ("uint8", ("avx512_vnni",)) if code == "QNT003" else ("int8", ("avx2",))
    product = "c = Identity (w)\n dw = DequantizeLinear (c, s, t)\n i = Identity (dw)\n p = MatMul (dx, i)"
    body = f"{PAIR}{product}\n {CLOSED}"
    weights = f"<float s = {{0.5}}, uint8 z = {{128}}, {kind}[2,2] w = {{100,2,3,4}}, {kind} t = {{0}}>"
    onnx.save(onnx.parser.parse_model(graph_text(body, weights=weights)), tmp_path / "m.onnx")
    host = msgspec.structs.replace(HOST, features=features)
    facts = Facts(model=open_model(tmp_path / "m.onnx"), host=host)
    assert rules.find_rule(code).findings(facts)
