"""Decomposes a Softmax over an inner axis where the inner dimensions are large.

What it is: a Softmax over image channels, as in segmentation models and in detectors with box distributions. It becomes
    ReduceMax, Sub, Exp, ReduceSum and Div along that axis.
Why it costs: ONNX Runtime's Softmax needs contiguous rows. For an inner axis it transposes before and after, which for
    a large image takes several times as long as the Softmax itself. The five operators need no transpose.
Evidence: Softmax with an axis that is not the last among the slowest operators of the profile.
Fix and its safety: exact: the same values, summed in a different order.
Example: ``--rewrite softmax-over-inner-axis``
References: ONNX Runtime source, ``core/providers/cpu/math/softmax.cc``; ONNX operators, "Softmax".
"""

from __future__ import annotations

from math import prod

import numpy as np
import onnx_ir as ir

from ortune.graph.attributes import int_of
from ortune.rewrites._editor import Editor
from ortune.rewrites._pattern import Pattern, PatternFacts

_LEAST_OPSET = 13  # before it, Softmax normalizes over all axes from its axis on
_AXES_ARE_INPUT = 18  # first opset in which the axes of ReduceMax are an input
_LEAST_BEHIND = 1024  # minimum elements after the axis; with fewer, transposing is cheaper

BAD = """
<ir_version: 8, opset_import: ["" : 17]>
classes_of_each_pixel (float[1,4,40,40] x) => (float[1,4,40,40] y)
{
    y = Softmax <axis = 1> (x)
}
"""
GOOD = BAD.replace("40,40", "5,5")

_Match = tuple[ir.Node, int]
"""A Softmax and its axis as a negative number."""


def _match(node: ir.Node, look: PatternFacts) -> _Match | str:
    """Match a Softmax over an inner axis, or return the reason for a near miss ("" if unrelated)."""
    axis, value = int_of(node, "axis", -1), node.inputs[0]
    sizes = look.values.sizes(value)
    if axis >= 0 and sizes is not None:
        axis -= len(sizes)
    if axis == -1 or value is None:
        return ""
    if axis >= 0:
        return f"the axis of Softmax {node.name!r} may be the last"
    if look.opset < _LEAST_OPSET:
        return (
            f"the model has opset {look.opset}, but Softmax is over a single axis only in opset {_LEAST_OPSET} and "
            "later"
        )
    if value.dtype not in (None, ir.DataType.FLOAT):
        return f"Softmax {node.name!r} is not float32"
    behind = sizes[axis + 1 :] if sizes is not None else ()
    if all(size is not None for size in behind) and sizes is not None:
        count = prod(size for size in behind if size is not None)
        if count < _LEAST_BEHIND:
            return f"the inner dimensions of Softmax {node.name!r} have only {count} elements"
    return node, axis


def _replace(editor: Editor, match: _Match, look: PatternFacts) -> None:
    node, axis = match
    name, x = node.name or "softmax", node.inputs[0]
    axes = editor.constant(node, f"{name}_axis", np.array([axis]))
    if look.opset >= _AXES_ARE_INPUT:
        largest = editor.node(node, "ReduceMax", [x, axes], name=f"{name}_max")
    else:
        largest = editor.node(node, "ReduceMax", [x], [ir.AttrInt64s("axes", [axis])], name=f"{name}_max")
    below = editor.node(node, "Sub", [x, largest], name=f"{name}_below")
    powers = editor.node(node, "Exp", [below], name=f"{name}_exp")
    total = editor.node(node, "ReduceSum", [powers, axes], name=f"{name}_sum")
    editor.replace(node.outputs[0], editor.node(node, "Div", [powers, total], name=f"{name}_share"))


PATTERN = Pattern(
    anchors=("Softmax",),
    match=_match,
    replace=_replace,
    made="Decomposed {n} Softmax over an inner axis.",
    proposed="{n} Softmax {is|are} over an inner axis",
    none="every Softmax is over the last axis",
)
REWRITE = PATTERN.rewrite(
    name="softmax-over-inner-axis",
    summary="decomposes Softmax over an inner axis, which avoids transposes",
    stage=5,
)
