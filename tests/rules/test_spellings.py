"""What a rule names in any spelling: its rewrite mends it, and what ONNX Runtime mends by itself is silent."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import onnx
import onnx.parser
import onnxruntime as ort
import pytest

from onnx_text import model_of, saved
from ortune import rewrites, rules
from ortune.graph.model.open import open_model
from ortune.rules import Facts
from ortune.rules.graph import unfused_layer_normalization

NUMBERS = """<float root = {1.41421356}, float two = {2}, float one = {1}, float half = {0.5},
    float[2,2,1,1] w = {1,2,3,4}, float[2,1,1] k = {1,2}, float[2] s = {1,2}, float[2] b = {0,1}, float[2] v = {1,2}>"""

# The rule, what ONNX Runtime keeps of it, and the nodes from x (1x2x4x4) to y.
STAYS = [
    ("GRA012", "Erf", "d = Div (x, root) e = Erf (d) m = Mul (e, half) a = Add (half, m) y = Mul (a, x)"),
    ("GRA012", "Erf", "d = Div (x, root) n = Neg (d) e = Erf (n) a = Sub (one, e) m = Mul (x, a) y = Mul (m, half)"),
    ("GRA012", "Erf", "q = Sqrt (two) d = Div (x, q) e = Erf (d) a = Add (e, one) m = Mul (a, half) y = Mul (x, m)"),
    ("PRC004", "Cast", "h = Cast <to = 10> (x) i = Identity (h) y = Cast <to = 1> (i)"),
    ("PRC004", "Cast", "h = Cast <to = 16> (x) i = Transpose <perm = [0,1,3,2]> (h) y = Cast <to = 1> (i)"),
    ("GRA014", "BatchNormalization", "c = ConvTranspose (x, w) a = Add (c, k) y = BatchNormalization (a, s, b, b, v)"),
]  # fmt: skip
GOES = [
    ("GRA012", "Erf", "q = Sqrt (two) d = Div (x, q) e = Erf (d) a = Add (e, one) m = Mul (x, a) y = Mul (m, half)"),
    ("GRA014", "BatchNormalization", "c = ConvTranspose (x, w) y = BatchNormalization (c, s, b, b, v)"),
    ("GRA014", "BatchNormalization", "c = Conv (x, w) y = BatchNormalization (c, s, b, b, v)"),
]  # fmt: skip


def spelled(body: str, folder: Path) -> Path:
    lines = body.replace(") ", ")\n")
    text = f"g (float[1,2,4,4] x) => (float[1,2,4,4] y) {NUMBERS} {{ {lines} }}"
    return saved(folder / "m.onnx", model_of(text))


def optimised(path: Path) -> Counter[str]:
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.optimized_model_filepath = str(path.with_suffix(".optimised.onnx"))
    ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return Counter(node.op_type for node in onnx.load(options.optimized_model_filepath).graph.node)


@pytest.mark.parametrize(("code", "operator", "body"), STAYS)
def test_what_stays_is_named_and_mended(code: str, operator: str, body: str, tmp_path: Path) -> None:
    path = spelled(body, tmp_path)
    assert optimised(path)[operator]
    facts = Facts(model=open_model(path))
    assert facts.model is not None
    (found,) = rules.find_rule(code).findings(facts)
    assert found.plan is not None
    (spec,) = found.plan.rewrites
    assert rewrites.find(spec.name).apply(facts.model.ir, spec.params).modified
    assert rules.find_rule(code).findings(facts) == []
    assert operator not in {node.op_type for node in facts.model.ir.graph}


@pytest.mark.parametrize(("code", "operator", "body"), GOES)
def test_what_onnx_runtime_mends_by_itself_is_silent(
    code: str, operator: str, body: str, tmp_path: Path
) -> None:
    path = spelled(body, tmp_path)
    assert not optimised(path)[operator]
    assert rules.find_rule(code).findings(Facts(model=open_model(path))) == []


ARGUMENTS = re.compile(r"\b(\w+)(?=[,)])")


def copies(text: str) -> Iterator[str]:
    """The model, each time with a copy by Identity in place of another input of a node."""
    lines = text.splitlines(keepends=True)
    for at, line in enumerate(lines):
        for argument in ARGUMENTS.finditer(line) if " = " in line and "(" in line else ():
            start, end = argument.span()
            changed = f"    copy = Identity ({argument[1]})\n{line[:start]}copy{line[end:]}"
            yield "".join([*lines[:at], changed, *lines[at + 1 :]])


def test_a_normalisation_with_a_copy_anywhere_is_named_and_mended(tmp_path: Path) -> None:
    rule, spellings = rules.find_rule("GRA011"), [*copies(unfused_layer_normalization.BAD)]
    assert len(spellings) > 10
    for text in spellings:
        onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
        assert not optimised(tmp_path / "m.onnx")["LayerNormalization"]
        facts = Facts(model=open_model(tmp_path / "m.onnx"))
        assert facts.model is not None
        (finding,) = rule.findings(facts)
        assert finding.plan is not None, text
        (spec,) = finding.plan.rewrites
        rewrites.find(spec.name).apply(facts.model.ir, spec.params)
        assert "LayerNormalization" in {node.op_type for node in facts.model.ir.graph}


def test_a_normalisation_with_a_copy_anywhere_is_left_to_onnx_runtime(tmp_path: Path) -> None:
    for text in copies(unfused_layer_normalization.GOOD):
        onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
        assert optimised(tmp_path / "m.onnx")["LayerNormalization"] == 1
        assert rules.find_rule("GRA011").findings(Facts(model=open_model(tmp_path / "m.onnx"))) == []


QUANTIZED = """<ir_version: 8, opset_import: ["" : 17]> g (float[8,2] x) => (float[8,2] y)
    <float s = {0.5}, uint8 z = {128}, int8[2,2] w = {1,2,3,4}, int8 t = {0}, int32[2] b = {8,9},
    float sb = {0.25}, float[2] v = {1,2}> {
    BEFORE
    dw = DequantizeLinear (w, s, t)
    PRODUCT
    BEHIND
}"""
PAIR = "q = QuantizeLinear (x, s, z)\n dx = DequantizeLinear (q, s, z)"
CLOSED = "o = QuantizeLinear (p, s, z)\n y = DequantizeLinear (o, s, z)"


@pytest.mark.parametrize(
    ("code", "before", "product", "behind", "stays"),
    [
        ("QNT010", PAIR, "db = DequantizeLinear (b, sb)\n p = Gemm <alpha = 2.0> (dx, dw, db)", CLOSED, True),
        ("QNT010", PAIR, "db = DequantizeLinear (b, sb)\n p = Gemm (dx, dw, db)", CLOSED, False),
        ("QNT010", f"{PAIR}\n f = Flatten (dx)", "p = MatMul (f, dw)", CLOSED, True),
        ("QNT010", f"{PAIR}\n f = Transpose (dx)\n g = Transpose (f)", "p = MatMul (g, dw)", CLOSED, False),
        ("QNT013", "", "p = MatMul (x, dw)", "r = Relu (p)\n y = Neg (r)", True),
        ("QNT013", "", "p = MatMul (x, dw)", "a = Add (p, v)\n r = Relu (a)\n y = Neg (r)", True),
        ("QNT013", "", "p = MatMul (x, dw)", "y = Tanh (p)", False),
    ],
)
def test_quantized_products_are_named_where_they_stay_in_float(
    code: str, before: str, product: str, behind: str, stays: bool, tmp_path: Path
) -> None:
    text = QUANTIZED.replace("BEFORE", before).replace("PRODUCT", product).replace("BEHIND", behind)
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    left = optimised(tmp_path / "m.onnx")
    assert bool(left["Gemm"] + left["MatMul"] + left["FusedGemm"]) == stays
    assert bool(rules.find_rule(code).findings(Facts(model=open_model(tmp_path / "m.onnx")))) == stays


@pytest.mark.parametrize(("scale", "off"), [("0.001", True), ("0.25", False)])
@pytest.mark.parametrize(
    "between", ["", "f = Reshape (dx, shape)", "i = Identity (dx)\n f = Reshape (i, shape)"]
)
def test_a_bias_is_held_against_the_input_that_is_fused(
    between: str, scale: str, off: bool, tmp_path: Path
) -> None:
    x = "f" if between else "dx"
    product = f"{between}\n db = DequantizeLinear (b, sb)\n p = Gemm ({x}, dw, db)"
    text = QUANTIZED.replace("BEFORE", PAIR).replace("PRODUCT", product).replace("BEHIND", CLOSED)
    text = text.replace("float sb = {0.25}", f"float sb = {{{scale}}}, int64[2] shape = {{8,2}}")
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    assert optimised(tmp_path / "m.onnx")["QGemm"] == 1
    assert bool(rules.find_rule("QNT011").findings(Facts(model=open_model(tmp_path / "m.onnx")))) == off
