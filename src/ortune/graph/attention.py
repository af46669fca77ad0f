"""Attention in a graph: a Softmax between two products, and how the heads were split off and joined."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from ortune.graph.attributes import has_parameters, int_of, ints_of, is_parameter, optional_int
from ortune.graph.constants import constant, scalar
from ortune.graph.nodes import Scope, is_op, only_user, other_input
from ortune.graph.shapes.nearby import elements, reduced_axes
from ortune.model.graphs import op_set

Symbol = int | tuple[ir.Value, int] | None
"""An element of a shape: a number, the size of an axis of a value, or not known."""

PRODUCTS = op_set("MatMul Einsum FusedMatMul MatMulInteger")
_BEFORE = op_set("Add Mul Div Where Cast Reshape Sub")
_AFTER = op_set("Cast Where Dropout Identity Reshape")
_STEPS = 6  # nodes from a Softmax to a product

_SPLIT = [0, 2, 1, 3]  # batch, length, heads, size to batch, heads, length, size
_PACKED = [2, 0, 3, 1, 4]  # batch, length, which, heads, size to which, batch, heads, length, size
_SPLIT_TURNED = [0, 2, 3, 1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Heads:
    """Heads split off from a value.

    Attributes:
        flat: Before: all heads in a row, perhaps those of queries, keys and values one after another.
        split: The Reshape that splits them off.
        count, size: Of the heads.
        part, parts: Which of how many in a row these are.
    """

    flat: ir.Value
    split: ir.Node
    count: int
    size: int
    part: int = 0
    parts: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Core:
    """Two products and the Softmax between.

    Attributes:
        softmax: Over the keys.
        queries, keys, values: Their heads; None where they are not split off by Reshape and Transpose.
        scale: Of the product of queries and keys.
        mask: What is added to the scaled product.
        guarded: Whether rows of NaN are made 0.
        joined: The Reshape after the Transpose that joins the heads again; None where there is none.
        shared: A value on the way that is used elsewhere too.
    """

    softmax: ir.Node
    queries: Heads | None
    keys: Heads | None
    values: Heads | None
    scale: float
    mask: ir.Value | None
    guarded: bool
    joined: ir.Node | None
    shared: ir.Value | None


def between_products(softmax: ir.Node) -> list[str] | None:
    """Returns the operators between a Softmax and the two products around it; None without two products."""
    before, above = list[str](), softmax.inputs[0].producer() if softmax.inputs[0] is not None else None
    for _ in range(_STEPS):
        if above is None or above.op_type not in _BEFORE:
            break
        before.append(above.op_type)
        makers = [v.producer() for v in above.inputs if v is not None and v.producer() is not None]
        above = next((m for m in makers if m is not None and m.op_type in _BEFORE | PRODUCTS), None)
    after, below = list[str](), _reader(softmax)
    for _ in range(_STEPS):
        if below is None or below.op_type not in _AFTER:
            break
        after.append(below.op_type)
        below = _reader(below)
    ends = (above, below)
    return [*before, *after] if all(end is not None and end.op_type in PRODUCTS for end in ends) else None


def _reader(node: ir.Node) -> ir.Node | None:
    users = [use.node for use in node.outputs[0].uses()]
    return next((user for user in users if user.op_type in _AFTER | PRODUCTS), None)


def cores(scope: Scope) -> list[Core]:
    """Finds every attention in one graph; subgraphs are not searched."""
    candidates = [core_of(node) for node in scope if is_op(node, "Softmax")]
    return [core for core in candidates if core is not None]


def core_of(softmax: ir.Node) -> Core | None:
    """Matches the attention around a Softmax; None where there is none."""
    if is_parameter(softmax, "axis") or int_of(softmax, "axis", -1) not in (-1, 3):
        return None
    shared: list[ir.Value] = []
    weights, guarded = _guarded(softmax.outputs[0], shared)
    product = next((use.node for use in weights.uses() if is_op(use.node, "MatMul")), None)
    if product is None or product.inputs[0] is not weights or product.graph is not softmax.graph:
        return None
    scores, mask, scale = _scores(softmax.inputs[0], shared)
    if scores is None or scores.inputs[0] is None or scores.inputs[1] is None or product.inputs[1] is None:
        return None
    for value in (softmax.inputs[0], weights):
        if value is not None and only_user(value) is None:
            shared.append(value)
    left, by_left = _scaled(scores.inputs[0])
    right, by_right = _scaled(scores.inputs[1])
    joined = _joined(product, shared)
    return Core(
        softmax=softmax,
        queries=_heads(left, _SPLIT),
        keys=_keys(right),
        values=_heads(product.inputs[1], _SPLIT),
        scale=scale * by_left * by_right,
        mask=mask,
        guarded=guarded,
        joined=joined,
        shared=shared[0] if shared else None,
    )


def _guarded(weights: ir.Value, shared: list[ir.Value]) -> tuple[ir.Value, bool]:
    """The weights after ``Where(IsNaN(w), 0, w)``, where that follows, and whether it does."""
    users = [use.node for use in weights.uses()]
    test = next((node for node in users if is_op(node, "IsNaN")), None)
    chosen = next((node for node in users if is_op(node, "Where")), None)
    if test is None or chosen is None or chosen.inputs[0] is not test.outputs[0]:
        return weights, False
    if chosen.inputs[2] is not weights or scalar(chosen.inputs[1]) != 0.0:
        return weights, False
    if len(users) > 2 or weights.is_graph_output() or only_user(test.outputs[0]) is None:
        shared.append(weights)
    return chosen.outputs[0], True


def _scores(value: ir.Value | None, shared: list[ir.Value]) -> tuple[ir.Node | None, ir.Value | None, float]:
    """(product, mask, scale) of ``product * scale + mask``."""
    mask: ir.Value | None = None
    if value is None:
        return None, None, 1.0
    node = value.producer()
    if is_op(node, "Add"):
        assert node is not None
        for scores in node.inputs:
            product, _, scale = _scores_only(scores, shared)
            if product is not None and scores is not None:
                mask = other_input(node, scores)
                if mask is None:
                    return None, None, 1.0
                if only_user(scores) is None:
                    shared.append(scores)
                return product, mask, scale
        return None, None, 1.0
    return _scores_only(value, shared)


def _scores_only(
    value: ir.Value | None, shared: list[ir.Value]
) -> tuple[ir.Node | None, ir.Value | None, float]:
    if value is None:
        return None, None, 1.0
    plain, scale = _scaled(value)
    node = plain.producer()
    if not is_op(node, "MatMul"):
        return None, None, 1.0
    if plain is not value and only_user(plain) is None:
        shared.append(plain)
    return node, None, scale


def _scaled(value: ir.Value) -> tuple[ir.Value, float]:
    """(x, number) of ``x * number`` or ``x / number``; the value itself and 1 for others."""
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


def _perm(node: ir.Node | None) -> list[int] | None:
    return ints_of(node, "perm") if node is not None and is_op(node, "Transpose") else None


def _heads(value: ir.Value, perm: list[int]) -> Heads | None:  # noqa: PLR0911  (one a form)
    """The heads that a Reshape split off before a Transpose of this order."""
    part, turn = (None, value.producer())
    if perm == _SPLIT and _perm(turn) is None:
        part, turn = _taken(value)
    if turn is None or _perm(turn) != (perm if part is None else _PACKED) or turn.inputs[0] is None:
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
        # What is left of the width: exporters write one of the two so.
        width, other = _width(split.inputs[0]), max(count, size)
        if width % other:
            return None
        count, size = (width // other, size) if count == -1 else (count, width // other)
    if count < 1 or size < 1:
        return None
    return Heads(flat=split.inputs[0], split=split, count=count, size=size)


def _taken(value: ir.Value) -> tuple[int, ir.Node | None] | tuple[None, None]:  # noqa: PLR0911  (one a form)
    """(which, Transpose) of what one index of the first axis of a Transpose is."""
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
        # Each is of one, or the axis could not be squeezed.
        return cut.outputs.index(source), cut.inputs[0].producer()
    bounds = [constant(v) for v in cut.inputs[1:]]
    if not is_op(cut, "Slice") or len(bounds) < 3 or any(n is None or n.size != 1 for n in bounds):
        return None, None
    start, end, along, *step = [int(n.reshape(())) for n in bounds if n is not None]
    if along != 0 or end - start != 1 or step not in ([], [1]):
        return None, None
    return start, cut.inputs[0].producer()


def _width(value: ir.Value) -> int:
    """The size of the last axis, as declared or by the weights that a value was made with; 0 where nothing tells."""
    last = value.shape[-1] if value.shape is not None and len(value.shape) else None
    if isinstance(last, int):
        return last
    node = value.producer()
    if not is_op(node, "Add", "MatMul"):
        return 0
    assert node is not None
    for other in node.inputs[1:] if node.op_type == "MatMul" else node.inputs:
        numbers = constant(other)
        # A sum is as wide as a bias that is wider than one.
        if numbers is not None and numbers.ndim and numbers.shape[-1] > 1:
            return int(numbers.shape[-1])
    return 0


def _keys(value: ir.Value) -> Heads | None:  # noqa: PLR0911  (one a form)
    """The heads of keys that are turned: by the one Transpose, by another after it, or flat between two Reshapes."""
    direct = _heads(value, _SPLIT_TURNED)
    if direct is not None:
        return direct
    node = value.producer()
    if node is None or node.inputs[0] is None:
        return None
    if _perm(node) == [0, 1, 3, 2]:
        before, _ = _scaled(node.inputs[0])
        return _heads(before, _SPLIT) if before is node.inputs[0] else None
    if not is_op(node, "Reshape"):
        return None
    turn = node.inputs[0].producer()
    if turn is None or _perm(turn) != [0, 2, 1] or turn.inputs[0] is None:
        return None
    first = turn.inputs[0].producer()
    if first is None or not is_op(first, "Reshape") or first.inputs[0] is None:
        return None
    source = first.inputs[0]
    heads = _heads(source, _SPLIT)
    if heads is None:
        return None
    flat, back = symbols(first.inputs[1]), symbols(node.inputs[1])
    if flat is None or back is None or len(flat) != 3 or len(back) != 4:
        return None
    turned = _is_axis(flat[1], source, 2, heads) and _is_axis(flat[2], source, 3, heads)
    restored = (
        _is_axis(back[1], source, 1, heads)
        and _is_axis(back[2], source, 3, heads)
        and _is_axis(back[3], source, 2, heads)
    )
    return heads if turned and restored else None


def _is_axis(symbol: Symbol, value: ir.Value, axis: int, heads: Heads) -> bool:
    """Whether an element of a shape is the size of one axis of split heads: batch, heads, length, size."""
    if not isinstance(symbol, int):
        return symbol == (value, axis)
    if axis in (1, 3):
        return symbol == (heads.count if axis == 1 else heads.size)
    sizes = symbols(heads.split.inputs[1])
    length = sizes[1] if sizes is not None else None
    declared = value.shape[2] if value.shape is not None and len(value.shape) == 4 else None
    return symbol > 0 and symbol in (length, declared)


def _joined(product: ir.Node, shared: list[ir.Value]) -> ir.Node | None:
    turn = only_user(product.outputs[0])
    if turn is None:
        if product.outputs[0].uses():
            shared.append(product.outputs[0])
        return None
    if _perm(turn) != _SPLIT:
        return None
    joined = only_user(turn.outputs[0])
    if joined is None:
        shared.append(turn.outputs[0])
        return None
    if not is_op(joined, "Reshape") or joined.inputs[0] is not turn.outputs[0]:
        return None
    sizes = symbols(joined.inputs[1])
    # A 0 stands for an axis of what comes in, which from the third on is another one there.
    if sizes is None or not all(isinstance(n, int) and n != 0 for n in sizes[2:]):
        return None
    return joined


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
        parts_of_shape = _part(node, symbols(node.inputs[0], depth - 1))
    if parts_of_shape is None:
        counted = elements(value)
        parts_of_shape = None if counted is None else list(counted)
    return parts_of_shape


def _shape(node: ir.Node) -> list[Symbol] | None:
    source = node.inputs[0]
    if source is None:
        return None
    perm = _perm(source.producer())
    rank = len(source.shape) if source.shape is not None else len(perm) if perm else 0
    if has_parameters(node):
        return None
    start, end = optional_int(node, "start"), optional_int(node, "end")
    if not rank and start is not None and end is not None and 0 <= start < end:
        rank = end  # counted from the first, these are the same whatever the rank
    if not rank:
        return None
    return [(source, axis) for axis in range(rank)[start:end]]


def _part(node: ir.Node, whole: list[Symbol] | None) -> list[Symbol] | None:
    """Of a list, what a Gather or a Slice of one step takes."""
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
