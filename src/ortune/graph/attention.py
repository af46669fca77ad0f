"""Attention pattern in a graph: a Softmax between two matrix products, with the nodes that split and join the heads."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from ortune.graph.attributes import int_of, is_parameter
from ortune.graph.constants import scalar
from ortune.graph.heads import SPLIT, Heads, heads_of, keys_of, scaled
from ortune.graph.model.graphs import op_set
from ortune.graph.nodes import Scope, is_op, maker_of, only_user, other_input
from ortune.graph.shape_elements import perm_of, symbols

PRODUCTS = op_set("MatMul Einsum FusedMatMul MatMulInteger")
_BEFORE = op_set("Add Mul Div Where Cast Reshape Sub")
_AFTER = op_set("Cast Where Dropout Identity Reshape")
_STEPS = 6  # maximum number of nodes between a Softmax and a product


@dataclass(frozen=True, slots=True, kw_only=True)
class Core:
    """An attention core: two matrix products with a Softmax between them.

    Attributes:
        softmax: The Softmax node, which normalizes over the keys.
        queries, keys, values: The inputs, split into heads; None if they are not split by a Reshape and a Transpose.
        scale: Factor applied to the matrix product of queries and keys.
        mask: Value added to the scaled matrix product; None if there is none.
        guarded: Whether ``Where(IsNaN(w), 0, w)`` replaces NaN weights with 0.
        joined: The Reshape after the Transpose that joins the heads again; None if there is none.
        shared: An intermediate value that is also used outside the pattern; None if there is none.
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
    """Return the types of the operators between a Softmax and the matrix products before and after it.

    None is returned if either matrix product is missing.
    """
    before, above = list[str](), maker_of(softmax.inputs[0])
    for _ in range(_STEPS):
        if above is None or above.op_type not in _BEFORE:
            break
        before.append(above.op_type)
        makers = [maker_of(value) for value in above.inputs]
        above = next((m for m in makers if m is not None and m.op_type in _BEFORE | PRODUCTS), None)
    after, below = list[str](), _reader(softmax)
    for _ in range(_STEPS):
        if below is None or below.op_type not in _AFTER:
            break
        if not is_op(below, "Identity"):
            after.append(below.op_type)
        below = _reader(below)
    ends = (above, below)
    return [*before, *after] if all(end is not None and end.op_type in PRODUCTS for end in ends) else None


def _reader(node: ir.Node) -> ir.Node | None:
    users = [use.node for use in node.outputs[0].uses()]
    return next((user for user in users if user.op_type in _AFTER | PRODUCTS), None)


def cores(scope: Scope) -> list[Core]:
    """Return the attention cores of one graph, without those of its subgraphs."""
    candidates = [core_of(node) for node in scope if is_op(node, "Softmax")]
    return [core for core in candidates if core is not None]


def core_of(softmax: ir.Node) -> Core | None:
    """Match the attention core around a Softmax; return None if the pattern does not match."""
    # Axes are batch, heads, queries, keys: the Softmax must run over the last one.
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
    # A factor on either operand of the product scales the scores as much as one on the scores themselves.
    left, by_left = scaled(scores.inputs[0])
    right, by_right = scaled(scores.inputs[1])
    joined = _joined(product, shared)
    return Core(
        softmax=softmax,
        queries=heads_of(left, SPLIT),
        keys=keys_of(right),
        values=heads_of(product.inputs[1], SPLIT),
        scale=scale * by_left * by_right,
        mask=mask,
        guarded=guarded,
        joined=joined,
        shared=shared[0] if shared else None,
    )


def _guarded(weights: ir.Value, shared: list[ir.Value]) -> tuple[ir.Value, bool]:
    """Return the weights after an optional ``Where(IsNaN(w), 0, w)``, and whether the Where exists."""
    users = [use.node for use in weights.uses()]
    test = next((node for node in users if is_op(node, "IsNaN")), None)
    chosen = next((node for node in users if is_op(node, "Where")), None)
    if test is None or chosen is None or chosen.inputs[0] is not test.outputs[0]:
        return weights, False
    if chosen.inputs[2] is not weights or scalar(chosen.inputs[1]) != 0.0:
        return weights, False
    # If other nodes read the weights or the test, the guard cannot be removed with the rest.
    if len(users) > 2 or weights.is_graph_output() or only_user(test.outputs[0]) is None:
        shared.append(weights)
    return chosen.outputs[0], True


def _scores(value: ir.Value | None, shared: list[ir.Value]) -> tuple[ir.Node | None, ir.Value | None, float]:
    """Split ``product * scale + mask`` into (product, mask, scale); the product is None if there is no match."""
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
    plain, scale = scaled(value)
    node = plain.producer()
    if not is_op(node, "MatMul"):
        return None, None, 1.0
    if plain is not value and only_user(plain) is None:
        shared.append(plain)
    return node, None, scale


def _joined(product: ir.Node, shared: list[ir.Value]) -> ir.Node | None:
    turn = only_user(product.outputs[0])
    if turn is None:
        if product.outputs[0].uses():
            shared.append(product.outputs[0])
        return None
    if perm_of(turn) != SPLIT:
        return None
    joined = only_user(turn.outputs[0])
    if joined is None:
        shared.append(turn.outputs[0])
        return None
    if not is_op(joined, "Reshape") or joined.inputs[0] is not turn.outputs[0]:
        return None
    sizes = symbols(joined.inputs[1])
    # A 0 copies an axis of the Reshape's input, which from the third axis on differs from that of the output.
    if sizes is None or not all(isinstance(n, int) and n != 0 for n in sizes[2:]):
        return None
    return joined
