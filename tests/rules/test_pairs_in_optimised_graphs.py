"""What rules say of pairs of QuantizeLinear and DequantizeLinear that stay, held against ONNX Runtime's graph."""

from __future__ import annotations

from pathlib import Path

import pytest
from optimised_graphs import ONES, edited, optimised, rule_findings, saved
from rule_facts import HOST

from facts import facts
from ortune.targets.machine import Machine

PAIRS = """ pairs (float[8,4,1,1] x) => (float[8,4,1,1] y)
<int8[4,4,1,1] w = {ONES}, float s = {0.1}, uint8 z = {0}, uint8 m = {128}, int8 t = {0},
 float lo = {0.0}, float hi = {6.0}>
{ q = QuantizeLinear (x, s, z)
  i = DequantizeLinear (q, s, z)
  k = DequantizeLinear (w, s, t)
  p = Conv (i, k)
  o = QuantizeLinear (p, s, z)
  y = DequantizeLinear (o, s, z) }""".replace("ONES", ONES)
MATRIX = PAIRS.replace("[8,4,1,1]", "[8,4]").replace("[4,4,1,1]", "[4,4]").replace("Conv", "MatMul")
SYMMETRIC = {"o = Q": "r = Relu (p)\n o = Q", "(p, s, z)": "(r, s, t)", "(o, s, z)": "(o, s, t)"}
OPEN = {
    "Relu stays, because the zero point of QuantizeLinear is 0, not -128": SYMMETRIC,
    "Relu stays, because the zero point of QuantizeLinear is 128, not 0": {
        "o = Q": "r = Relu (p)\n o = Q", "(p, s, z)": "(r, s, m)", "(o, s, z)": "(o, s, m)",
    },
    "Clip stays, because its range 0 to 6 is narrower than 0 to 25.5 of QuantizeLinear": {
        "o = Q": "r = Clip (p, lo, hi)\n o = Q", "(p, s, z)": "(r, s, z)",
    },
    "its input is not quantized: it is a graph input": {"(i, k)": "(x, k)"},
    "its input is not quantized: Sigmoid produces it": {"(i, k)": "(f, k)", "p = ": "f = Sigmoid (i)\n p = "},
}  # fmt: skip
CLOSED = {
    "a Relu, and the zero point is the least number": {"o = Q": "r = Relu (p)\n o = Q", "(p, s, z)": "(r, s, z)"},
    "a Clip beyond what eight bits hold": {
        "{6.0}": "{60.0}", "o = Q": "r = Clip (p, lo, hi)\n o = Q", "(p, s, z)": "(r, s, z)",
    },
    "a Transpose behind": {
        "o = Q": "r = Transpose (p)\n o = Q", "(p, s, z)": "(r, s, z)", ") => (float[8,4": ") => (float[a,b",
    },
    "an Identity before": {"(i, k)": "(f, k)", "p = ": "f = Identity (i)\n p = "},
}  # fmt: skip


QUANTIZED = pytest.mark.parametrize(
    ("code", "text", "operator"), [("QNT004", PAIRS, "QLinearConv"), ("QNT010", MATRIX, "QLinearMatMul")]
)


@QUANTIZED
@pytest.mark.parametrize("reason", OPEN)
def test_the_reason_why_pairs_stay_is_told_and_holds(
    code: str, text: str, operator: str, reason: str, tmp_path: Path
) -> None:
    path = saved(edited(text, OPEN[reason]), tmp_path)
    (told,) = rule_findings(code, path)
    assert told.evidence == reason
    assert not optimised(path)[operator]


@QUANTIZED
@pytest.mark.parametrize(("kind", "told"), [("t", "its output is int8 and read by several nodes"), ("z", "")])
def test_values_of_int8_that_are_read_twice_keep_pairs_apart_on_x86(
    code: str, text: str, operator: str, kind: str, told: str, tmp_path: Path
) -> None:
    twice = {
        "s, z) }": "s, z)\n n = Neg (y) }",
        "1] y)\n": "1] y, float[8,4,1,1] n)\n",
        "4] y)\n": "4] y, float[8,4] n)\n",
    }
    model = edited(text, {was: becomes for was, becomes in twice.items() if was in text})
    for node in model.graph.node[-4:]:
        if node.op_type in ("QuantizeLinear", "DequantizeLinear") and node.input[0] in ("p", "o"):
            node.input[2] = kind
    path = saved(model, tmp_path)
    assert [each.evidence for each in rule_findings(code, path)] == [told][: bool(told)]
    if HOST.machine == Machine().host.machine:
        assert bool(optimised(path)[operator]) == (not told)


@QUANTIZED
@pytest.mark.parametrize("way", ["nothing else", *CLOSED])
def test_pairs_that_go_into_the_product_are_not_told_of(
    code: str, text: str, operator: str, way: str, tmp_path: Path
) -> None:
    model = edited(text, CLOSED.get(way, {}))
    path = saved(model, tmp_path)
    assert rule_findings(code, path) == []
    assert optimised(path)[operator] == 1


def test_a_product_that_others_read_too_stays_and_one_without_quantizing_behind_does_not(
    tmp_path: Path,
) -> None:
    shared = {"y = D": "n = Neg (p)\n y = D", "[8,4] y)": "[8,4] y, float[8,4] n)"}
    path = saved(edited(MATRIX, shared), tmp_path)
    (told,) = rule_findings("QNT010", path)
    facts(told.evidence, "QuantizeLinear", "not the only reader")
    assert optimised(path)["MatMul"] == 1
    last = {"o = QuantizeLinear (p, s, z)": "", "DequantizeLinear (o, s, z)": "Neg (p)"}
    path = saved(edited(MATRIX, last), tmp_path)
    assert rule_findings("QNT010", path) == [] and optimised(path)["MatMulIntegerToFloat"] == 1
