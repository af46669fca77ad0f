"""Rewrites of structure: constants computed, what is repeated or undone taken out, loops and branches written out."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper
from rewrite_fuzzing import run

import zoo
from ortune import rewrites
from ortune.inputs import workload as workloads
from ortune.inputs.feeds import make_feeds
from ortune.model.graphs import nodes
from ortune.model.open import open_model
from ortune.records import RewriteSpec
from ortune.rewrites import RewriteResult

Made = tuple[onnx.ModelProto, RewriteResult]


def model(text: str, opset: int = 17) -> onnx.ModelProto:
    """A model from the text of its graph."""
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]>\n{text}')


def apply(name: str, proto: onnx.ModelProto, **params: str) -> Made:
    """The model after a rewrite, which must be valid, and done when it is done."""
    opened = ir.serde.deserialize_model(proto)
    result = rewrites.find(name).apply(opened, params)
    made = ir.serde.serialize_model(opened)
    onnx.checker.check_model(made)
    # Read anew, since what is only in memory would be lost.
    assert not rewrites.find(name).apply(ir.serde.deserialize_model(made), params).modified
    return made, result


def kinds(proto: onnx.ModelProto) -> Counter[str]:
    """How many of each operator, subgraphs included."""
    return Counter(node.op_type for node in nodes(ir.serde.deserialize_model(proto)))


def same(proto: onnx.ModelProto, made: onnx.ModelProto, *shapes: tuple[int, ...], exact: bool = True) -> None:
    """The outputs are those of before, on random feeds of these shapes."""
    rng = np.random.default_rng(3)
    held = {tensor.name for tensor in proto.graph.initializer}
    inputs = [value for value in proto.graph.input if value.name not in held]
    feeds = {}
    for value, shape in zip(inputs, shapes, strict=True):
        dtype = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        feeds[value.name] = np.asarray(rng.standard_normal(shape) * 3).astype(dtype)
    for ours, theirs in zip(run(made, feeds), run(proto, feeds), strict=True):
        assert ours.dtype == theirs.dtype
        assert ours.shape == theirs.shape
        if exact:
            np.testing.assert_array_equal(ours, theirs)
        else:
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5 * np.abs(theirs).max(initial=0))


def test_known_sizes_and_what_follows_from_them_are_folded() -> None:
    proto = model(
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
    proto = model("g (float[n,m] x) => (int64[2] y) { s = Shape (x) y = Neg (s) }")
    _, result = apply("constant-folding", proto)
    assert not result.modified
    assert "no requested size is known" in result.reasons[0]


def test_what_a_caller_may_feed_is_no_constant() -> None:
    proto = model(
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
    proto = model(
        f"g (float[{','.join(map(str, shape))}] x) => (float[{','.join('abc'[: len(shape)])}] y) {text}", 11
    )
    made, _ = apply("constant-folding", proto)
    same(proto, made, shape, exact=False)


def test_what_the_reference_rounds_is_left() -> None:
    proto = model(
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
    proto = model(text, 13)
    if proto.functions:
        proto.opset_import.append(helper.make_opsetid("local", 1))
    feeds = {k: v.astype(np.float32) if v.dtype == np.float64 else v for k, v in given.items()}
    made, _ = apply("constant-folding", proto)
    for ours, theirs in zip(run(made, feeds), run(proto, feeds), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_sizes_are_known_behind_calls_and_in_branches() -> None:
    text, _ = FED["calls"]
    proto = model(text, 13)
    proto.opset_import.append(helper.make_opsetid("local", 1))
    assert not kinds(apply("constant-folding", proto)[0])["Cast"]
    assert kinds(apply("constant-folding", model(FED["branches"][0], 13))[0]) == {"If": 1, "Cast": 2}


def test_files_do_not_swell() -> None:
    weight = numpy_helper.from_array(np.arange(40_000, dtype=np.int8).reshape(200, 200), "w")
    scale = numpy_helper.from_array(np.float32(0.1), "s")
    graph = helper.make_graph(
        [
            helper.make_node("Cast", ["w"], ["c"], name="cast", to=TensorProto.FLOAT),
            helper.make_node("Mul", ["c", "s"], ["f"], name="mul"),
            helper.make_node("MatMul", ["x", "f"], ["y"], name="product"),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 200])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 200])],
        [weight, scale],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    _, result = apply("constant-folding", proto)
    assert not result.modified
    assert result.reasons == ("the result of Cast 'cast' would have 156 KiB, which exceeds the limit",)
    made, result = apply("constant-folding", proto, limit="1000")
    assert kinds(made) == {"MatMul": 1}
    same(proto, made, (2, 200), exact=False)


BRANCHES = """g (float[3,{n}] x) => (float[a,b] y)
<int64 one = {{1}}, int64 three = {{3}}, float[1] shared = {{2.0}}>
{{
    s = Shape (x)
    n = Gather (s, one)
    c = Equal (n, three)
    only_else = Neg (x)
    y = If (c) <
        then_branch = t () => (float[a,b] p) <float[1] w = {{4.0}}> {{ q = Mul (x, w) p = Add (q, shared) }},
        else_branch = e () => (float[a,b] p) {{ p = Identity (only_else) }}
    >
}}"""


def test_a_branch_that_is_always_taken_is_written_out() -> None:
    proto = model(BRANCHES.format(n=3))
    made, result = apply("constant-folding", proto)
    # What only the other branch read goes with it.
    assert kinds(made) == {"Mul": 1, "Add": 1}
    assert "1 branch of If" in result.what
    assert {node.name for node in made.graph.node if not node.metadata_props} == set()
    same(proto, made, (3, 3))
    proto = model(BRANCHES.format(n=5))
    made, result = apply("constant-folding", proto)
    assert kinds(made) == {"Neg": 1, "Identity": 1}
    same(proto, made, (3, 5))
    # Nothing is said of a branch that is gone.
    for attribute in proto.graph.node[-1].attribute:
        gone = helper.make_node(
            "Cast", ["large"], [f"{attribute.name}_gone"], name="gone", to=TensorProto.INT64
        )
        if attribute.name == "then_branch":
            attribute.g.node.append(gone)
    proto.graph.initializer.append(numpy_helper.from_array(np.zeros((100, 100), np.float32), "large"))
    _, result = apply("constant-folding", proto)
    assert result.reasons == ()
    proto = model(BRANCHES.format(n="any"))
    assert not apply("constant-folding", proto)[1].modified


LOOP = """g (float[2,3] x) => (float[2,3] y, float[r,2,3] z)
<int64 rounds = {{{rounds}}}, bool on = {{1}}, float[1] half = {{0.5}}>
{{
    y, z = Loop ({trips}, {on}, x) <body = b (int64 i, bool c, float[a,b] s) => (bool go, float[a,b] t, float[a,b] u) {{
        f = Cast <to = 1> (i)
        m = Mul (s, half)
        t = Add (m, f)
        u = Neg (t)
        {go}
    }}>
}}"""


@pytest.mark.parametrize("opset", [11, 17])
def test_a_short_loop_is_written_out(opset: int) -> None:
    proto = model(LOOP.format(rounds=3, trips="rounds", on="on", go="go = Identity (c)"), opset)
    made, result = apply("loop-unrolling", proto)
    assert "1 Loop" in result.what
    assert kinds(made) == {
        "Cast": 3,
        "Mul": 3,
        "Add": 3,
        "Neg": 3,
        "Unsqueeze": 3,
        "Concat": 1,
        "Identity": 3,
    }
    same(proto, made, (2, 3))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"rounds": 200}, "nodes or more than 512"),
        ({"rounds": 0}, "no nodes or more than 512"),
        ({"go": "n = Neg (f) go = Cast <to = 9> (n)"}, "may stop early"),
        ({"trips": ""}, "is not constant"),
        ({"go": "go = Identity (c) n = RandomNormalLike <seed = 1.0> (s)"}, "draws random numbers"),
    ],
)
def test_a_loop_that_stays(change: dict[str, object], why: str) -> None:
    given = {"rounds": 3, "trips": "rounds", "on": "on", "go": "go = Identity (c)"} | change
    _, result = apply("loop-unrolling", model(LOOP.format(**given)))
    assert not result.modified
    assert why in result.reasons[0]


def test_a_loop_whose_rounds_draw_random_numbers_stays() -> None:
    """Also where a function draws them; unlike the rounds, copies would all begin with the seed."""
    proto = model(
        """g (float[3] x) => (float[3] y) <int64 rounds = {2}, bool on = {1}>
        {
            y = Loop (rounds, on, x) <body = b (int64 i, bool c, float[3] s) => (bool go, float[3] t) {
                go = Identity (c)
                t = local.outer (s)
            }>
        }
        <domain: "local", opset_import: ["" : 17, "local" : 1]> outer (s) => (t) { t = local.inner (s) }
        <domain: "local", opset_import: ["" : 17]> inner (s) => (t)
        { n = RandomNormalLike <seed = 1.0> (s) t = Add (s, n) }"""
    )
    proto.opset_import.append(helper.make_opsetid("local", 1))
    _, result = apply("loop-unrolling", proto)
    assert not result.modified
    assert "draws random numbers" in result.reasons[0]


def test_loops_in_loops_are_written_out_from_the_inside() -> None:
    proto = model(
        """g (float[2] x) => (float[2] y) <int64 three = {3}, bool on = {1}>
        {
            y = Loop (three, on, x) <body = outer (int64 i, bool c, float[2] s) => (bool go, float[2] t) {
                go = Identity (c)
                one = Constant <value = int64 {1}> ()
                t = Loop (one, c, s) <body = inner (int64 j, bool d, float[2] v) => (bool on2, float[2] w) {
                    on2 = Identity (d)
                    f = Cast <to = 1> (i)
                    w = Add (v, f)
                }>
            }>
        }"""
    )
    made, _ = apply("loop-unrolling", proto)
    assert "Loop" not in kinds(made)
    same(proto, made, (2,))


def test_dead_nodes_go_and_unknown_operators_stay() -> None:
    proto = model(
        """g (float[2] x, bool b) => (float[2] y)
        <float[2] w = {1.0, 2.0}, float[1] alone = {1.0}>
        {
            a = Mul (x, w)
            c = Neg (a)
            only_inside = Exp (x)
            d = If (b) <
                then_branch = t () => (float[2] p) { p = Neg (only_inside) },
                else_branch = e () => (float[2] p) { p = Neg (x) }
            >
            y = Relu (x)
        }"""
    )
    made, result = apply("dead-nodes", proto)
    assert kinds(made) == {"Relu": 1}
    assert not made.graph.initializer
    assert result.what == "Removed 4 nodes and 2 weights that nothing reads."
    same(proto, made, (2,), ())
    proto.opset_import.append(helper.make_opsetid("own", 1))
    proto.graph.node.insert(0, helper.make_node("Log", ["x"], ["said"], name="says", domain="own"))
    made, result = apply("dead-nodes", proto)
    assert kinds(made) == {"Relu": 1, "Log": 1}
    assert result.reasons == ("Log 'says' of the domain 'own' may have side effects",)


NOTHING = """
    a = Identity (x)
    b = Dropout (a)
    c = Cast <to = 1> (b)
    d = Transpose <perm = [0, 1, 2]> (c)
    e = Reshape (d, keeps)
    f = Reshape (e, rest)
    h = Mul (f, one)
    i = Add (zero, h)
    j = Sub (i, zero)
    k = Div (j, one)
    l = Pow (k, one)
    m = Slice (l, start, end)
    o = Concat <axis = 0> (m)
    p = Expand (o, single)
    y = Relu (p)
