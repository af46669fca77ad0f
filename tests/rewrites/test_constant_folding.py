"""Constants and known sizes are computed before a model runs: what is folded, and what stays."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from same_outputs import run
from structural_checks import apply, kinds, same

from facts import facts
from onnx_text import assemble, model_of


def test_known_sizes_and_what_follows_from_them_are_folded() -> None:
    proto = model_of(
        """g (float[n,6,4] x) => (float[n,24] y, int64[1] s)
        <int64 one = {1}, int64[1] zero = {0}, int64[1] all = {-1}, int64[3] six = {6, 7, 8}>
        {
            shape = Shape (x)
            a = Gather (shape, one)
            one_list = Constant <value = int64[1] {1}> ()
            three = Constant <value = int64[1] {3}> ()
            b = Slice (shape, one_list, three)
            product = ReduceProd <keepdims = 1> (b)
            to = Concat <axis = 0> (all, product)
            y = Reshape (x, to)
            l = Unsqueeze (a, zero)
            s = Neg (l)
        }"""
    )
    made, result = apply("constant-folding", proto)
    # What is an output stays a node.
    assert kinds(made) == {"Reshape": 1, "Neg": 1}
    assert "5 nodes" in result.what
    same(proto, made, (2, 6, 4))


def test_a_symbolic_size_stays() -> None:
    proto = model_of("g (float[n,m] x) => (int64[2] y) { s = Shape (x) y = Neg (s) }")
    _, result = apply("constant-folding", proto)
    assert not result.modified
    facts(result.reasons[0], "no requested size")


def test_what_a_caller_may_feed_is_no_constant() -> None:
    proto = model_of(
        """g (float[2,6] x, int64[2] to) => (int64[2] y) <int64[2] to = {3, 4}>
        { t = Neg (to) u = Neg (t) v = Reshape (x, u) s = Shape (v) y = Neg (s) }"""
    )
    assert not apply("constant-folding", proto)[1].modified


def listed(count: int) -> str:
    """As many numbers, as the text of a graph has them."""
    return ", ".join(f"{k / 2}" for k in range(count))


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        (f"<float[2,3,4] c = {{{listed(24)}}}> {{ k = Softmax (c) y = Add (x, k) }}", (2, 3, 4)),
        (f"<float[2,3,4] c = {{{listed(24)}}}> {{ k = Softmax <axis = 1> (c) y = Add (x, k) }}", (2, 3, 4)),
        (f"<float[3] c = {{{listed(3)}}}> {{ k = Unsqueeze <axes = [-2, -1]> (c) y = Add (x, k) }}", (3, 1, 4)),
        (f"<float[3,4] c = {{{listed(12)}}}> {{ k = Unsqueeze <axes = [2, 0]> (c) y = Add (x, k) }}", (3, 1, 4)),
        (
            f"<float[100,1] c = {{{listed(100)}}}, int64[100,1] at = {{{', '.join('0' * 100)}}}> "
            "{ k = GatherElements <axis = 0> (c, at) y = Add (x, k) }",
            (100, 1),
        ),
        (
            f"<float[40,3] c = {{{listed(120)}}}, int64[2,3] at = {{1, -1, 39, 0, 2, -40}}> "
            "{ k = GatherElements (c, at) y = Add (x, k) }",
            (2, 3),
        ),
        (
            f"<float[4,3] c = {{{listed(12)}}}, int64[1,3] at = {{1, 0, 2}}> "
            "{ k = GatherElements <axis = 1> (c, at) y = Add (x, k) }",
            (2, 3),
        ),
    ],
    ids=[
        "softmax-flattened", "softmax-axis", "unsqueeze-negative", "unsqueeze-unsorted", "gather-100", "gather-40",
        "gather-fewer",
    ],
)  # fmt: skip
def test_constants_are_what_onnx_runtime_computes(text: str, shape: tuple[int, ...]) -> None:
    proto = model_of(
        f"g (float[{','.join(map(str, shape))}] x) => (float[{','.join('abc'[: len(shape)])}] y) {text}", 11
    )
    made, _ = apply("constant-folding", proto)
    same(proto, made, shape, exact=False)


def test_what_the_reference_rounds_is_left() -> None:
    proto = model_of(
        "g (double[2] x) => (double[2] y) <double[2] c = {0.3, 0.7}> { e = Erf (c) y = Add (x, e) }"
    )
    assert not apply("constant-folding", proto)[1].modified


FED = {
    "slice-start": (
        """g (float[2,3,4] x, int64[1] s, float[1] v) => (float[r] y) <int64[1] end = {3}>
        { a = Shape (x) b = Slice (a, s, end) e = Expand (v, b) q = Shape (e) y = Cast <to = 1> (q) }""",
        {"x": np.zeros((2, 3, 4)), "s": np.array([1]), "v": np.ones(1)},
    ),
    "slice-back": (
        """g (float[2,3,4] x, int64[1] s, float[1] v) => (float[r] y)
        <int64[1] two = {2}, int64[1] zero = {0}, int64[1] back = {-1}>
        { a = Shape (x) b = Slice (a, two, s, zero, back) e = Expand (v, b) q = Shape (e) y = Cast <to = 1> (q) }""",
        {"x": np.zeros((2, 3, 4)), "s": np.array([1]), "v": np.ones(1)},
    ),
    "gather": (
        """g (float[2,3,4] x, int64[1] s, float[1] v) => (float[r] y)
        { a = Shape (x) b = Gather (a, s) e = Expand (v, b) q = Shape (e) y = Cast <to = 1> (q) }""",
        {"x": np.zeros((2, 3, 4)), "s": np.array([1]), "v": np.ones(1)},
    ),
    "bool": (
        """g (float[4,8] x, float[1] v) => (float[r] y)
        {
            a = Shape (x) b = Cast <to = 9> (a) c = Cast <to = 7> (b) e = Expand (v, c) q = Shape (e)
            y = Cast <to = 1> (q)
        }""",
        {"x": np.zeros((4, 8)), "v": np.ones(1)},
    ),
    "narrow": (
        """g (float[300,2] x, float[1] v) => (float[r] y)
        {
            a = Shape (x) b = Cast <to = 2> (a) c = Cast <to = 7> (b) e = Expand (v, c) q = Shape (e)
            y = Cast <to = 1> (q)
        }""",
        {"x": np.zeros((300, 2)), "v": np.ones(1)},
    ),
    "branches": (
        """g (bool c, float[2,3] x, float[5,7] w, float[1] v) => (float[r] y)
        {
            y = If (c) <
                then_branch = t () => (float[r] o)
                { a = Shape (x) e = Expand (v, a) q = Shape (e) o = Cast <to = 1> (q) },
                else_branch = f () => (float[r] o)
                { a = Shape (w) e = Expand (v, a) q = Shape (e) o = Cast <to = 1> (q) }
            >
        }""",
        {"c": np.array(False), "x": np.zeros((2, 3)), "w": np.zeros((5, 7)), "v": np.ones(1)},
    ),
    "weights-of-branches": (
        """g (bool c, float[1] v) => (float[r] y)
        {
            y = If (c) <
                then_branch = t () => (float[r] o) <int64[2] a = {2, 3}>
                { e = Expand (v, a) q = Shape (e) o = Cast <to = 1> (q) },
                else_branch = f () => (float[r] o) <int64[2] a = {5, 7}>
                { e = Expand (v, a) q = Shape (e) o = Cast <to = 1> (q) }
            >
        }""",
        {"c": np.array(False), "v": np.ones(1)},
    ),
    "calls": (
        """g (float[2,3] x, float[5,7] w, float[1] v) => (float[r] y)
        { d = local.f (x, v) e = local.f (w, v) q = Shape (e) b = Cast <to = 1> (q) p = Shape (d)
          a = Cast <to = 1> (p) y = Concat <axis = 0> (a, b) }
        <domain: "local", opset_import: ["" : 13]> f (x, v) => (e) { a = Shape (x) e = Expand (v, a) }""",
        {"x": np.zeros((2, 3)), "w": np.zeros((5, 7)), "v": np.ones(1)},
    ),
    "branches-of-a-call": (
        """g (bool c, float[2,3] x, float[5,7] w, float[1] v) => (float[r] y)
        { d = local.f (c, x, w, v) q = Shape (d) y = Cast <to = 1> (q) }
        <domain: "local", opset_import: ["" : 13]> f (c, x, w, v) => (d)
        {
            d = If (c) <
                then_branch = t () => (float[m,n] e) { a = Shape (x) e = Expand (v, a) },
                else_branch = f () => (float[m,n] e) { a = Shape (w) e = Expand (v, a) }
            >
        }""",
        {"c": np.array(False), "x": np.zeros((2, 3)), "w": np.zeros((5, 7)), "v": np.ones(1)},
    ),
}  # fmt: skip
"""Sizes that onnx's shape inference computes otherwise than the nodes do."""


