"""Reshapes whose sizes stay in their place get a constant target."""

from __future__ import annotations

import pytest
from structural_checks import apply, kinds, same

from facts import facts
from onnx_text import model_of

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
    proto = model_of(HEADS.format(source=source, order="b, t"))
    made, result = apply("constant-reshape", proto)
    assert kinds(made) == {"Neg": 1, "Reshape": 1, "Transpose": 1}
    facts(result.what, "1 Reshape", "constant target shape")
    same(proto, made, (2, 5, 12))
    same(proto, made, (0, 5, 12))


def test_sizes_that_change_places_stay() -> None:
    _, result = apply("constant-reshape", model_of(HEADS.format(source="x", order="t, b")))
    assert not result.modified
    facts(result.reasons[0], "more than one")


def test_two_inputs_with_one_name_for_a_size_are_not_believed() -> None:
    proto = model_of(
        """g (float[n,m,2] x, float[n,m] z) => (float[a,b,c] y) <int64[1] one = {1}, int64[1] two = {2}>
        { s = Shape (z) to = Concat <axis = 0> (s, one, two) y = Reshape (x, to) }"""
    )
    assert not apply("constant-reshape", proto)[1].modified


def test_a_slice_of_an_unknown_size_is_another_size() -> None:
    proto = model_of(
        """g (float[n,2] x) => (float[a,2] y) <int64[1] s = {0}, int64[1] e = {3}>
        { p = Slice (x, s, e) y = Relu (p) }"""
    )
    assert not apply("no-op-nodes", proto)[1].modified
