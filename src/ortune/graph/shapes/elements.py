"""Elements of a shape tensor, traced back to the values that have these sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
import onnx_ir as ir

from ortune.graph.attributes import cast_to, has_parameters
from ortune.graph.constants import SMALL, constant
from ortune.graph.evaluation import evaluate
from ortune.graph.nodes import is_op

Element = TypeVar("Element")

DEPTH = 32
"""Maximum number of nodes between a shape tensor and the values whose sizes it contains."""

_SAME = ("Unsqueeze", "Squeeze", "Cast", "Identity")
"""Operators that change the shape or type of a list of sizes, but not the sizes."""
_WHOLE_TYPES = (0, ir.DataType.INT64.value, ir.DataType.INT32.value)
"""Types that a Cast may convert to (0 means no Cast); narrower types might change a size."""
_OPSET, _OPSET_OF_ATTRIBUTES = 13, 9
"""Opset versions in which the bounds of a Slice are inputs, and in which they are attributes."""


def elements(
    value: ir.Value | None,
    sizes_of: Callable[[ir.Node, int], Sequence[Element | int | None] | None],
    count_of: Callable[[ir.Value], int | None],
    depth: int = DEPTH,
    least: int = 0,
) -> list[Element | int | None] | None:
    """Return the elements of a value that consists of sizes.

    Args:
        value: Any value.
        sizes_of: Returns the result of a Shape node; None if its input's rank is unknown. The second argument is the
            number of leading axes that are needed, for any rank; 0 for all axes.
        count_of: Returns the number of elements of a value; None if unknown.
        depth: Maximum number of consecutive nodes.
        least: Number of leading elements that are needed; 0 for all elements.

    Returns:
        A number or a symbol for each element, None for each unknown element. None if the number of elements is unknown.
    """
    numbers = constant(value, most=SMALL)
    if numbers is not None:
        return [int(n) for n in numbers.reshape(-1)] if numbers.dtype.kind in "iu" else None
    node = value.producer() if value is not None else None
    if value is None or node is None or depth == 0 or has_parameters(node):
        return None

    def follow(source: ir.Value | None, least: int = 0) -> list[Element | int | None] | None:
        return elements(source, sizes_of, count_of, depth - 1, least)

    found: list[Element | int | None] | None = None
    if is_op(node, *_SAME):
        found = follow(node.inputs[0], least) if cast_to(node) in _WHOLE_TYPES else None
    elif is_op(node, "Shape"):
        sizes = sizes_of(node, least)
        found = None if sizes is None else list(sizes)
    elif is_op(node, "Concat"):
        parts = [follow(part) for part in node.inputs]
        if all(part is not None for part in parts):
            found = [element for part in parts if part is not None for element in part]
    elif is_op(node, "Gather", "Slice"):
        found = _picked(node, follow)
    if found is None and (count := count_of(value)) is not None and count < DEPTH:
        return [None] * count
    return found


def _picked(
    node: ir.Node, follow: Callable[[ir.Value | None, int], list[Element | int | None] | None]
) -> list[Element | int | None] | None:
    """Return the list elements that a Gather or a Slice selects, by evaluating the node on indices."""
    rest = [None if value is None else constant(value) for value in node.inputs[1:]]
    if any(array is None and value is not None for array, value in zip(rest, node.inputs[1:], strict=True)):
        return None
    at = rest[0] if is_op(node, "Gather") else None
    first = at is not None and at.dtype.kind in "iu" and at.size and at.min() >= 0
    source = follow(node.inputs[0], int(at.max()) + 1 if at is not None and first else 0)
    if source is None:
        return None
    opset = _OPSET if rest else _OPSET_OF_ATTRIBUTES
    places = evaluate(node, opset, [np.arange(len(source)), *rest])
    return None if places is None else [source[int(place)] for place in places[0].reshape(-1)]
