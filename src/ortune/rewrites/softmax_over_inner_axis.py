"""Writes a Softmax over an inner axis out, where what lies behind the axis is large.

What it is: a Softmax over channels of an image, as segmentation has it and detectors for their distributions of box
    edges. It becomes ReduceMax, Sub, Exp, ReduceSum and Div along that axis.
Why it costs: ONNX Runtime's Softmax works on rows that lie together in memory. For an inner axis it turns the tensor
    before and after, which for a large image takes several times what the Softmax itself does. The five operators work
    on whole rows of what lies behind the axis, and turn nothing.
Evidence: Softmax with an axis that is not the last among the slowest operators of the profile.
Fix and its safety: exact: the same numbers, the sum in another order.
Example: ``--rewrite softmax-over-inner-axis``
References: ONNX Runtime source, ``core/providers/cpu/math/softmax.cc``; ONNX operators, "Softmax".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np
import onnx_ir as ir

from ortune.graph.attributes import int_of
from ortune.graph.nodes import is_op, scopes_of
from ortune.graph.sizes import dims
from ortune.records import Workload
from ortune.rewrites._base import Proposed, Rewrite, RewriteResult
from ortune.rewrites._editor import Editor

_LEAST_OPSET = 13  # before it, Softmax is over all axes from one on
_AXES_ARE_INPUT = 18  # of ReduceMax, from this opset on
_LEAST_BEHIND = 1024  # elements behind the axis: with fewer, turning them costs less than four more operators


def _match(node: ir.Node, opset: int) -> str | int:
    """The axis, counted from the last; "" for others, or why it is nearly one."""
    axis, value = int_of(node, "axis", -1), node.inputs[0]
    sizes = dims(value)
    if axis >= 0 and sizes is not None:
        axis -= len(sizes)
    if axis == -1 or value is None:
        return ""
    if axis >= 0:
        return f"of Softmax {node.name!r} it is not known whether its axis is the last"
    if opset < _LEAST_OPSET:
        return f"the model is of opset {opset}, and Softmax is over one axis from {_LEAST_OPSET} on"
    if value.dtype not in (None, ir.DataType.FLOAT):
        return f"Softmax {node.name!r} is not of float32"
    behind = sizes[axis + 1 :] if sizes is not None else ()
    if all(size is not None for size in behind) and sizes is not None:
        count = prod(size for size in behind if size is not None)
        if count < _LEAST_BEHIND:
            return f"behind the axis of Softmax {node.name!r} are {count} elements alone"
    return axis


def _walk(model: ir.Model, editor: Editor | None) -> tuple[int, list[str]]:
    """How many match, replaced where an editor is given; and why something nearly does."""
    count, reasons = 0, list[str]()
    for scope, opset in scopes_of(model):
        for node in [node for node in scope if is_op(node, "Softmax")]:
            found = _match(node, opset)
            if isinstance(found, int):
                count += 1
                if editor is not None:
                    _replace(editor, node, found, opset)
            elif found:
                reasons.append(found)
    return count, list(dict.fromkeys(reasons))


def _replace(editor: Editor, node: ir.Node, axis: int, opset: int) -> None:
    name, x = node.name or "softmax", node.inputs[0]
    axes = editor.constant(node, f"{name}_axis", np.array([axis]))
    if opset >= _AXES_ARE_INPUT:
        largest = editor.node(node, "ReduceMax", [x, axes], name=f"{name}_max")
    else:
        largest = editor.node(node, "ReduceMax", [x], [ir.AttrInt64s("axes", [axis])], name=f"{name}_max")
    below = editor.node(node, "Sub", [x, largest], name=f"{name}_below")
    powers = editor.node(node, "Exp", [below], name=f"{name}_exp")
    total = editor.node(node, "ReduceSum", [powers, axes], name=f"{name}_sum")
    editor.replace(node.outputs[0], editor.node(node, "Div", [powers, total], name=f"{name}_share"))


def _change(model: ir.Model, params: Mapping[str, str]) -> RewriteResult:
    count, reasons = _walk(model, Editor(model))
    if not count:
        why = tuple(reasons) or ("no Softmax is over another axis than the last",)
        return RewriteResult(modified=False, what="Nothing was changed.", reasons=why)
    return RewriteResult(
        modified=True, what=f"Wrote {count} Softmax over an inner axis out.", reasons=tuple(reasons)
    )


def _proposes(model: ir.Model, workload: Workload | None) -> Sequence[Proposed]:
    count, _ = _walk(model, None)
    return [({}, f"{count} Softmax {'are' if count > 1 else 'is'} over an inner axis")] if count else []


REWRITE = Rewrite(
    name="softmax-over-inner-axis",
    summary="Softmax over an inner axis is written out, so that nothing is turned",
    safety="exact",
    stage=5,
    change=_change,
    proposes=_proposes,
)
