"""Output shapes of operators and their constraints on input shapes; outputs of other operators are unknown."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from ortune.graph.kinds import BROADCASTING, MOVES, UNARY
from ortune.graph.model.graphs import op_set, subgraphs
from ortune.graph.nodes import input_of
from ortune.graph.shapes import rules_attention, rules_compute, rules_data
from ortune.graph.shapes.helpers import broadcast
from ortune.graph.shapes.symbols import Dim, within
from ortune.graph.shapes.walk import Shape, Walk

HANDLERS = rules_attention.HANDLERS | rules_compute.HANDLERS | rules_data.HANDLERS

_FIRST_SHAPE = UNARY | op_set(
    "BiasAdd BiasDropout BiasSoftmax Binarizer ComplexMul CumSum GroupNorm GroupNormalization Hardmax Imputer LRN "
    "LogSoftmax LpNormalization MeanVarianceNormalization PRelu QLinearSoftmax RotaryEmbedding Scatter ScatterElements "
    "ScatterND SkipGroupNorm Softmax Trilu"
)
"""Operators whose outputs all have the shape of the first input."""
_SAME_VALUES = MOVES | op_set("Cast CastLike Clip Dropout Expand")


def visit(walk: Walk, node: ir.Node) -> None:
    """Process one node: set the shapes and contents of its outputs, and add the constraints on its inputs.

    A node that contradicts its operands or attributes is skipped; ONNX Runtime reports the error.
    """
    try:
        _visit(walk, node)
    except (LookupError, TypeError, ValueError, ArithmeticError):
        return


def _visit(walk: Walk, node: ir.Node) -> None:
    if node.attributes.data:
        _visit_bodies(walk, node)
    walk.node = node
    first = node.inputs[0] if node.inputs else None
    if node.op_type in _SAME_VALUES and first is not None and node.outputs:
        if first in walk.sources:
            walk.sources[node.outputs[0]] = walk.sources[first]
        if first in walk.uppers:
            walk.uppers[node.outputs[0]] = walk.uppers[first]
    result: Shape | Sequence[Shape | None] | None = None
    if node.op_type in _FIRST_SHAPE:
        result = [walk.shape(first)] * len(node.outputs)
        content = walk.content(first)
        if node.op_type in {"Cast", "Identity"} and content is not None:
            walk.set_content(node.outputs[0], content)
    elif node.op_type in BROADCASTING:
        result = _broadcast_node(walk, node)
    elif (handler := HANDLERS.get(node.op_type)) is not None:
        result = handler(walk, node)
    shapes = [result] if isinstance(result, tuple) or result is None else result
    for output, shape in zip(node.outputs, shapes, strict=False):
        if shape is not None:
            walk.shapes[output] = tuple(map(within, shape))


def _visit_bodies(walk: Walk, node: ir.Node) -> None:
    """Walk the branches of an If and the bodies of loops; only index ranges are recorded from them."""
    outer, walk.soft = walk.soft, True
    for body in subgraphs(node):
        for inner in body:
            visit(walk, inner)
    walk.soft = outer


def _broadcast_node(walk: Walk, node: ir.Node) -> Shape | None:
    shape: Shape | None = ()
    for value in node.inputs:
        own = walk.shape(value)
        shape = None if shape is None or own is None else broadcast(walk, shape, own)
    a, b = walk.content(input_of(node, 0)), walk.content(input_of(node, 1))
    if a and b and node.op_type in {"Add", "Sub", "Mul", "Div"}:
        length = max(len(a), len(b))
        if len(a) in {1, length} and len(b) in {1, length}:
            wide_a = a * length if len(a) == 1 else a
            wide_b = b * length if len(b) == 1 else b
            walk.set_content(
                node.outputs[0],
                tuple(_arithmetic(node.op_type, x, y) for x, y in zip(wide_a, wide_b, strict=True)),
            )
    # Positions of a decoder: a Range plus the past length has the sum of both as its upper bound.
    if node.op_type == "Add" and node.inputs[0] in walk.uppers and b and len(b) == 1 and b[0] is not None:
        walk.uppers[node.outputs[0]] = walk.uppers[node.inputs[0]].plus(b[0])
    if node.op_type == "Where" and a is not None:
        _select_elements(walk, node, a)
    return shape


def _select_elements(walk: Walk, node: ir.Node, chosen: Shape) -> None:
    yes, no = walk.content(input_of(node, 1)), walk.content(input_of(node, 2))
    if yes and no and len(yes) == len(no) == len(chosen):
        walk.set_content(
            node.outputs[0],
            tuple(
                None if c is None or c.value is None else (y if c.value else n)
                for c, y, n in zip(chosen, yes, no, strict=True)
            ),
        )


def _arithmetic(op: str, a: Dim, b: Dim) -> Dim:
    if a is None or b is None:
        return None
    if op in {"Add", "Sub"}:
        return a.plus(b, 1 if op == "Add" else -1)
    if op == "Div":
        return a.over(b.value) if b.value else None
    if a.value is not None:
        return b.times(a.value)
    return a.times(b.value) if b.value is not None else None
