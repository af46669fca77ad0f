"""What does nothing, is done twice or is undone goes out of a graph; also in functions, and in real models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper
from same_outputs import run
from structural_checks import apply, kinds, same

import zoo
from facts import facts
from onnx_text import assemble, model_of
from ortune import rewrites
from ortune.graph.model.graphs import nodes
from ortune.graph.model.open import open_model
from ortune.inputs import workload as workloads
from ortune.inputs.feeds import make_feeds
from ortune.records import RewriteSpec


def test_dead_nodes_go_and_unknown_operators_stay() -> None:
    proto = model_of(
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
    facts(result.what, "Removed 4 nodes", "2 weights")
    same(proto, made, (2,), ())
    proto.opset_import.append(helper.make_opsetid("own", 1))
    proto.graph.node.insert(0, helper.make_node("Log", ["x"], ["said"], name="says", domain="own"))
    made, result = apply("dead-nodes", proto)
    assert kinds(made) == {"Relu": 1, "Log": 1}
    (why,) = result.reasons
    facts(why, "Log 'says'", "'own'", "side effects")


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
    proto = model_of(f"{head} {{ {NOTHING} }}")
    made, result = apply("no-op-nodes", proto)
    assert kinds(made) == {"Relu": 1}
    facts(result.what, "Removed 14 nodes ")
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
    assert not apply("no-op-nodes", model_of(text))[1].modified


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
    proto = model_of(
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
    proto = model_of(
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
    proto = model_of(
        f"""g (float[1,3,4] x) => (float[a,b,c] y)
        <int64[3] kept = {{0, -1, 2}}, int64[1] two = {{2}}, int64[1] zero = {{0}}, int64[2] ones = {{1, 3}},
         int64[2] others = {{3, 5}}> {{ {text} }}"""
    )
    assert not apply("cascaded-nodes", proto)[1].modified


def cut(*bounds: tuple[int, int], axis: str = "last", size: str = "n", opset: int = 17) -> onnx.ModelProto:
    """A value whose pieces, by their bounds along its last axis, are joined again."""
    names = ", ".join(f"p{k}" for k in range(len(bounds)))
    body = "".join(f"p{k} = Slice (x, from{k}, to{k}, {axis})\n" for k in range(len(bounds)))
    weights = ", ".join(
        f"int64[1] from{k} = {{{a}}}, int64[1] to{k} = {{{b}}}" for k, (a, b) in enumerate(bounds)
    )
    if opset < 10:
        body = "".join(
            f"p{k} = Slice <starts = [{a}], ends = [{b}], axes = [2]> (x)\n"
            for k, (a, b) in enumerate(bounds)
        )
    return onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : {opset}]> g (float[2,3,{size}] x) => (float[a,b,c] y)
        <{weights}, int64[1] last = {{2}}, int64[1] minus = {{-1}}, int64[1] middle = {{1}}>
        {{ {body} j = Concat <axis = 2> ({names})
           y = Relu (j) }}"""
    )


END = 2**63 - 1


@pytest.mark.parametrize(
    "proto",
    [
        cut((0, 2), (2, END)),
        cut((0, -3), (-3, -1), (-1, END), axis="minus"),
        cut((0, 2), (2, 5), size="5"),
        cut((0, 2), (2, -1), (-1, END), size="5", axis="minus"),
        cut((0, 9), (9, END)),  # the second is empty
        cut((-9, 2), (2, 2**31 - 1), size="5", opset=9),
    ],
)
def test_slices_of_a_whole_value_are_the_value(proto: onnx.ModelProto) -> None:
    made, result = apply("cascaded-nodes", proto)
    assert result.modified and kinds(made)["Concat"] == 0
    same(proto, made, (2, 3, 5))


@pytest.mark.parametrize(
    "proto",
    [
        cut((0, 2), (3, END)),  # one is missing
        cut((0, 2), (2, 4), size="5"),
        cut((0, 2), (2, 4)),
        cut((0, 3), (2, END)),  # one is twice
        cut((2, END), (0, 2)),
        cut((0, 2), (2, -3), (-3, END)),  # of 4 elements, the third is twice
        cut((0, 2), (2, END), axis="middle"),
    ],
)
def test_slices_that_are_not_a_whole_value_stay(proto: onnx.ModelProto) -> None:
    assert not apply("cascaded-nodes", proto)[1].modified


def test_the_same_convolution_with_weights_stored_twice() -> None:
    weight = np.random.default_rng(0).standard_normal((4, 3, 3, 3)).astype(np.float32)
    proto = assemble(
        [
            helper.make_node("Conv", ["x", "w1"], ["a"], name="one"),
            helper.make_node("Conv", ["x", "w2"], ["b"], name="other"),
            helper.make_node("Conv", ["x", "w3"], ["c"], name="third"),
            helper.make_node("Sigmoid", ["b"], ["s"], name="gate"),
            helper.make_node("Mul", ["a", "s"], ["m"], name="mul"),
            helper.make_node("Add", ["m", "c"], ["y"], name="add"),
        ],
        "float[1,3,8,8] x",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4, 6, 6]) for name in ("y", "b")],
        {"w1": weight, "w2": weight, "w3": weight + np.float32(1e-6)},
    )
    made, result = apply("duplicate-nodes", proto)
    assert kinds(made)["Conv"] == 2
    facts(result.what, "Merged 1 node", "1 weight")
    same(proto, made, (1, 3, 8, 8))
    called = {spec.name for spec, _ in rewrites.proposals(ir.serde.deserialize_model(proto))}
    assert "duplicate-nodes" in called


def test_random_numbers_are_drawn_as_often_as_before() -> None:
    proto = model_of(
        "g (float[3] x) => (float[3] y) { a = RandomNormalLike (x) b = RandomNormalLike (x) y = Sub (a, b) }"
    )
    assert not apply("duplicate-nodes", proto)[1].modified


def test_down_and_back_twice_with_a_node_between() -> None:
    proto = model_of(
        """g (float[2,3] x) => (float[3,2] y)
        { h = Cast <to = 10> (x) t = Transpose (h) b = Cast <to = 1> (t)
          k = Cast <to = 10> (b) c = Cast <to = 1> (k) y = Relu (c) }"""
    )
    made, result = apply("cast-round-trips", proto)
    assert "2 casts" in result.what
    assert kinds(made) == {"Transpose": 1, "Relu": 1}


def test_down_and_straight_back() -> None:
    proto = model_of(
        """g (float[2,3] x) => (float[3,2] y)
        { a = Neg (x) h = Cast <to = 10> (a) t = Transpose (h) b = Cast <to = 1> (t) y = Relu (b) }"""
    )
    made, _ = apply("cast-round-trips", proto)
    assert kinds(made) == {"Neg": 1, "Transpose": 1, "Relu": 1}
    assert rewrites.find("cast-round-trips").safety == "numerics"
    feeds = {"x": np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)}
    np.testing.assert_allclose(run(made, feeds)[0], run(proto, feeds)[0], rtol=1e-3)
    used = model_of(
        "g (float[2] x) => (float[2] y, float16[2] z) "
        "{ h = Cast <to = 10> (x) z = Neg (h) b = Cast <to = 1> (h) y = Relu (b) }"
    )
    made, _ = apply("cast-round-trips", used)
    assert kinds(made) == {"Cast": 1, "Neg": 1, "Relu": 1}


def test_what_prepares_comes_before_what_it_is_for() -> None:
    proto = model_of(
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