@pytest.mark.parametrize("name", FED)
def test_sizes_are_folded_only_where_they_are_known(name: str) -> None:
    text, given = FED[name]
    proto = model_of(text, 13)
    if proto.functions:
        proto.opset_import.append(helper.make_opsetid("local", 1))
    feeds = {k: v.astype(np.float32) if v.dtype == np.float64 else v for k, v in given.items()}
    made, _ = apply("constant-folding", proto)
    for ours, theirs in zip(run(made, feeds), run(proto, feeds), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_sizes_are_known_behind_calls_and_in_branches() -> None:
    text, _ = FED["calls"]
    proto = model_of(text, 13)
    proto.opset_import.append(helper.make_opsetid("local", 1))
    assert not kinds(apply("constant-folding", proto)[0])["Cast"]
    assert kinds(apply("constant-folding", model_of(FED["branches"][0], 13))[0]) == {"If": 1, "Cast": 2}


def test_files_do_not_swell() -> None:
    weight = numpy_helper.from_array(np.arange(40_000, dtype=np.int8).reshape(200, 200), "w")
    scale = numpy_helper.from_array(np.float32(0.1), "s")
    proto = assemble(
        [
            helper.make_node("Cast", ["w"], ["c"], name="cast", to=TensorProto.FLOAT),
            helper.make_node("Mul", ["c", "s"], ["f"], name="mul"),
            helper.make_node("MatMul", ["x", "f"], ["y"], name="product"),
        ],
        "float[2,200] x",
        "float[2,200] y",
        [weight, scale],
    )
    _, result = apply("constant-folding", proto)
    assert not result.modified
    (why,) = result.reasons
    facts(why, "Cast 'cast'", "156 KiB", "limit")
    made, result = apply("constant-folding", proto, limit="1000")
    assert kinds(made) == {"MatMul": 1}
    same(proto, made, (2, 200), exact=False)


def test_old_models_get_constants_that_they_may_have() -> None:
    proto = model_of(
        """g (float[2] x) => (float[2] y)
        { a = Constant <value = float[2] {1.0, 2.0}> () b = Exp (a) y = Mul (x, b) }""",
        8,
    )
    proto.ir_version = 3
    made, result = apply("constant-folding", proto)
    assert result.modified
    assert kinds(made) == {"Constant": 1, "Mul": 1}
    same(proto, made, (2,), exact=False)
