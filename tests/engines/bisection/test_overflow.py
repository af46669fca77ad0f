"""Of NaN that is made of an infinity, the node that overflowed is named first, and a mask is not blamed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from onnx_text import model_of, saved
from ortune.engines.bisection.levels import first_not_finite
from ortune.records import NonFiniteOutput, NotFinite
from ortune.rules import Facts, rule_of
from ortune.rules.measurement import non_finite_outputs
from settled import settled

HALF = np.float16
MASK = np.array([0, 0, 0, 0, 0, 0, -np.inf, -np.inf], np.float32)
LARGE = np.array([[1, 2, 3, 4, 5, 200, 6, 7]] * 4, np.float32)
"""One column whose exponential is no float32; whose square is no float16 either, in tens."""


def asked(text: str, folder: Path, weights: dict[str, np.ndarray], x: np.ndarray | None = None) -> NotFinite:
    """Where the values of a model that are not finite come from, seen in a run of it."""
    path = saved(folder / "m.onnx", model_of(text, weights=weights))
    inputs = None
    if x is not None:
        inputs = folder / "x.npz"
        np.savez(inputs, x=x)
    held = settled(path, folder, inputs)
    place = first_not_finite(held.side, held.refs[0], held.executor, folder / "values")
    assert place is not None
    return place


EXP_DIV = """g (float[4,8] x) => (float[4,8] y) {
    [z] z = Mul (x, none) [l] l = Add (z, large)
    [e] e = Exp (l) [s] s = ReduceSum <keepdims = 1> (e, last) [d] y = Div (e, s)
}"""
POW_SUB = """g (float[4,8] x) => (float[4,8] y) {
    [z] z = Mul (x, none) [l] l = Add (z, large) [h] h = Cast <to = 10> (l)
    [p] p = Pow (h, three) [r] r = Transpose (p) [b] b = Transpose (r) [m] m = Sub (b, b) [c] y = Cast <to = 1> (m)
}"""
"""Between a Pow and a Sub alone ONNX Runtime would compute in float32, in which nothing overflows."""
MASKED_EXP = """g (float[4,8] x) => (float[4,8] y) {
    [z] z = Mul (x, none) [l] l = Add (z, large) [k] k = Add (l, mask)
    [e] e = Exp (k) [s] s = ReduceSum <keepdims = 1> (e, last) [d] y = Div (e, s)
}"""
MASKED_SCORES = """g (float[4,8] x) => (float[4,8] y) {
    [z] z = Mul (x, none) [l] l = Add (z, large) [h] h = Cast <to = 10> (l)
    [q] q = Mul (h, thousand) [k] k = Where (kept, low, q) [r] r = Transpose (k) [b] b = Transpose (r)
    [s] s = Softmax (b) [c] y = Cast <to = 1> (s)
}"""
LOGARITHM = """g (float[4,8] x) => (float[4,8] y) {
    [z] z = Mul (x, none) [l] l = Log (z) [m] y = Mul (z, l)
}"""
LOG_MASK = """g (float[4,8] x) => (float[4,8] y) {
    [z] z = Mul (x, none) [l] l = Add (z, large) [g] g = Log (keep) [k] k = Add (l, g)
    [s] s = Softmax (k) [t] t = Sub (s, one) [r] r = Sqrt (t) [m] y = Add (r, z)
}"""
QUOTIENT = """g (float[4,8] x) => (float[4,8] y) {
    [z] z = Mul (x, none) [a] a = Abs (x) [o] o = Add (a, one) [i] i = Div (o, z) [f] f = Flatten (i)
    [m] y = Mul (f, z)
}"""

WEIGHTS = {
    "none": np.zeros(1, np.float32),
    "one": np.ones(1, np.float32),
    "large": LARGE,
    "last": np.array([1], np.int64),
    "three": np.array([3], HALF),
    "thousand": np.array([1000], HALF),
    "low": np.array([-np.inf], HALF),
    "kept": np.array([False] * 6 + [True] * 2),
    "keep": np.array([1] * 6 + [0] * 2, np.float32),
    "mask": MASK,
}


def used(text: str) -> dict[str, np.ndarray]:
    """The weights of which a text speaks."""
    words = set(text.replace(",", " ").replace("(", " ").replace(")", " ").split())
    return {name: value for name, value in WEIGHTS.items() if name in words}


@pytest.mark.parametrize(
    ("text", "node", "kind", "nan"),
    [
        pytest.param(EXP_DIV, "e", "overflow", "d", id="infinity over infinity"),
        pytest.param(POW_SUB, "p", "overflow", "m", id="infinity less infinity in float16"),
        pytest.param(MASKED_EXP, "e", "overflow", "d", id="beside a mask of minus infinity"),
        pytest.param(MASKED_SCORES, "q", "overflow", "s", id="scores that overflow before a mask"),
        pytest.param(LOGARITHM, "l", "division-by-zero", "m", id="a logarithm of 0 times 0"),
        pytest.param(QUOTIENT, "i", "division-by-zero", "m", id="a division by 0 times 0"),
        pytest.param(LOG_MASK, "r", "", None, id="a root of negative numbers behind a mask"),
    ],
)
def test_the_node_that_makes_the_first_infinity_is_named(
    text: str, node: str, kind: str, nan: str | None, tmp_path: Path
) -> None:
    place = asked(text, tmp_path, used(text))
    assert (place.node.name, place.infinity) == (node, kind)
    assert (None if place.nan_node is None else place.nan_node.name) == nan
    assert (place.n_inf > 0) == bool(kind) and place.reaches
    assert not place.weight


MASKED_ROW = """g (float[4,8] x) => (float[4,8] y) {
    [e] e = Exp (x) [k] k = Add (e, low) [s] s = Softmax (k) [m] y = Mul (s, one)
}"""


def test_a_mask_of_a_whole_row_is_a_weight_and_no_overflow(tmp_path: Path) -> None:
    place = asked(MASKED_ROW, tmp_path, {"low": np.full(8, -np.inf, np.float32), "one": WEIGHTS["one"]})
    assert (place.node.name, place.infinity, place.nan_node) == ("s", "", None)
    assert (place.weight, place.weight_n_inf) == ("low", 8)


def test_an_infinity_of_the_users_own_inputs_is_no_overflow(tmp_path: Path) -> None:
    x = np.zeros((4, 8), np.float32)
    x[2] = -np.inf
    text = "g (float[4,8] x) => (float[4,8] y) { [a] a = Add (x, one) [s] y = Softmax (a) }"
    place = asked(text, tmp_path, {"one": WEIGHTS["one"]}, x)
    assert (place.node.name, place.infinity, place.nan_node, place.weight) == ("s", "", None, "")
    assert (place.input, place.input_n_nan, place.input_n_inf) == ("x", 0, 8)


def test_values_larger_than_their_samples_are_followed(tmp_path: Path) -> None:
    text = """g (float[600,600] x) => (float[600,600] y) {
        [a] a = Abs (x) [l] l = Add (a, large) [k] k = Add (l, mask) [e] e = Exp (k)
        [s] s = ReduceSum <keepdims = 1> (e, last) [d] y = Div (e, s)
    }"""
    mask = np.zeros((1, 600), np.float32)
    mask[0, ::3] = -np.inf
    weights = {"large": np.array([200], np.float32), "mask": mask, "last": WEIGHTS["last"]}
    place = asked(text, tmp_path, weights)
    assert (place.node.name, place.infinity) == ("e", "overflow")
    assert place.nan_node is not None and place.nan_node.name == "d"


def test_the_alert_says_which_node_overflows_before_the_one_that_makes_nan(tmp_path: Path) -> None:
    place = asked(POW_SUB, tmp_path, used(POW_SUB))
    output = NonFiniteOutput(name="y", n_elements=32, nonfinite_reference=4, unusable_reference=4)
    (alert,) = rule_of(non_finite_outputs).findings(replace(Facts(), nonfinite=(output,), not_finite=place))
    assert alert.where == ("p", "m")
    assert "'p' (Pow) overflows to infinity in float16" in alert.what
    assert alert.what.index("'p'") < alert.what.index("'m' (Sub) turns it into NaN")
    assert "float32" in alert.fix and "'p'" in alert.fix
