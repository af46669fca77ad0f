"""Patterns that ONNX Runtime's optimizer fuses by itself, and reasons why similar patterns stay unfused.

Rewrites use the table ``FUSIONS`` to leave these patterns unchanged, and rules use it to explain near misses. Tests
with ONNX Runtime 1.32 on the CPU showed that each pattern is fused, and that its near misses are not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir

from ortune.graph.attributes import ints_of
from ortune.graph.constants import constant_tensor, stored
from ortune.graph.forms import (
    ANYTHING,
    NUMBER,
    ROW,
    Approximately,
    Matching,
    Part,
    either,
    matchings,
    nearest,
    op,
)
from ortune.graph.nodes import is_op, readers, source_of
from ortune.graph.shapes.nearby import least_rank, reduced_axes

# 1 + erf(x / sqrt(2))
_ERF = op("Add", op("Erf", op("Div", "x", math.sqrt(2))), 1.0)
# tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))
_TANH = op(
    "Tanh", op("Mul", op("Add", "x", op("Mul", op("Pow", "x", 3.0), 0.044715)), math.sqrt(2 / math.pi))
)
# sqrt(mean(x^2) + epsilon) without subtracting the mean: RMS normalization
_DEVIATION = op("Sqrt", op("Add", op("ReduceMean", op("Pow", "x", 2.0)), NUMBER))
_CENTRED = op("Sub", "x", op("ReduceMean", "x"))
# sqrt(variance + epsilon)
_SPREAD = op("Sqrt", op("Add", op("ReduceMean", op("Pow", _CENTRED, 2.0)), NUMBER))

FUSIONS: tuple[tuple[str, Part], ...] = (
    ("Gelu", op("Mul", op("Mul", "x", _ERF), 0.5)),
    ("Gelu", op("Mul", op("Mul", "x", 0.5), _ERF)),
    ("FastGelu", op("Mul", op("Mul", "x", 0.5), op("Add", _TANH, 1.0))),
    ("QuickGelu", op("Mul", "x", op("Sigmoid", op("Mul", "x", NUMBER)))),
    ("LayerNormalization", op("Add", op("Mul", op("Div", _CENTRED, _SPREAD), ROW), ROW)),
    ("SimplifiedLayerNormalization", op("Mul", op("Div", "x", _DEVIATION), ROW)),
    ("SimplifiedLayerNormalization", op("Mul", op("Mul", "x", op("Div", 1.0, _DEVIATION)), ROW)),
)
"""Fused operators, each with a pattern that ONNX Runtime fuses into it."""

_INSIDE_ALONE = ("FastGelu",)
"""Fused operators that ONNX Runtime does not create if the pattern's result is a graph output."""

_LONGEST = 3  # maximum number of nodes from a scale or shift of a pattern to its end, inclusive


def fusion_at(end: ir.Node) -> tuple[str, tuple[ir.Node, ...]] | None:
    """Return (operator, fused nodes) if ONNX Runtime fuses a pattern that ends at this node, else None."""
    for operator, form in FUSIONS:
        if operator in _INSIDE_ALONE and end.outputs[0].is_graph_output():
            continue
        for matching in matchings(form, end.outputs[0]):
            if matching.shared(end) is None:
                return operator, tuple(matching.nodes)
    return None


def fused(node: ir.Node) -> str:
    """Return the operator that ONNX Runtime fuses a node into; "" if no pattern of ``FUSIONS`` includes it."""
    end: ir.Node | None = node
    for _ in range(_LONGEST):
        if end is None or len(end.outputs) != 1:
            return ""
        fusion = fusion_at(end)
        if fusion is not None and node in fusion[1]:
            return fusion[0]
        users = {*readers(end.outputs[0])}
        end = users.pop() if len(users) == 1 else None
    return ""


# --- Folding into weights ---------------------------------------------------------------------------------------------


