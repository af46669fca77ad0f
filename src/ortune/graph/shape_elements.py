"""Elements of a shape tensor, as numbers or as axis sizes of other values."""

from __future__ import annotations

import onnx_ir as ir

from ortune.graph.attributes import ints_of, optional_int
from ortune.graph.constants import constant
from ortune.graph.nodes import is_op
from ortune.graph.shapes.elements import elements

Symbol = int | tuple[ir.Value, int] | None
"""An element of a shape: a number, (value, axis) for the size of an axis, or None if unknown."""


def symbols(value: ir.Value | None) -> list[Symbol] | None:
    """Return the elements of a shape tensor as numbers or symbols; None if their number is unknown."""
    return elements(value, _shape, _count)


def _shape(node: ir.Node, least: int) -> list[Symbol] | None:
    source = node.inputs[0]
    if source is None:
        return None
    perm = perm_of(source.producer())
    start, end = optional_int(node, "start"), optional_int(node, "end")
    rank = len(source.shape) if source.shape is not None else len(perm) if perm else 0
    # Axes counted from the first are the same for any rank.
    if not rank and start is not None and end is not None and 0 <= start < end:
        rank = end
    elif not rank and start is None and end is None:
        rank = least
    return [(source, axis) for axis in range(rank)[start:end]] if rank else None


def _count(value: ir.Value) -> int | None:
    """Return 1 if a value is known to have one element (declared, an Unsqueeze of a scalar, or a Slice), else None."""
    node = value.producer()
    if is_op(node, "Unsqueeze") and node is not None:
        source = node.inputs[0]
        if source is not None and source.shape is not None and len(source.shape) == 0:
            return 1
    if is_op(node, "Slice") and node is not None and _cuts_one(node):
        return 1
    return 1 if value.shape is not None and len(value.shape) == 1 and value.shape[0] == 1 else None


def _cuts_one(node: ir.Node) -> bool:
    """Return whether a Slice selects exactly one element of a Shape."""
    source = node.inputs[0].producer() if node.inputs[0] is not None else None
    while source is not None and is_op(source, "Cast"):
        source = source.inputs[0].producer() if source.inputs[0] is not None else None
    start, end = (constant(v) for v in (*node.inputs[1:3], None, None)[:2])
    if not is_op(source, "Shape") or start is None or end is None or start.size != 1 or end.size != 1:
        return False
    low, high = int(start.reshape(())), int(end.reshape(()))
    return high - low == 1 and high != 0  # from -1 to 0 is empty


def perm_of(node: ir.Node | None) -> list[int] | None:
    """Return the permutation of a Transpose; None for other nodes and for a missing ``perm``."""
    return ints_of(node, "perm") if node is not None and is_op(node, "Transpose") else None