"""


def test_what_changes_nothing_goes() -> None:
    head = """g (float[n,2,3] x) => (float[n,2,3] y)
    <int64[3] keeps = {0, 2, 0}, int64[3] rest = {-1, 2, 3}, float one = {1.0}, float[1,1] zero = {0.0},
     int64[1] start = {0}, int64[1] end = {9223372036854775807}, int64[3] single = {1, 1, 1}>"""
    proto = model(f"{head} {{ {NOTHING} }}")
    made, result = apply("no-op-nodes", proto)
    assert kinds(made) == {"Relu": 1}
    assert result.what == "Removed 14 nodes without an effect."
    same(proto, made, (4, 2, 3))


@pytest.mark.parametrize(
    "text",
    [
        # The number has more axes than the tensor.
        "g (float[3] x) => (float[1,3] y) <float[1,1] one = {1.0}> { y = Mul (x, one) }",
        "g (float[3] x) => (float[3] y) <float one = {1.0}> { y = Div (one, x) }",
        "g (float[3] x) => (float[3] y) <float zero = {0.0}> { y = Sub (zero, x) }",
        "g (float[n,4] x) => (float[n,4] y) <int64[2] to = {4, -1}> { y = Reshape (x, to) }",
        "g (float[n] x) => (float[n] y) <int64[1] s = {0}, int64[1] e = {3}> { y = Slice (x, s, e) }",
        "g (float[n] x) => (double[n] y) { y = Cast <to = 11> (x) }",
        "g (float[3] x) => (float[1,3] y) <int64[2] to = {1, 3}> { y = Expand (x, to) }",
        "g (float[n] x) => (float[a] y) <int64[1] to = {3}> { y = Expand (x, to) }",
        # Input and output of a model are two values.
        "g (float[n] x) => (float[n] y) { y = Identity (x) }",
        "g (float[n] x, bool t) => (float[n] y) <float r = {0.5}> { y = Dropout (x, r, t) }",
        "g (float[2] x, float one) => (float[2] y) <float one = {1.0}> { y = Mul (x, one) }",
    ],
)
def test_what_changes_something_stays(text: str) -> None:
    assert not apply("no-op-nodes", model(text))[1].modified


@pytest.mark.parametrize(
    "inside",
    [
        "If (c) < then_branch = t () => (float[2] z) <float[2] y = {5.0, 6.0}> { z = Mul (y, a) }, "
        "else_branch = f () => (float[2] z) { z = Exp (a) } >",
        "Loop (two, c, x) < body = b (int64 i, bool d, float[2] y) => (bool go, float[2] z) "
        "{ go = Identity (d) z = Mul (y, a) } >",
    ],
    ids=["weight", "input"],
)
@pytest.mark.parametrize(
    ("name", "last"),
    [("no-op-nodes", "Identity (a)"), ("duplicate-nodes", "Relu (x)")],
    ids=["no-op", "duplicate"],
)
def test_a_name_that_hides_another_within_is_not_given_to_what_is_read_there(
    name: str, last: str, inside: str
) -> None:
    proto = model(
        f"g (float[2] x, bool c) => (float[2] y, float[2] r) <int64 two = {{2}}> "
        f"{{ a = Relu (x) r = {inside} y = {last} }}"
    )
    made, _ = apply(name, proto)
    feeds = {"x": np.array([2, 3], np.float32), "c": np.array(True)}
    for ours, theirs in zip(run(made, feeds), run(proto, feeds), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    ("text", "shape", "left"),
    [
        (
            "a = Transpose <perm = [1, 2, 0]> (x) b = Transpose <perm = [2, 0, 1]> (a) y = Relu (b)",
            (2, 3, 4),
            {"Relu": 1},
        ),
        (
            "a = Transpose <perm = [1, 2, 0]> (x) b = Transpose (a) y = Relu (b)",
            (2, 3, 4),
            {"Transpose": 1, "Relu": 1},
        ),
        ("a = Cast <to = 11> (x) b = Cast <to = 1> (a) y = Relu (b)", (2, 3, 4), {"Relu": 1}),
        ("a = Cast <to = 11> (x) y = Cast <to = 10> (a)", (2, 3, 4), {"Cast": 1}),
        ("a = Flatten (x) b = Reshape (a, to) y = Relu (b)", (2, 3, 4), {"Reshape": 1, "Relu": 1}),
        ("a = Unsqueeze (x, two) b = Squeeze (a, last) y = Relu (b)", (2, 3, 4), {"Relu": 1}),
        (
            "a, b = Split <axis = 2> (x, ones) c = Concat <axis = -1> (a, b) y = Relu (c)",
            (2, 3, 4),
            {"Relu": 1},
        ),
        (
            "a = Neg (x) b = Concat <axis = 2> (x, a) c, d = Split <axis = -1> (b, fours) y = Mul (c, d)",
            (2, 3, 4),
            {"Neg": 1, "Mul": 1},
        ),
    ],
)
def test_pairs_that_are_one_or_none(text: str, shape: tuple[int, ...], left: dict[str, int]) -> None:
    kind = "float16" if "to = 10" in text else "float"
    proto = model(
        f"""g (float[2,3,4] x) => ({kind}[a,b,c] y)
        <int64[3] to = {{4, -1, 2}}, int64[1] two = {{2}}, int64[1] last = {{-2}}, int64[2] ones = {{1, 3}},
         int64[2] fours = {{4, 4}}> {{ {text} }}"""
    )
    made, result = apply("cascaded-nodes", proto)
    assert result.modified
    assert kinds(made) == left
    same(proto, made, shape)


@pytest.mark.parametrize(
    "text",
    [
        "a = Cast <to = 10> (x) b = Cast <to = 1> (a) y = Relu (b)",
        "a = Cast <to = 7> (x) b = Cast <to = 1> (a) y = Relu (b)",
        "a = Flatten (x) b = Reshape (a, kept) y = Relu (b)",
        "a = Unsqueeze (x, two) b = Squeeze (a, zero) y = Relu (b)",
        "a, b = Split <axis = 2> (x, ones) c = Concat <axis = 2> (b, a) y = Relu (c)",
        "a, b = Split <axis = 2> (x, ones) c = Concat <axis = 1> (a, a) y = Relu (c)",
        "a = Neg (x) b = Concat <axis = 2> (x, a) c, d = Split <axis = 2> (b, others) e = Neg (c) "
        "y = Concat <axis = 2> (e, d)",
    ],
)
def test_pairs_that_stay(text: str) -> None:
    proto = model(
        f"""g (float[1,3,4] x) => (float[a,b,c] y)
        <int64[3] kept = {{0, -1, 2}}, int64[1] two = {{2}}, int64[1] zero = {{0}}, int64[2] ones = {{1, 3}},
         int64[2] others = {{3, 5}}> {{ {text} }}"""
    )
    assert not apply("cascaded-nodes", proto)[1].modified


def test_the_same_convolution_with_weights_stored_twice() -> None:
    weight = np.random.default_rng(0).standard_normal((4, 3, 3, 3)).astype(np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w1"], ["a"], name="one"),
            helper.make_node("Conv", ["x", "w2"], ["b"], name="other"),
            helper.make_node("Conv", ["x", "w3"], ["c"], name="third"),
            helper.make_node("Sigmoid", ["b"], ["s"], name="gate"),
            helper.make_node("Mul", ["a", "s"], ["m"], name="mul"),
            helper.make_node("Add", ["m", "c"], ["y"], name="add"),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4, 6, 6]) for name in ("y", "b")],
        [
            numpy_helper.from_array(weight, "w1"),
            numpy_helper.from_array(weight, "w2"),
            numpy_helper.from_array(weight + np.float32(1e-6), "w3"),
        ],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    made, result = apply("duplicate-nodes", proto)
    assert kinds(made)["Conv"] == 2
    assert result.what == "Merged 1 node and 1 weight with equal ones."
    same(proto, made, (1, 3, 8, 8))
    called = {spec.name for spec, _ in rewrites.proposals(ir.serde.deserialize_model(proto))}
    assert "duplicate-nodes" in called


def test_random_numbers_are_drawn_as_often_as_before() -> None:
    proto = model(
        "g (float[3] x) => (float[3] y) { a = RandomNormalLike (x) b = RandomNormalLike (x) y = Sub (a, b) }"
    )
    assert not apply("duplicate-nodes", proto)[1].modified


def test_down_and_back_twice_with_a_node_between() -> None:
    proto = model(
        """g (float[2,3] x) => (float[3,2] y)
        { h = Cast <to = 10> (x) t = Transpose (h) b = Cast <to = 1> (t)
          k = Cast <to = 10> (b) c = Cast <to = 1> (k) y = Relu (c) }"""
    )
    made, result = apply("cast-round-trips", proto)
    assert "2 casts" in result.what
    assert kinds(made) == {"Transpose": 1, "Relu": 1}


def test_down_and_straight_back() -> None:
    proto = model(
        """g (float[2,3] x) => (float[3,2] y)
        { a = Neg (x) h = Cast <to = 10> (a) t = Transpose (h) b = Cast <to = 1> (t) y = Relu (b) }"""
    )
    made, _ = apply("cast-round-trips", proto)
    assert kinds(made) == {"Neg": 1, "Transpose": 1, "Relu": 1}
    assert rewrites.find("cast-round-trips").safety == "numerics"
    feeds = {"x": np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)}
    np.testing.assert_allclose(run(made, feeds)[0], run(proto, feeds)[0], rtol=1e-3)
    used = model(
        "g (float[2] x) => (float[2] y, float16[2] z) "
        "{ h = Cast <to = 10> (x) z = Neg (h) b = Cast <to = 1> (h) y = Relu (b) }"
    )
    made, _ = apply("cast-round-trips", used)
    assert kinds(made) == {"Cast": 1, "Neg": 1, "Relu": 1}


HEADS = """g (float[batch,seq,12] x) => (float[a,b,c,d] y)
<int64 zero = {{0}}, int64 one = {{1}}, int64[1] at = {{0}}, int64[1] heads = {{3}}, int64[1] size = {{4}}>
{{
    n = Neg (x)
    s = Shape ({source})
    b0 = Gather (s, zero)
    t0 = Gather (s, one)
    b = Unsqueeze (b0, at)
    t = Unsqueeze (t0, at)
    to = Concat <axis = 0> ({order}, heads, size)
    r = Reshape (n, to)
    y = Transpose <perm = [0, 2, 1, 3]> (r)
}}"""


@pytest.mark.parametrize("source", ["n", "x"])
def test_sizes_that_stay_in_their_place(source: str) -> None:
    proto = model(HEADS.format(source=source, order="b, t"))
    made, result = apply("constant-reshape", proto)
    assert kinds(made) == {"Neg": 1, "Reshape": 1, "Transpose": 1}
    assert result.what == "Gave 1 Reshape a constant target shape."
    same(proto, made, (2, 5, 12))
    same(proto, made, (0, 5, 12))


def test_sizes_that_change_places_stay() -> None:
    _, result = apply("constant-reshape", model(HEADS.format(source="x", order="t, b")))
    assert not result.modified
    assert "more than one target size" in result.reasons[0]


def test_two_inputs_with_one_name_for_a_size_are_not_believed() -> None:
    proto = model(
        """g (float[n,m,2] x, float[n,m] z) => (float[a,b,c] y) <int64[1] one = {1}, int64[1] two = {2}>
        { s = Shape (z) to = Concat <axis = 0> (s, one, two) y = Reshape (x, to) }"""
    )
    assert not apply("constant-reshape", proto)[1].modified


def test_a_slice_of_an_unknown_size_is_another_size() -> None:
    proto = model(
        """g (float[n,2] x) => (float[a,2] y) <int64[1] s = {0}, int64[1] e = {3}>
        { p = Slice (x, s, e) y = Relu (p) }"""
    )
    assert not apply("no-op-nodes", proto)[1].modified


A, B, C, D, E = 2, 3, 4, 5, 6
SUMS = [
    ("bqhd,bkhd->bhqk", ((2, 5, 3, 4), (2, 6, 3, 4)), "MatMul"),
    ("bhqk,bkhd->bqhd", ((2, 3, 5, 6), (2, 6, 3, 4)), "MatMul"),
    ("btd,de->bte", ((2, 3, 4), (4, 5)), "MatMul"),
    ("ed,btd->bte", ((5, 4), (2, 3, 4)), "MatMul"),
    ("ij , jk -> ki", ((2, 3), (3, 4)), "MatMul"),
    ("abc->cab", ((2, 3, 4),), ""),
    # Several rows beside shared indices, several sums, several columns, and a vector.
    ("bhwc,hkc->bhwk", ((2, 3, 4, 5), (3, 6, 5)), "MatMul"),
    ("nctkv,kvw->nctw", ((2, 3, 4, 5, 6), (5, 6, 7)), "MatMul"),
    ("ijk,jkl->il", ((2, 3, 4), (3, 4, 5)), "MatMul"),
    ("abij,cdji->dacb", ((2, 3, 4, 5), (6, 7, 5, 4)), "MatMul"),
    ("ai,bci->cab", ((2, 3), (4, 5, 3)), "MatMul"),
    ("baci,bdie->ebcad", ((2, 3, 4, 5), (2, 6, 5, 7)), "MatMul"),
    ("bi,bij->bj", ((2, 3), (2, 3, 4)), "MatMul"),
    ("i,i->", ((3,), (3,)), "Mul ReduceSum"),
    ("ij,ji->i", ((2, 3), (3, 2)), "Mul ReduceSum"),
    ("i,j->ji", ((2,), (3,)), "Mul"),
    ("bhw,bchw->bwhc", ((2, 3, 4), (2, 5, 3, 4)), "Mul"),
    ("ij,j->ij", ((2, 3), (3,)), "Mul"),
    # Of three tensors, a pair with an index to sum comes first.
    ("ij,jk,kl->il", ((A, B), (B, C), (C, D)), "MatMul MatMul"),
    ("bij,bjk,bkl->bli", ((A, B, C), (A, C, D), (A, D, E)), "MatMul MatMul"),
    ("bxi,oij,byj->boxy", ((A, B, C), (D, C, E), (A, 7, E)), "MatMul MatMul"),
    ("bi,ij,bj->b", ((A, B), (B, C), (A, C)), "MatMul Mul ReduceSum"),
    ("bhqk,bkhd,hde->bqe", ((A, B, C, D), (A, D, B, E), (B, E, 7)), "MatMul MatMul"),
    ("i,j,k->kij", ((A,), (B,), (C,)), "Mul Mul"),
    ("bi,bj,bij->b", ((A, B), (A, C), (A, B, C)), "MatMul Mul ReduceSum"),
    ("bi,bi,bi->b", ((A, B), (A, B), (A, B)), "Mul Mul ReduceSum"),
    ("ij,jk,kl,lm->mi", ((A, B), (B, C), (C, D), (D, E)), "MatMul MatMul MatMul"),
]


def einsum(equation: str, shapes: tuple[tuple[int, ...], ...], opset: int = 17) -> onnx.ModelProto:
    names = "xzuv"[: len(shapes)]
    inputs = ", ".join(f"float[{','.join(map(str, s))}] {n}" for n, s in zip(names, shapes, strict=True))
    out = ",".join(f"o{k}" for k in range(len(equation.partition("->")[2].strip().replace("...", "b"))))
    kind = f"float[{out}]" if out else "float"
    text = f'g ({inputs}) => ({kind} y) {{ y = Einsum <equation = "{equation}"> ({", ".join(names)}) }}'
    return model(text, opset)


@pytest.mark.parametrize("opset", [12, 17])
@pytest.mark.parametrize(("equation", "shapes", "operators"), SUMS)
def test_equations_that_are_products(
    equation: str, shapes: tuple[tuple[int, ...], ...], operators: str, opset: int
) -> None:
    proto = einsum(equation, shapes, opset)
    made, result = apply("einsum-to-matmul", proto)
    assert result.modified and "1 Einsum " in result.what
    moved = {"Transpose", "Reshape", "Unsqueeze", "Squeeze", "Constant"}
    assert {op: n for op, n in kinds(made).items() if op not in moved} == Counter(operators.split())
    same(proto, made, *shapes, exact=False)
    assert not apply("einsum-to-matmul", made)[1].modified


@pytest.mark.parametrize(
    "equation", ["bqd,bkd->bqk", "bqhd,bkhd->bhqk", "bxi,oij,byj->boxy", "bqhd,hde->bqe", "bq,bk->bqk"]
)
def test_sizes_that_are_open_stay_open(equation: str) -> None:
    sizes = {"b": 2, "q": 3, "k": 5, "x": 3, "y": 5}
    terms = equation.partition("->")[0].split(",")
    fixed = dict.fromkeys("dhijoe", 4)
    shapes = tuple(tuple({**sizes, **fixed}[index] for index in term) for term in terms)
    proto = einsum(equation, shapes)
    for value, term in zip(proto.graph.input, terms, strict=True):
        for dim, index in zip(value.type.tensor_type.shape.dim, term, strict=True):
            if index in sizes:
                dim.dim_param = index
    made, result = apply("einsum-to-matmul", proto)
    assert result.modified and not kinds(made)["Einsum"]
    same(proto, made, *shapes, exact=False)


def test_an_equation_of_what_an_equation_gives() -> None:
    proto = model(
        """g (float[2,3] x, float[3,4] w, float[2,5] v) => (float[a,b] y)
        { t = Einsum <equation = "ij,jk -> ki"> (x, w) y = Einsum <equation = "ij,jk -> ki"> (t, v) }"""
    )
    made, result = apply("einsum-to-matmul", proto)
    assert "2 Einsums" in result.what
    assert not kinds(made)["Einsum"]
    assert not apply("einsum-to-matmul", made)[1].modified


@pytest.mark.parametrize(
    ("equation", "shapes", "why"),
    [
        ("ij,jk->k", ((2, 3), (3, 4)), "sums over a tensor alone"),
        ("ii->i", ((3, 3),), "a repeated index"),
        ("...ij,...jk->...ik", ((2, 3, 4), (2, 4, 5)), "an ellipsis"),
    ],
)
def test_equations_that_stay(equation: str, shapes: tuple[tuple[int, ...], ...], why: str) -> None:
    proto = einsum(equation, shapes)
    _, result = apply("einsum-to-matmul", proto)
    assert not result.modified
    assert why in result.reasons[0]


@pytest.mark.parametrize(
    ("inputs", "why"),
    [
        # What is fed may be of one there, and is repeated then.
        ("float[n,k] x, float[5,4] z", "may broadcast"),
        ("float[n,k] x, float[k,4] z", "may broadcast"),
        ("int8[2,3] x, int8[3,4] z", "MatMul does not support"),
    ],
)
def test_an_equation_that_says_more_than_a_product(inputs: str, why: str) -> None:
    kind = inputs.partition("[")[0]
    proto = model(f'g ({inputs}) => ({kind}[a,b] y) {{ y = Einsum <equation = "ij,jk->ik"> (x, z) }}')
    _, result = apply("einsum-to-matmul", proto)
    assert not result.modified
    assert why in result.reasons[0]


@pytest.mark.parametrize("opset", [11, 17])
@pytest.mark.parametrize("gemm", [False, True])
def test_products_of_one_tensor(opset: int, gemm: bool) -> None:
    rng = np.random.default_rng(1)
    weights = [
        numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name)
        for name, shape in {"q": (4, 3), "k": (5, 4) if gemm else (4, 5), "v": (4, 2), "kb": (5,)}.items()
    ]
    products = [
        helper.make_node("Gemm", ["x", "q"], ["a"], name="q")
        if gemm
        else helper.make_node("MatMul", ["x", "q"], ["a"], name="q"),
        helper.make_node("Gemm", ["x", "k", "kb"], ["b"], name="k", transB=1)
        if gemm
        else helper.make_node("MatMul", ["x", "k"], ["b"], name="k"),
        helper.make_node("Gemm" if gemm else "MatMul", ["x", "v"], ["c"], name="v"),
        helper.make_node("Neg", ["b"], ["n"], name="neg"),
    ]
    graph = helper.make_graph(
        products,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["m", "n"]) for name in ("a", "n", "c")],
        weights,
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=7)
    made, result = apply("merged-products", proto)
    assert result.what == "Merged 3 matrix multiplications into 1."
    assert kinds(made) == {"Gemm" if gemm else "MatMul": 1, "Split": 1, "Neg": 1}
    same(proto, made, (1, 4), exact=False)
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 2
    _, result = apply("merged-products", proto)
    assert not result.modified
    assert "may have several rows" in result.reasons[0]


PADDED = """g (float[1,2,5,6] x) => (float[a,b,c,d] y{more})
<int64[8] around = {{0, 0, 1, 2, 0, 0, 0, 3}}, int64[4] some = {{1, 2, 0, 3}}, int64[2] axes = {{2, -1}},
 float half = {{0.5}}, int64[8] channels = {{0, 1, 0, 0, 0, 0, 0, 0}}, float[2,2,2,3] w = {{{w}}},
 float[2,3,2,3] w3 = {{{w}, {half_w}}}>
{{ p = Pad {mode} ({pad}) y = Conv {attributes} (p, {weight}) {rest} }}"""


def padded(
    pad: str, mode: str = "", attributes: str = "", weight: str = "w", rest: str = ""
) -> onnx.ModelProto:
    numbers = [f"{k / 7:.3f}" for k in range(36)]
    return model(
        PADDED.format(
            pad=pad,
            mode=mode,
            attributes=attributes,
            weight=weight,
            rest=rest,
            more=", float[a,b,c,d] z" if rest else "",
            w=", ".join(numbers[:24]),
            half_w=", ".join(numbers[24:]),
        ),
        18,
    )


@pytest.mark.parametrize(
    ("given", "left"),
    [
        ({"pad": "x, around"}, {"Conv": 1}),
        ({"pad": "x, some, , axes", "attributes": "<pads = [1, 1, 0, 0]>"}, {"Conv": 1}),
        ({"pad": "x, around", "attributes": '<auto_pad = "VALID">'}, {"Conv": 1}),
        ({"pad": "x, around", "rest": "z = Relu (p)"}, {"Pad": 1, "Conv": 1, "Relu": 1}),
    ],
)
def test_a_convolution_pads_itself(given: dict[str, str], left: dict[str, int]) -> None:
    proto = padded(**given)
    made, result = apply("pad-into-convolution", proto)
    assert result.modified
    assert kinds(made) == left
    same(proto, made, (1, 2, 5, 6), exact=False)


def test_a_convolution_pads_what_two_padded() -> None:
    proto = model(
        """g (float[1,2,5,6] x) => (float[a,b,c,d] y)
        <int64[8] once = {0, 0, 1, 2, 0, 0, 0, 3}, int64[8] more = {0, 0, 0, 1, 0, 0, 2, 0}, float[1,2,1,1] w = {2, 3}>
        { p = Pad (x, once) q = Pad (p, more) y = Conv <pads = [1, 0, 0, 0]> (q, w) }""",
        18,
    )
    made, _ = apply("pad-into-convolution", proto)
    assert kinds(made) == {"Conv": 1}
    assert not apply("pad-into-convolution", made)[1].modified
    same(proto, made, (1, 2, 5, 6), exact=False)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"pad": "x, around, half"}, "may not pad with zeros"),
        ({"pad": "x, around", "mode": '<mode = "edge">'}, "may not pad with zeros"),
        ({"pad": "x, channels", "weight": "w3"}, "pads the batch or channel axis"),
        ({"pad": "x, around", "attributes": '<auto_pad = "SAME_UPPER">'}, "automatic padding"),
    ],
)
def test_padding_that_stays(given: dict[str, str], why: str) -> None:
    _, result = apply("pad-into-convolution", padded(**given))
    assert not result.modified
    assert why in result.reasons[0]


def test_what_prepares_comes_before_what_it_is_for() -> None:
    proto = model(
        """g (float[n,2,3] x) => (float[n,2,3] y, float[n,2,3] z)
        <int64 one = {1}, float[1,2,3] w = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}>
        { v = Exp (w) y = Mul (x, v) z = Relu (x) }"""
    )
    opened = ir.serde.deserialize_model(proto)
    # ONNX Runtime folds as well: alone that is no reason to measure.
    assert rewrites.pipeline(opened) == ()
    assert not rewrites.proposals(opened, objective="latency")
    dead = helper.make_node("Neg", ["x"], ["nobody"], name="dead")
    proto.graph.node.append(dead)
    names = [s.name for s in rewrites.pipeline(ir.serde.deserialize_model(proto))]
    assert names == ["constant-folding", "dead-nodes"]


@pytest.mark.parametrize(
    ("name", "rewrite", "least"),
    [
        # Ifs that ask for one known size of several.
        ("silero-vad-16k-op15", "constant-folding", 200),
        ("silero-vad", "constant-folding", 300),
        ("basic-pitch", "cascaded-nodes", 30),
        ("basic-pitch", "no-op-nodes", 1),
        ("magika", "constant-reshape", 2),
        ("oww-silero-vad", "duplicate-nodes", 10),
    ],
)
def test_on_real_models(name: str, rewrite: str, least: int, tmp_path: Path) -> None:
    opened = open_model(zoo.model_path(name))
    made = rewrites.rewrite_model(opened, [RewriteSpec(name=rewrite)], tmp_path)
    after = open_model(made.path)
    assert sum(1 for _ in nodes(opened.ir)) - sum(1 for _ in nodes(after.ir)) >= least
    (case,) = workloads.propose(opened.ir).cases
    for seed in range(2):
        feeds = {k: v for k, v in make_feeds(opened.ir, case, seed=seed).items() if isinstance(v, np.ndarray)}
        before = ort.InferenceSession(str(opened.path)).run(None, feeds)
        for ours, theirs in zip(ort.InferenceSession(str(made.path)).run(None, feeds), before, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


FUNCTION = """<ir_version: 8, opset_import: ["" : 17, "local" : 1]>
g (float[2,3] x) => (float[2,3] y) { y = local.f (x) }
<domain: "local", opset_import: ["" : 17]>
f (a) => (b)
{
    on = Constant <value = bool {1}> ()
    two = Constant <value = int64 {2}> ()
    c = If (on) <
        then_branch = t () => (float[q,r] o) <float[1] w = {4.0}> { o = Mul (a, w) },
        else_branch = e () => (float[q,r] o) { o = Neg (a) }
    >
    i = Identity (c)
    d = Loop (two, on, i) <body = l (int64 k, bool g, float[q,r] s) => (bool h, float[q,r] v) {
        h = Identity (g)
        v = Tanh (s)
    }>
    three = Constant <value = float {3.0}> ()
    e = Exp (three)
    nobody = Sin (a)
    b = Mul (d, e)
}"""


@pytest.mark.parametrize(
    ("name", "gone"),
    [
        ("constant-folding", {"If", "Exp", "Neg"}),
        ("loop-unrolling", {"Loop"}),
        ("no-op-nodes", set()),
        ("dead-nodes", {"Sin"}),
    ],
)
def test_in_a_function(name: str, gone: set[str]) -> None:
    proto = onnx.parser.parse_model(FUNCTION)
    made, result = apply(name, proto)
    assert result.modified
    assert not gone & set(kinds(made))
    same(proto, made, (2, 3), exact=False)


def test_old_models_get_constants_that_they_may_have() -> None:
    proto = model(
        """g (float[2] x) => (float[2] y)
        { a = Constant <value = float[2] {1.0, 2.0}> () b = Exp (a) y = Mul (x, b) }""",
        8,
    )
    proto.ir_version = 3
    made, result = apply("constant-folding", proto)
    assert result.modified
    assert kinds(made) == {"Constant": 1, "Mul": 1}
    same(proto, made, (2,), exact=False)