def folds_behind(product: ir.Node, user: ir.Node) -> bool:
    """Return whether ONNX Runtime folds a scale, shift or BatchNormalization into the preceding Conv or MatMul."""
    if is_op(user, "BatchNormalization"):
        return is_op(product, "Conv", "ConvTranspose", "MatMul")
    if not is_op(product, "Conv") or not is_op(user, "Mul", "Add"):
        return scales_product(product, user)
    numbers, weight = _numbers(user), constant_tensor(product.inputs[1])
    # ConvMulFusion and ConvAddFusion: a single number is folded only by the former; otherwise there must be one per
    # output channel, on the channel axis.
    if numbers is None or weight is None or not len(numbers.shape):
        return is_op(user, "Mul")
    return len(numbers.shape) >= len(weight.shape) - 1 and numbers.size == weight.shape[0]


def scales_product(product: ir.Node, scale: ir.Node) -> bool:
    """Return whether ONNX Runtime fuses a MatMul and a following scale by one number into a FusedMatMul."""
    if not is_op(product, "MatMul") or not is_op(scale, "Mul", "Div"):
        return False
    numbers = _numbers(scale)
    return numbers is not None and not len(numbers.shape)


def _numbers(node: ir.Node) -> ir.TensorProtocol | None:
    """Return the first constant input of a node, or None."""
    tensors = map(constant_tensor, node.inputs)
    return next((tensor for tensor in tensors if tensor is not None), None)


# --- Near misses ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfused:
    """A near miss: a pattern that ONNX Runtime would fuse but for one departure.

    Attributes:
        node: The node that findings refer to.
        nodes: All nodes of the pattern.
        why: Reason why ONNX Runtime does not fuse the pattern; "" if it does, or the reason is unknown.
    """

    node: ir.Node
    nodes: tuple[ir.Node, ...]
    why: str


# --- Gelu ------------------------------------------------------------------------------------------------------------

_ARGUMENT, _ERF_GIVES, _SUM, _PRODUCT = (
    "the argument of Erf", "the output of Erf", "the Add after Erf", "the Mul after Erf"
)  # fmt: skip
_SCALED = either(
    op("Div", "x", Approximately(math.sqrt(2), "sqrt(2)"), called=_ARGUMENT),
    (
        "the argument is multiplied by sqrt(0.5) instead of divided by sqrt(2)",
        op("Mul", "x", Approximately(math.sqrt(0.5), "sqrt(0.5)"), called=_ARGUMENT),
    ),
)
_NEAR_ERF = op("Add", op("Erf", _SCALED, called=_ERF_GIVES), 1.0, called=_SUM)
_NEAR_GELU = either(
    op("Mul", op("Mul", "x", _NEAR_ERF, called=_PRODUCT), 0.5),
    ("", op("Mul", op("Mul", "x", 0.5), _NEAR_ERF)),
    ("the factor 0.5 is multiplied first", op("Mul", "x", op("Mul", _NEAR_ERF, 0.5, called=_PRODUCT))),
    (
        "division by 2 instead of multiplication by 0.5",
        op("Div", op("Mul", "x", _NEAR_ERF, called=_PRODUCT), 2.0),
    ),
)


def gelu_ending(end: ir.Node) -> Unfused | None:
    """Match an Erf-based Gelu that ends at a node, fused or not; return None if the pattern does not match."""
    matching = nearest(_NEAR_GELU, end) if is_op(end, "Mul", "Div") else None
    if matching is None:
        return None
    return Unfused(node=matching.node(_ERF_GIVES), nodes=tuple(matching.nodes), why=_departure(matching, end))


def _departure(matching: Matching, end: ir.Node) -> str:
    """Return, as text, the first departure of a match, or the value that other nodes also read; "" without either."""
    shared = matching.shared(end)
    read = (
        f"another node reads {matching.nodes[shared]}"
        if shared is not None and matching.nodes[shared]
        else ""
    )
    return next(iter(matching.departures), read)


# --- LayerNormalization ----------------------------------------------------------------------------------------------

