"""Elements of a shape tensor as they were written into the graph: numbers, or sizes of axes of other values."""

from __future__ import annotations

import onnx_ir as ir

from ortune.graph.attributes import has_parameters, ints_of, optional_int
from ortune.graph.constants import constant
from ortune.graph.nodes import is_op
from ortune.graph.shapes.nearby import elements

Symbol = int | tuple[ir.Value, int] | None
"""An element of a shape: a number, the size of an axis of a value, or not known."""


def symbols(value: ir.Value | None, depth: int = 8) -> list[Symbol] | None:
    """Returns the elements of a shape tensor as numbers or symbols; None where their count is unknown."""
    numbers = constant(value)
    if numbers is not None:
        return [int(n) for n in numbers.reshape(-1)] if numbers.dtype.kind in "iu" else None
    node = value.producer() if value is not None else None
    if value is None or node is None or depth == 0:
        return None
    parts_of_shape: list[Symbol] | None = None
    if is_op(node, "Cast", "Identity", "Unsqueeze", "Squeeze"):
        parts_of_shape = symbols(node.inputs[0], depth - 1)
    elif is_op(node, "Concat"):
        parts = [symbols(v, depth - 1) for v in node.inputs]
        parts_of_shape = (
            None if any(p is None for p in parts) else [s for p in parts if p is not None for s in p]
        )
    elif is_op(node, "Shape"):
        parts_of_shape = _shape(node)
    elif is_op(node, "Slice", "Gather"):
        parts_of_shape = _taken_part(node, symbols(node.inputs[0], depth - 1))
    if parts_of_shape is None:
        counted = elements(value)
        parts_of_shape = None if counted is None else list(counted)
    return parts_of_shape


def _shape(node: ir.Node) -> list[Symbol] | None:
    source = node.inputs[0]
    if source is None:
        return None
    perm = perm_of(source.producer())
    rank = len(source.shape) if source.shape is not None else len(perm) if perm else 0
    if has_parameters(node):
        return None
    start, end = optional_int(node, "start"), optional_int(node, "end")
    if not rank and start is not None and end is not None and 0 <= start < end:
        rank = end  # counted from the first, these are the same whatever the rank
    if not rank:
        return None
    return [(source, axis) for axis in range(rank)[start:end]]


def _taken_part(node: ir.Node, whole: list[Symbol] | None) -> list[Symbol] | None:
    """The part of a list that a Gather or a Slice of one step takes."""
    source = node.inputs[0].producer() if node.inputs[0] is not None else None
    if node.op_type == "Gather":
        at = constant(node.inputs[1])
        if (
            whole is None
            and at is not None
            and at.size == 1
            and at.reshape(-1)[0] >= 0
            and is_op(source, "Shape")
        ):
            # Counted from the first, it is the same axis whatever the rank.
            assert source is not None
            of = source.inputs[0]
            return [(of, int(at.reshape(-1)[0]))] if of is not None and not source.attributes else None
        if whole is None or at is None or any(not -len(whole) <= int(n) < len(whole) for n in at.reshape(-1)):
            return None
        return [whole[int(n)] for n in at.reshape(-1)]
    bounds = [constant(v) for v in node.inputs[1:]]
    if whole is None or len(bounds) < 2 or any(n is None or n.size != 1 for n in bounds):
        return None
    numbers = [int(n.reshape(())) for n in bounds if n is not None]
    if numbers[3:] not in ([], [1]):
        return None
    return whole[slice(*numbers[:2])]


def perm_of(node: ir.Node | None) -> list[int] | None:
    """The order of axes that a Transpose has; None of other nodes."""
    return ints_of(node, "perm") if node is not None and is_op(node, "Transpose") else None
