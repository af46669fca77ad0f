"""Elements of a shape tensor, followed from the nodes that make it up to the values whose sizes it holds."""

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
"""Most nodes between a shape tensor and the values whose sizes it holds."""

_SAME = ("Unsqueeze", "Squeeze", "Cast", "Identity")
"""Operators that change the shape or the type of a list of sizes, not the sizes."""
_WHOLE_TYPES = (0, ir.DataType.INT64.value, ir.DataType.INT32.value)
"""What a Cast may convert to; 0 is no Cast. In a type of fewer digits a size may become another one."""
_OPSET, _OPSET_OF_ATTRIBUTES = 13, 9
"""Versions of the operators with the bounds of a Slice as inputs, and as attributes."""


def elements(
    value: ir.Value | None,
    sizes_of: Callable[[ir.Node, int], Sequence[Element | int | None] | None],
    count_of: Callable[[ir.Value], int | None],
    depth: int = DEPTH,
    least: int = 0,
) -> list[Element | int | None] | None:
    """Return the elements of a value that holds sizes.

    Args:
        value: Any value.
        sizes_of: Returns what a Shape node gives; None if the rank of its input is unknown. The second argument is the
            number of axes, counted from the first, that are of interest whatever the rank; 0 if all are.
        count_of: Returns the number of elements of a value; None if unknown.
        depth: Most nodes that are followed one after another.
        least: The number of elements, counted from the first, that are of interest; 0 if all are.

    Returns:
        A number or a symbol for each element, None for each unknown one. None if the number of elements is unknown.
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
    """Return the elements that a Gather or a Slice takes of a list, computed on their places."""
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
