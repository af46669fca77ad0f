"""The elements of shape tensors: sizes are followed through what moves them, and through nothing that changes them."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from onnx_text import model_of
from ortune.graph.shape_elements import symbols
from ortune.graph.shapes.known import known_values

HEAD = (
    "g (float[n,3,m] x) => (int64[k] y) <int64[1] zero = {0}, int64[2] ends = {2, 0}, int64[1] last = {-1},"
)


@pytest.mark.parametrize(
    ("nodes", "dims", "axes"),
    [
        ("y = Shape (x)", ("x[0]", 3, "x[2]"), (0, 1, 2)),
        ("y = Shape <start = 1> (x)", (3, "x[2]"), (1, 2)),
        ("s = Shape (x) y = Gather (s, ends)", ("x[2]", "x[0]"), (2, 0)),
        ("s = Shape (x) y = Slice (s, zero, last)", ("x[0]", 3), (0, 1)),
        ("s = Shape (x) y = Slice (s, last, big, zero)", ("x[2]",), (2,)),
        ("s = Shape (x) y = Slice (s, last, low, zero, last)", ("x[2]", 3, "x[0]"), (2, 1, 0)),
        (
            "s = Shape (x) t = Slice (s, zero, last) y = Concat <axis = 0> (t, ends)",
            ("x[0]", 3, 2, 0),
            (0, 1, 2, 0),
        ),
        ("s = Shape (x) h = Cast <to = 1> (s) y = Cast <to = 7> (h)", (None, None, None), None),
        ("s = Shape (x) y = Neg (s)", (None, None, None), None),
    ],
)
def test_sizes_are_followed(
    nodes: str, dims: tuple[int | str | None, ...], axes: tuple[int, ...] | None
) -> None:
    weights = "int64[1] big = {9223372036854775807}, int64[1] low = {-100}>"
    model = ir.from_proto(model_of(f"{HEAD} {weights} {{ {nodes} }}"))
    (x,), (y,) = model.graph.inputs, model.graph.outputs
    assert known_values(model).contents(y) == dims
    found = symbols(y)
    assert (found and [s[1] if isinstance(s, tuple) and s[0] is x else s for s in found]) == (
        list(axes) if axes is not None else None
    )


def test_an_axis_counted_from_the_first_needs_no_rank() -> None:
    text = "g (float[] x) => (int64[k] y) <int64[2] at = {1, 0}> { z = Relu (x) s = Shape (z) y = Gather (s, at) }"
    model = ir.from_proto(model_of(text))
    model.graph[0].outputs[0].shape = None
    assert [s[1] for s in symbols(model.graph.outputs[0]) or () if isinstance(s, tuple)] == [1, 0]
