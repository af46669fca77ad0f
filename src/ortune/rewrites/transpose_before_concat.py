"""Moves a Transpose from the output of a Concat to its inputs.

What it is: a Concat along the last axis (channels, in models from TensorFlow), optionally a Slice, and a Transpose
    that moves this axis. Each input is transposed instead, and the results are joined along an outer axis.
Why it costs: joining along the last axis copies one small piece per position, often a single number. Along an outer
    axis it copies whole blocks, and transposing an input with one channel is a plain copy or free. ONNX Runtime's
    transpose optimiser does not do this, because the number of Transposes grows.
Evidence: Concat, Slice and Transpose in a row in the optimised graph, and their share of the run in a profile.
Fix and its safety: exact: all values are equal.
Example: ``--rewrite transpose-before-concat``
References: ONNX operators, "Concat"; ONNX Runtime source, ``core/optimizer/transpose_optimization``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from ortune.graph.attributes import ints_of, optional_int
from ortune.graph.constants import constant
from ortune.graph.nodes import is_op, only_user
from ortune.rewrites._editor import Editor
from ortune.rewrites._pattern import Pattern, PatternFacts

_LEAST_OPSET = 4  # before it, the axis of Concat has a default


@dataclass(frozen=True, slots=True, kw_only=True)
class _Match:
    """A Transpose after a Concat along the last axis.

    Attributes:
        order: The "perm" of the Transpose: axis ``n`` of its output is axis ``order[n]`` of its input.
        cut: The Slice between the Concat and the Transpose, with its axes; None if there is none.
    """

    transpose: ir.Node
    concat: ir.Node
    order: tuple[int, ...]
    cut: tuple[ir.Node, tuple[int, ...]] | None


def _joins_last(node: ir.Node, rank: int) -> bool:
    return is_op(node, "Concat") and optional_int(node, "axis") in (-1, rank - 1)


def _match(node: ir.Node, look: PatternFacts) -> _Match | str:
    """Match a Transpose after a Concat along the last axis, or return the reason for a near miss ("" if unrelated)."""
    order = tuple(ints_of(node, "perm") or ())
    if not order or node.inputs[0] is None:
        return ""
    source, user = node.inputs[0].producer(), node
    slicing = source if is_op(source, "Slice") else None
    if slicing is not None and slicing.inputs:
        source = slicing.inputs[0].producer() if slicing.inputs[0] is not None else None
    if source is None or order[-1] == len(order) - 1 or not _joins_last(source, len(order)):
        return ""
    if only_user(source.outputs[0]) is not (slicing or user) or (
        slicing is not None and only_user(slicing.outputs[0]) is not user
    ):
        return f"the output of the Concat {source.name!r} is also used elsewhere"
    if slicing is None:
        return _Match(transpose=node, concat=source, order=order, cut=None)
    axes = constant(slicing.inputs[3]) if len(slicing.inputs) > 3 else None
    if axes is None:
        return f"the Slice {slicing.name!r} after a Concat has no constant axes"
    places = tuple(int(a) % len(order) for a in axes.reshape(-1))
    return _Match(transpose=node, concat=source, order=order, cut=(slicing, places))


def _replace(editor: Editor, match: _Match, look: PatternFacts) -> None:
    transpose, order = match.transpose, match.order
    turned: dict[ir.Value, ir.Value] = {}
    for value in dict.fromkeys(v for v in match.concat.inputs if v is not None):
        transposed = editor.node(
            transpose,
            "Transpose",
            [value],
            [ir.AttrInt64s("perm", list(order))],
            name=f"{match.concat.name or 'concat'}_transpose",
        )
        transposed.type = value.type
        if value.shape is not None and len(value.shape) == len(order):
            transposed.shape = ir.Shape([value.shape[axis] for axis in order])
        turned[value] = transposed
    result = editor.node(
        transpose,
        "Concat",
        [turned[v] for v in match.concat.inputs if v is not None],
        # The position of the last axis after the Transpose.
        [ir.AttrInt64("axis", order.index(len(order) - 1))],
        name=match.concat.name or "concat",
    )
    result.type = match.concat.outputs[0].type
    if match.cut is not None:
        slicing, places = match.cut
        axes = np.array([order.index(place) for place in places], np.int64)
        name = slicing.name or "slice"
        inputs = [result, *slicing.inputs[1:3], editor.constant(transpose, f"{name}_axes", axes)]
        result = editor.node(transpose, "Slice", [*inputs, *slicing.inputs[4:]], name=name)
    editor.replace(transpose.outputs[0], result)


PATTERN = Pattern(
    anchors=("Transpose",),
    match=_match,
    replace=_replace,
    made="Transposed the inputs of {n} {Concat|Concats} instead.",
    proposed="{n} {Transpose moves|Transposes move} the axis of a preceding Concat",
    none="no Transpose moves the axis of a Concat",
    least_opset=_LEAST_OPSET,
    repeats=True,  # an input of the Concat may be a Concat itself
)
REWRITE = PATTERN.rewrite(
    name="transpose-before-concat",
    summary="moves a Transpose from the output of a last-axis Concat to its inputs",
    stage=1,
)