_OPERATOR_OPSET = 17  # from here on, LayerNormalization is fused before any Transpose is moved
_MEAN, _VARIANCE = "the mean", "the variance"
_DIFFERENCE = op("Sub", "x", op("ReduceMean", "x", called=_MEAN), called="the difference")
_SQUARE = either(
    op("Pow", _DIFFERENCE, 2.0, called="the square"),
    ("Mul of the value with itself instead of Pow", op("Mul", _DIFFERENCE, _DIFFERENCE, called="the square")),
)
_TOTAL = op(
    "Add",
    op("ReduceMean", _SQUARE, called=_VARIANCE),
    either(NUMBER, ("epsilon is not a constant", ANYTHING)),
    called="the sum with epsilon",
)
_ROOT = either(
    op("Sqrt", _TOTAL, called="the square root"),
    ("Pow with 0.5 instead of Sqrt", op("Pow", _TOTAL, 0.5, called="the square root")),
)
_QUOTIENT = either(
    op("Div", _DIFFERENCE, _ROOT),
    (
        "Mul with the reciprocal instead of Div",
        op("Mul", _DIFFERENCE, op("Reciprocal", _ROOT)),
    ),
)


def layer_normalization_ending(end: ir.Node, opset: int) -> Unfused | None:
    """Match a layer normalization with the quotient ``end``, and the reason why it is not fused; None without a match.

    Args:
        end: The last node of the pattern, of any operator.
        opset: The model's ONNX opset.
    """
    matching = nearest(_QUOTIENT, end) if is_op(end, "Div", "Mul") else None
    return (
        None
        if matching is None
        else Unfused(node=end, nodes=tuple(matching.nodes), why=_reason(matching, end, opset))
    )


def _reason(matching: Matching, end: ir.Node, opset: int) -> str:
    axes, x = reduced_axes(matching.node(_VARIANCE)), matching.values["x"]
    if axes is None or len(axes) != 1:
        return ""
    rank = max(least_rank(x), least_rank(end.outputs[0]))
    # Whether an axis such as 2 is the last one is known only with the rank.
    if axes[0] not in (-1, rank - 1):
        known_last = axes[0] < 0 or rank > 0
        return f"the axis is {axes[0]}, not the last" if known_last else _departure(matching, end)
    moved = _is_moved(matching, end) if opset < _OPERATOR_OPSET else False
    undone = "before opset 17, ONNX Runtime moves the preceding Transpose past it" if moved else ""
    return _departure(matching, end) or _scale(end) or undone


def _scale(quotient: ir.Node) -> str:
    """Return the reason why the scale and shift after the quotient prevent the fusion; "" if they do not prevent it."""
    value = quotient.outputs[0]
    users = readers(value)
    scale = next((user for user in users if is_op(user, "Mul")), None)
    if scale is None:
        return "no scale follows"
    if len(users) > 1:
        return "another node reads the normalised value"
    factors = [source_of(factor) for factor in scale.inputs]
    weight = next((stored(factor) for factor in factors if factor is not value), None)
    if weight is not None and len(weight.shape) > 1:
        return "the scale has more than one axis"
    shifted = any(is_op(user, "Add") for user in readers(scale.outputs[0]))
    return "" if shifted else "no shift follows the scale"


def _is_moved(matching: Matching, quotient: ir.Node) -> bool:
    """Return whether ONNX Runtime moves the preceding Transpose past the pattern to cancel a later one.

    The normalized axis is then no longer the last. Without a later Transpose, ONNX Runtime's decision depends on known
    sizes, and False is returned.
    """
    before, behind = matching.values["x"].producer(), _end(quotient)
    first, second = _order(before), _order(behind)
    if before is None or not first or len(second) != len(first) or first[-1] == len(first) - 1:
        return False
    if any(not is_op(user, "Sub", "ReduceMean") for user in readers(before.outputs[0])):
        return False
    return [first[axis] for axis in second] == list(range(len(first)))


def _end(quotient: ir.Node) -> ir.Node | None:
    """Return the Transpose that alone reads a layer normalization's scaled and shifted result, or None."""
    user: ir.Node | None = quotient
    for operator in ("Mul", "Add", "Transpose"):
        users = readers(user.outputs[0]) if user is not None else []
        user = users[0] if len(users) == 1 else None
        if not is_op(user, operator):
            return None
    return user


def _order(node: ir.Node | None) -> Sequence[int]:
    """Return the permutation of a Transpose; () for other nodes and for a missing ``perm``."""
    return (ints_of(node, "perm") or ()) if node is not None and is_op(node, "Transpose") else ()
