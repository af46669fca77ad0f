"""The same graph under other names has the same digest, and any other graph another."""

from __future__ import annotations

import onnx_ir as ir
import pytest
from onnx import parser

from ortune.graph.fingerprints import model_fingerprint

PLAIN = """
    <ir_version: 8, opset_import: ["": 17]>
    plain (float[2, 3] x, bool b) => (float[2, 3] y)
    <float[3] w = {1, 2, 3}>
    {
        s = Add(x, w)
        r = Relu(s)
        t = Tanh(s)
        y = If (b) <
            then_branch = one () => (float[2, 3] u) { u = Mul(r, t) },
            else_branch = two () => (float[2, 3] v) { v = Identity(r) }
        >
    }
"""


def digest(text: str) -> str:
    return model_fingerprint(ir.from_proto(parser.parse_model(text)))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("s = Add(x, w)", "[first] s = Add(x, w)"),
        ("s", "sum"),
        ("u", "inner"),
        ("w", "bias"),
        ("r = Relu(s)\n        t = Tanh(s)", "t = Tanh(s)\n        r = Relu(s)"),
        ("plain (", "renamed ("),
    ],
)
def test_names_and_order_do_not_count(old: str, new: str) -> None:
    words = {"s", "u", "w"}
    text = PLAIN
    if old in words:
        for before, after in ((" ", " "), ("(", ","), ("(", ")"), (" ", ")")):
            text = text.replace(f"{before}{old}{after}", f"{before}{new}{after}")
    else:
        text = text.replace(old, new)
    assert text != PLAIN
    assert digest(text) == digest(PLAIN)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("{1, 2, 3}", "{1, 2, 4}"),
        ("Relu(s)", "Relu(x)"),
        ("Tanh(s)", "Sigmoid(s)"),
        ("Identity(r)", "Identity(t)"),
        ("float[2, 3] x", "float[4, 3] x"),
        ("Mul(r, t)", "Mul(t, r)"),
        ("float[2, 3] y)", "float[2, 3] y, float[2, 3] t)"),
        ("r = Relu(s)", "r = LeakyRelu<alpha = 0.1>(s)"),
    ],
)
def test_anything_else_does(old: str, new: str) -> None:
    text = PLAIN.replace(old, new)
    assert text != PLAIN
    assert digest(text) != digest(PLAIN)


def test_a_value_that_is_computed_twice_is_another_graph() -> None:
    twice = PLAIN.replace("t = Tanh(s)", "o = Relu(s) t = Tanh(s)")
    assert digest(twice) != digest(PLAIN)


def test_what_functions_do_counts() -> None:
    text = """
        <ir_version: 8, opset_import: ["": 17, "own": 1]>
        calls (float[2] x) => (float[2] y) { y = own.twice(x) }
        <domain: "own", opset_import: ["": 17]>
        twice (a) => (b) { b = Add(a, a) }
    """
    assert digest(text) == digest(
        text.replace("(a) => (b) { b = Add(a, a) }", "(c) => (d) { d = Add(c, c) }")
    )
    assert digest(text) != digest(text.replace("Add(a, a)", "Mul(a, a)"))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('opset_import: ["": 11]', 'opset_import: ["": 13]'),
        ("s = Sub (a, b)", "s = Sub (b, a)"),
        ("float a, float b", "float b"),
        ("t = Add (inner, outer)", "t = Add (inner, own)"),
    ],
)
def test_what_a_caller_may_give_and_what_a_body_is_given_are_told_apart(one: str, other: str) -> None:
    text = """
        <ir_version: 8, opset_import: ["": 11]>
        both (int64 n, float a, float b) => (float z, float[2,2,2] m)
        <float a = {1}, float b = {1}, int64 outer_n = {3}, int64 inner_n = {2}, bool go = {1},
         float[2,2,2] k = {1, 2, 3, 4, 5, 6, 7, 8}>
        {
            s = Sub (a, b)
            m = Softmax<axis = 1> (k)
            z = Loop (outer_n, go, s) <
                body = first (int64 outer, bool c, float v) => (bool c2, float v2) {
                    c2 = Identity (c)
                    v2 = Loop (inner_n, c, v) <
                        body = second (int64 own, bool d, float inner_v) => (bool d2, float u) {
                            d2 = Identity (d)
                            inner = Cast<to = 7> (inner_v)
                            t = Add (inner, outer)
                            u = Cast<to = 1> (t)
                        }
                    >
                }
            >
        }
    """
    assert text.count(one) == 1
    assert digest(text) != digest(text.replace(one, other))
