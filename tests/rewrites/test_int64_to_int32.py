"""Whole numbers in 32 bits: only what is proven to fit, equal in ONNX Runtime, near misses told."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
import onnxruntime as ort
import pytest

from onnx_text import model_of
from ortune import rewrites
from ortune.rewrites._ranges import ranges
from ortune.rewrites.int64_to_int32 import REWRITE

ort.set_default_logger_severity(4)
Feeds = dict[str, np.ndarray]


def model(text: str) -> ir.Model:
    proto = model_of(text)
    onnx.checker.check_model(proto)
    return ir.from_proto(proto)


def run(given: ir.Model, feeds: Feeds) -> list[np.ndarray]:
    proto = ir.to_proto(given)
    onnx.checker.check_model(proto)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(
        None, feeds
    )


def wide(given: ir.Model) -> set[str]:
    """Operators that ONNX Runtime finds to compute int64, by types that it infers."""
    inferred = onnx.shape_inference.infer_shapes(ir.to_proto(given))
    types = {
        v.name: v.type.tensor_type.elem_type for v in (*inferred.graph.value_info, *inferred.graph.input)
    }
    types |= {t.name: t.data_type for t in inferred.graph.initializer}
    return {
        node.op_type
        for node in inferred.graph.node
        if node.op_type not in ("Cast", "Gather")
        # Shapes and axes stay what they are.
        and any(
            types.get(name) == onnx.TensorProto.INT64
            for name in (node.input[:1] if node.op_type in ("Reshape", "ReduceSum") else node.input)
        )
    }


TOKENS = """
tokens (int64[2,4] ids, float[96,8] table) => (float[2,4,8] y, float[2,4] mask, int64[2,4] next)
<int64[1] one = {1}, int64 pad = {0}, int64[1] zero = {0}, int64[1] top = {95}>
{
    y = Gather (table, ids)
    is_pad = Equal (ids, pad)
    mask = Cast <to = 1> (is_pad)
    moved = Add (ids, one)
    kept = Mod (moved, top)
    next = Where (is_pad, kept, zero)
}
"""
PICKED = """
picked (float[3,7] x, bool[3,7] on) => (float[3] y, int64[3] z)
<int64[1] one = {1}, int64[1] shape = {3}, int64[1] axes = {1}>
{
    best = ArgMax <axis = 1, keepdims = 0> (x)
    flat = Reshape (best, shape)
    later = Mul (flat, flat)
    whole = Cast <to = 7> (on)
    count = ReduceSum <keepdims = 0> (whole, axes)
    z = Sub (later, count)
    y = Cast <to = 1> (z)
}
"""


@pytest.mark.parametrize(
    ("text", "feeds"),
    [
        (
            TOKENS,
            {
                "ids": np.array([[0, 95, -96, 3], [7, 0, 1, 2]]),
                "table": np.random.default_rng(0).standard_normal((96, 8), dtype=np.float32),
            },
        ),
        (
            PICKED,
            {
                "x": np.random.default_rng(1).standard_normal((3, 7), dtype=np.float32),
                "on": np.random.default_rng(2).random((3, 7)) > 0.5,
            },
        ),
    ],
    ids=["tokens", "picked"],
)
def test_it_computes_the_same(text: str, feeds: Feeds) -> None:
    given = model(text)
    made = given.clone()
    result = REWRITE.apply(made)
    assert result.modified and not result.reasons, result
    assert wide(given) and not wide(made)
    for ours, theirs in zip(run(made, feeds), run(given, feeds), strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)
    before = ir.to_proto(made).SerializeToString()
    assert not REWRITE.apply(made).modified
    assert ir.to_proto(made).SerializeToString() == before


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("g (int64[4] x) => (int64[4] y) <int64[1] one = {1}> { y = Add (x, one) }", "'x' in Add is unknown"),
        (
            "g (int64[4] x, float[8,2] t) => (float[4,2] z, int64[4] y) <int64[1] much = {1000000000000}> "
            "{ z = Gather (t, x)\n y = Mul (x, much) }",
            "exceeds int32",
        ),
        (
            "g (float[4] x) => (int64[4] y) <int64[1] one = {1}> { w = Cast <to = 7> (x)\n y = Add (w, one) }",
            "'w' in Add is unknown",
        ),
        (
            "g (int64[4] x, float[n,2] t) => (float[4,2] z, int64[4] y) <int64[1] one = {1}> "
            "{ z = Gather (t, x)\n y = Add (x, one) }",
            "'x' in Add is unknown",
        ),
    ],
    ids=["unknown", "too-large", "from-float", "open-axis"],
)
def test_what_is_not_proven_is_left_and_told(text: str, said: str) -> None:
    made = model(text)
    before = ir.to_proto(made).SerializeToString()
    result = REWRITE.apply(made)
    assert not result.modified and said in result.reasons[0]
    assert ir.to_proto(made).SerializeToString() == before
    assert not REWRITE.proposes(made, None)


def test_a_step_beyond_32_bits_is_not_hidden_by_what_follows() -> None:
    """The product leaves 32 bits and comes back: in 32 bits it would have wrapped."""
    made = model(
        "g (int64[4] x, float[90000,1] t) => (float[4,1] z, int64[4] y) <int64[1] d = {100000}> "
        "{ z = Gather (t, x)\n p = Mul (x, x)\n y = Div (p, d) }"
    )
    result = REWRITE.apply(made)
    assert not result.modified and result.reasons[0].startswith("'p' in Mul")
    assert "exceeds int32" in result.reasons[0]


@pytest.mark.parametrize("bounds", ["low", '"", fed'])
def test_a_bound_beyond_what_is_clipped_counts(bounds: str) -> None:
    given = model(
        "g (uint8[4] x, int64 fed) => (int64[4] y) <int64 low = {1000000}, int64 factor = {10000}> "
        f"{{ w = Cast <to = 7> (x)\n c = Clip (w, {bounds})\n y = Mul (c, factor) }}"
    )
    made = given.clone()
    REWRITE.apply(made)
    feeds = {"x": np.array([0, 1, 7, 255], np.uint8), "fed": np.array(-(2**40))}
    np.testing.assert_array_equal(run(made, feeds)[0], run(given, feeds)[0])


def test_shape_arithmetic_stays() -> None:
    made = model(
        "g (float[n,4] x) => (float[m] y) <int64[1] four = {4}> "
        "{ s = Shape <start = 0, end = 1> (x)\n p = Mul (s, four)\n y = Reshape (x, p) }"
    )
    assert not REWRITE.apply(made).modified


def test_a_lookup_that_nobody_needs_proves_nothing() -> None:
    made = model(
        "g (int64[4] x, float[8,2] t) => (int64[4] y) <int64[1] one = {1}> "
        "{ z = Gather (t, x)\n r = Relu (z)\n y = Add (x, one) }"
    )
    assert not REWRITE.apply(made).modified


def test_an_overridable_constant_proves_nothing() -> None:
    proto = model_of(
        "g (int64[4] x, float[8,2] t, int64[1] one) => (float[4,2] z, int64[4] y) <int64[1] one = {1}> "
        "{ z = Gather (t, x)\n y = Add (x, one) }"
    )
    assert not REWRITE.apply(ir.from_proto(proto)).modified


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("Neg (b)", (-95, 96)),
        ("Abs (b)", (0, 96)),
        ("Sign (b)", (-1, 1)),
        ("Sub (b, b)", (-191, 191)),
        ("Mul (b, seven)", (-672, 665)),
        ("Div (b, seven)", (-13, 13)),
        ("Mod (b, seven)", (0, 6)),
        ("Mod <fmod = 1> (b, seven)", (-6, 6)),
        ("Max (b, seven)", (-96, 95)),
        ("Clip (b, zero, seven)", (0, 7)),
        ("Clip (b, seven, zero)", (0, 0)),
        ("Clip (b, seven)", (7, 95)),
        ('Clip (b, "", seven)', (-96, 7)),
        ("Clip (much, zero, seven)", (0, 7)),
        ("Clip (b, much)", None),
        ('Clip (b, "", much)', None),
        ("CumSum (b, zero)", (-384, 380)),
        ("ReduceSum <keepdims = 0> (b)", (-384, 380)),
        ("Concat <axis = 0> (b, ones)", (-96, 95)),
        ("Range (zero, seven, seven)", (-7, 7)),
        ("Transpose (b)", (-96, 95)),
        ("Div (b, zero)", None),
    ],
)
def test_ranges_hold_all_that_is_computed(expression: str, expected: tuple[int, int] | None) -> None:
    made = model(
        "g (int64[4] b, int64 much, float[96,1] t) => (float[4,1] z, int64 y) "
        "<int64 seven = {7}, int64 zero = {0}, int64[1] ones = {1}> "
        f"{{ z = Gather (t, b)\n y = {expression} }}"
    )
    found = {value.name: own for value, own in ranges(made).items()}
    assert found.get("y") == expected
    assert found["b"] == (-96, 95)
    if expected is None:
        return
    rng = np.random.default_rng(0)
    for _ in range(5):
        feeds = {
            "b": rng.integers(-96, 96, 4),
            "much": np.array(rng.integers(-(2**40), 2**40)),
            "t": np.zeros((96, 1), np.float32),
        }
        y = run(made, feeds)[1]
        assert expected[0] <= y.min() and y.max() <= expected[1]


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ("big", (10**6, 10**6)),
        (", seven", (0, 7)),
        ("m", None),
        (", m", None),
        ("m, big", (0, 10**6)),
        ("big, seven", (7, 7)),
        ("big, m", None),
        ("lowest, big", (0, 255)),
    ],
)
def test_a_range_is_clipped_to_bounds_that_are_known(bounds: str, expected: tuple[int, int] | None) -> None:
    given = model(
        "g (uint8[4] u, int64 m) => (int64[4] y) "
        "<int64 seven = {7}, int64 big = {1000000}, int64 lowest = {-9223372036854775808}, int64 times = {10000}> "
        f"{{ a = Cast <to = 7> (u)\n b = Clip (a, {bounds})\n y = Mul (b, times) }}"
    )
    assert {value.name: own for value, own in ranges(given).items()}.get("b") == expected
    made = given.clone()
    REWRITE.apply(made)
    feeds = {"u": np.array([0, 3, 100, 255], np.uint8), "m": np.array(-(2**40))}
    np.testing.assert_array_equal(run(made, feeds)[0], run(given, feeds)[0])


def test_it_is_of_use_on_gpus_alone() -> None:
    given = model(TOKENS)
    assert not [s for s, _ in rewrites.proposals(given) if s.name == REWRITE.name]
    assert [s for s, _ in rewrites.proposals(given, target="web-webgpu") if s.name == REWRITE.name]
    assert REWRITE.name in [s.name for s in rewrites.pipeline(given, target="web-webgpu")]
    assert REWRITE.name not in [s.name for s in rewrites.pipeline(given)]
