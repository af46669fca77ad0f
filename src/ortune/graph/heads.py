"""Attention heads: the Reshape and Transpose patterns with which exporters split a value into heads."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from ortune.graph.attributes import int_of, is_parameter
from ortune.graph.constants import constant, scalar
from ortune.graph.nodes import is_op
from ortune.graph.shape_elements import Symbol, perm_of, symbols
from ortune.graph.shapes.nearby import reduced_axes

SPLIT = [0, 2, 1, 3]  # batch, length, heads, size to batch, heads, length, size
_PACKED = [2, 0, 3, 1, 4]  # batch, length, which, heads, size to which, batch, heads, length, size
_SPLIT_TURNED = [0, 2, 3, 1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Heads:
    """The attention heads into which a value is split.

    Attributes:
        flat: The value before the split; its last axis contains all heads, perhaps of queries, keys and values.
        split: The Reshape that splits the heads.
        count, size: Number of heads, and elements per head.
        part, parts: Index of the projection that these heads belong to, and number of packed projections.
    """

    flat: ir.Value
    split: ir.Node
    count: int
    size: int
    part: int = 0
    parts: int = 1


def heads_of(value: ir.Value, perm: list[int]) -> Heads | None:  # noqa: PLR0911  (one a form)
    """Return the heads that a Reshape and a Transpose with permutation ``perm`` produce; None without a match."""
    # Queries, keys and values of one projection are split together, then selected by index.
    part, turn = (None, value.producer())
    if perm == SPLIT and perm_of(turn) is None:
        part, turn = _slice_of_transpose(value)
    if turn is None or perm_of(turn) != (perm if part is None else _PACKED) or turn.inputs[0] is None:
        return None
    split = turn.inputs[0].producer()
    if split is None or not is_op(split, "Reshape") or split.inputs[0] is None:
        return None
    sizes = symbols(split.inputs[1])
    if sizes is None or len(sizes) != (4 if part is None else 5):
        return None
    count, size = sizes[-2:]
    if not isinstance(count, int) or not isinstance(size, int):
        return None
    if part is not None:
        parts = sizes[2]
        if not isinstance(parts, int) or min(parts, count, size) < 1 or not 0 <= part < parts:
            return None
        return Heads(flat=split.inputs[0], split=split, count=count, size=size, part=part, parts=parts)
    if min(count, size) == -1 and max(count, size) > 0:
        # A -1 is the rest of the width: exporters write one of the two sizes so. An unknown width is 0, which gives
        # neither the count nor the size.
        width, other = _width(split.inputs[0]), max(count, size)
        if width % other:
            return None
        count, size = (width // other, size) if count == -1 else (count, width // other)
    if count < 1 or size < 1:
        return None
    return Heads(flat=split.inputs[0], split=split, count=count, size=size)


def _slice_of_transpose(value: ir.Value) -> tuple[int, ir.Node | None] | tuple[None, None]:  # noqa: PLR0911  (one a form)
    """Return (index, Transpose) if a value is a slice of a Transpose's first axis, else (None, None)."""
    node = value.producer()
    if is_op(node, "Gather"):
        assert node is not None
        at = constant(node.inputs[1])
        if at is None or at.ndim or is_parameter(node, "axis") or int_of(node, "axis", 0) != 0:
            return None, None
        source = node.inputs[0]
        return int(at), source.producer() if source is not None else None
    if not is_op(node, "Squeeze") or node is None or node.inputs[0] is None:
        return None, None
    source = node.inputs[0]
    cut = source.producer()
    if reduced_axes(node) != (0,):
        return None, None
    if cut is None or cut.inputs[0] is None:
        return None, None
    if is_op(cut, "Split"):
        if is_parameter(cut, "axis") or int_of(cut, "axis", 0) != 0:
            return None, None
        # Each part has length one, or the axis could not be squeezed.
        return cut.outputs.index(source), cut.inputs[0].producer()
    bounds = [constant(v) for v in cut.inputs[1:]]
    if not is_op(cut, "Slice") or len(bounds) < 3 or any(n is None or n.size != 1 for n in bounds):
        return None, None
    start, end, along, *step = [int(n.reshape(())) for n in bounds if n is not None]
    if along != 0 or end - start != 1 or step not in ([], [1]):
        return None, None
    return start, cut.inputs[0].producer()


def _width(value: ir.Value) -> int:
    """Return the size of the last axis, as declared or from the weights that produced the value; 0 if unknown."""
    last = value.shape[-1] if value.shape is not None and len(value.shape) else None
    if isinstance(last, int):
        return last
    node = value.producer()
    if not is_op(node, "Add", "MatMul"):
        return 0
    assert node is not None
    for other in node.inputs[1:] if node.op_type == "MatMul" else node.inputs:
        numbers = constant(other)
        # A sum is as wide as a bias wider than one.
        if numbers is not None and numbers.ndim and numbers.shape[-1] > 1:
            return int(numbers.shape[-1])
    return 0


def keys_of(value: ir.Value) -> Heads | None:  # noqa: PLR0911  (one a form)
    """Return the heads of keys transposed by one Transpose, two Transposes, or one between two Reshapes; else None."""
    direct = heads_of(value, _SPLIT_TURNED)
    if direct is not None:
        return direct
    node = value.producer()
    if node is None or node.inputs[0] is None:
        return None
    if perm_of(node) == [0, 1, 3, 2]:
        before, _ = scaled(node.inputs[0])
        return heads_of(before, SPLIT) if before is node.inputs[0] else None
    if not is_op(node, "Reshape"):
        return None
    turn = node.inputs[0].producer()
    if turn is None or perm_of(turn) != [0, 2, 1] or turn.inputs[0] is None:
        return None
    first = turn.inputs[0].producer()
    if first is None or not is_op(first, "Reshape") or first.inputs[0] is None:
        return None
    source = first.inputs[0]
    heads = heads_of(source, SPLIT)
    if heads is None:
        return None
    flat, back = symbols(first.inputs[1]), symbols(node.inputs[1])
    if flat is None or back is None or len(flat) != 3 or len(back) != 4:
        return None
    # The keys are transposed as one matrix per head: the Reshapes may only merge and split batch and heads.
    turned = _is_axis(flat[1], source, 2, heads) and _is_axis(flat[2], source, 3, heads)
    restored = (
        _is_axis(back[1], source, 1, heads)
        and _is_axis(back[2], source, 3, heads)
        and _is_axis(back[3], source, 2, heads)
    )
    return heads if turned and restored else None


def _is_axis(symbol: Symbol, value: ir.Value, axis: int, heads: Heads) -> bool:
    """Return whether a shape element is the size of one axis of the split heads: batch, heads, length, size."""
    if not isinstance(symbol, int):
        return symbol == (value, axis)
    if axis in (1, 3):
        return symbol == (heads.count if axis == 1 else heads.size)
    sizes = symbols(heads.split.inputs[1])
    length = sizes[1] if sizes is not None else None
    declared = value.shape[2] if value.shape is not None and len(value.shape) == 4 else None
    return symbol > 0 and symbol in (length, declared)


def scaled(value: ir.Value) -> tuple[ir.Value, float]:
    """Return (x, factor) of ``x * factor`` or ``x / (1 / factor)``; (value, 1.0) for any other value."""
    node = value.producer()
    if is_op(node, "Mul", "Div"):
        assert node is not None
        for x, other in (node.inputs, reversed(node.inputs)):
            number = scalar(other)
            if x is None or number is None or scalar(x) is not None:
                continue
            if node.op_type == "Mul":
                return x, number
            if x is node.inputs[0] and number:
                return x, 1 / number
    return value, 1.0
