"""Helpers for the rules of the shape walk: axes and broadcasting."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx_ir as ir

from ortune.graph.attributes import ints_of
from ortune.graph.nodes import input_of
from ortune.graph.shapes.symbols import Dim, Size
from ortune.graph.shapes.walk import Shape, Walk

ONE = Size((), 1)

Handler = Callable[[Walk, ir.Node], "Shape | Sequence[Shape | None] | None"]
"""Shape function of an operator: returns the output shape, or one per output; None if unknown."""


def axes_of(walk: Walk, node: ir.Node) -> list[int] | None:
    """Return axes from an attribute (old opsets) or the second input; None if missing or unknown."""
    listed = ints_of(node, "axes")
    return listed if listed is not None else walk.numbers(input_of(node, 1))


def broadcast(walk: Walk, a: Shape, b: Shape) -> Shape:
    """Broadcast two shapes; record a clash if two sizes are different numbers and neither is 1."""
    rank = max(len(a), len(b))
    left = (ONE,) * (rank - len(a)) + a
    right = (ONE,) * (rank - len(b)) + b
    return tuple(_broadcast_dim(walk, x, y) for x, y in zip(left, right, strict=True))


def _broadcast_dim(walk: Walk, a: Dim, b: Dim) -> Dim:
    if a in (ONE, b):
        return b
    if b == ONE:
        return a
    # With an unknown size, only a number determines the result: 1 was excluded above.
    if a is None or b is None:
        dim = b if a is None else a
        return dim if dim is not None and dim.value is not None else None
    if a.value is not None and b.value is not None:
        walk.fail(f"{a.value} cannot be broadcast to {b.value}")
        return None
    # A symbol broadcast with a number above 1 must be that number (or 1, which would hide the model's real work).
    return walk.equal(a, b) if a.value is not None or b.value is not None else None
