"""Dimensions that are fixed: sizes that a node does not take are refused before a model is written."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from facts import facts
from onnx_text import model_of
from ortune import rewrites
from ortune.errors import UsageError

REWRITE = rewrites.find("fixed-dimensions")

HELD = {
    "reshape": """g (float[batch,4] x) => (float[batch,4] y)
    <int64[3] shape = {8,2,2}> { [held] t = Reshape (x, shape) [flat] y = Flatten (t) }""",
    "tile": """g (float[batch,2] x, float[1,2] q) => (float[batch,4] y)
    <int64[2] times = {8,1}> { [tile] t = Tile (q, times) [held] y = Concat <axis = 1> (x, t) }""",
    "product": """g (float[3,batch] x) => (float[3,2] y, float[3,batch] z)
    <float[8,2] w = {1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1}> { [held] y = MatMul (x, w) z = Relu (x) }""",
}


@pytest.mark.parametrize("kind", HELD)
def test_a_size_that_a_node_does_not_take_is_refused_with_the_node_and_the_size_that_works(kind: str) -> None:
    model = ir.from_proto(model_of(HELD[kind]))
    with pytest.raises(UsageError) as refused:
        REWRITE.change(model, {"batch": "1"})
    facts(refused.value.what, "batch", "held", "batch=8")
    assert "batch=8" in refused.value.do
    assert REWRITE.change(model, {"batch": "8"}).modified


def test_a_size_that_only_broadcasts_is_not_refused() -> None:
    text = """g (float[batch,4] x) => (float[batch,4] y)
    <float[1,4] w = {1,1,1,1}> { y = Add (x, w) }"""
    assert REWRITE.change(ir.from_proto(model_of(text)), {"batch": "3"}).modified
