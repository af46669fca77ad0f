"""Removes casts to a smaller type that are immediately reversed.

What it is: Cast to float16 or bfloat16 and Cast back to float32 (or from float64 to a smaller type and back). Nodes
    that only move data (Transpose, Reshape, Slice and others) may be in between, and then process the original value.
Why it costs: two passes over the tensor that only round it, and operators on either side are not fused.
Evidence: consecutive Cast nodes.
Fix and its safety: numerics: outputs change by the rounding that is removed, and values beyond 65504 no longer become
    infinite.
Example: ``--rewrite cast-round-trips``
References: microsoft/onnxruntime#25824, #12880.
"""

from __future__ import annotations

import onnx_ir as ir

from ortune.graph.attributes import cast_to
from ortune.graph.kinds import MOVES
from ortune.graph.nodes import is_op, only_user
from ortune.graph.shapes.known import InferredShape
from ortune.rewrites._editor import Editor, name_conflict, takes_name
from ortune.rewrites._pattern import Pattern, PatternFacts

_SMALLER = {
    ir.DataType.FLOAT: (ir.DataType.FLOAT16, ir.DataType.BFLOAT16),
    ir.DataType.DOUBLE: (ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16),
}
_MOVES = MOVES | {"Expand"}
"""Operators that only move elements of their first input."""


def _way(back: ir.Node) -> list[ir.Node]:
    """Return the nodes from a Cast to the Cast that follows, both included; empty if there is none."""
    way, value = [back], back.inputs[0]
    while value is not None and (node := value.producer()) is not None:
        way.append(node)
        if is_op(node, "Cast"):
            return way[::-1]
        if not is_op(node, *_MOVES) or only_user(value) is not way[-2]:
            return []
        value = node.inputs[0]
    return []


_Match = tuple[list[ir.Node], ir.DataType]
"""The nodes from the first Cast to the last, and the type before the first and after the last."""


def _match(back: ir.Node, look: PatternFacts) -> _Match | str:
    """Match a Cast back from a smaller type, or return the reason for a near miss ("" if unrelated)."""
    way = _way(back)
    if len(way) < 2 or way[0].inputs[0] is None:
        return ""
    dtype = look.inferred(way[0].inputs[0]).dtype
    if dtype is None or dtype != cast_to(back) or cast_to(way[0]) not in _SMALLER.get(dtype, ()):
        return ""
    if (
        way[1] is back
        and back.outputs[0].is_graph_output()
        and not takes_name(way[0].inputs[0], back.outputs[0])
    ):
        return name_conflict(back)
    return way, dtype


def _replace(editor: Editor, match: _Match, look: PatternFacts) -> None:
    way, dtype = match
    down, back, source = way[0], way[-1], way[0].inputs[0]
    assert source is not None
    if way[1] is back:
        editor.replace(back.outputs[0], source)
        return
    way[1].replace_input_with(0, source)
    for value in (node.outputs[0] for node in way[1:-1]):
        value.type = ir.TensorType(dtype)
        look.values[value] = InferredShape(dtype=dtype, dims=look.inferred(value).dims)
    editor.replace(back.outputs[0], way[-2].outputs[0])
    editor.drop(down.outputs[0])


PATTERN = Pattern(
    anchors=("Cast",),
    match=_match,
    replace=_replace,
    made="Removed {n} {cast|casts} to a smaller type and back.",
    proposed="{n} {value is|values are} cast to a smaller type and back",
    none="no value is cast to a smaller type and back",
    counts_replaced=True,
)
REWRITE = PATTERN.rewrite(
    name="cast-round-trips",
    summary="removes casts to a smaller type and back",
    safety="numerics",
    stage=1,
)
