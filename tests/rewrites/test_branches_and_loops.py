"""Branches that are always taken and short loops are written out."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from structural_checks import apply, kinds, same

from onnx_text import model_of

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
    proto = model_of(BRANCHES.format(n=3))
    made, result = apply("constant-folding", proto)
    # What only the other branch read goes with it.
    assert kinds(made) == {"Mul": 1, "Add": 1}
    assert "1 branch of If" in result.what
    assert {node.name for node in made.graph.node if not node.metadata_props} == set()
    same(proto, made, (3, 3))
    proto = model_of(BRANCHES.format(n=5))
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
    proto = model_of(BRANCHES.format(n="any"))
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
    proto = model_of(LOOP.format(rounds=3, trips="rounds", on="on", go="go = Identity (c)"), opset)
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
        ({"rounds": 200}, "more than 512"),
        ({"rounds": 0}, "no iterations"),
        ({"go": "n = Neg (f) go = Cast <to = 9> (n)"}, "may stop early"),
        ({"trips": ""}, "is not constant"),
        ({"go": "go = Identity (c) n = RandomNormalLike <seed = 1.0> (s)"}, "draws random numbers"),
    ],
)
def test_a_loop_that_stays(change: dict[str, object], why: str) -> None:
    given = {"rounds": 3, "trips": "rounds", "on": "on", "go": "go = Identity (c)"} | change
    _, result = apply("loop-unrolling", model_of(LOOP.format(**given)))
    assert not result.modified
    assert why in result.reasons[0]


def test_a_loop_whose_rounds_draw_random_numbers_stays() -> None:
    """Also where a function draws them; unlike the rounds, copies would all begin with the seed."""
    proto = model_of(
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
    proto = model_of(
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
