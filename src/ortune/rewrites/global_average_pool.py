"""Makes GlobalAveragePool of a mean over height and width.

What it is: torch's newer exporter and TensorFlow write global average pooling as ReduceMean over the last two axes of
    four. It becomes GlobalAveragePool, and a Squeeze after it where the axes were dropped.
Why it costs: ReduceMean is not computed in the blocked layout of convolutions. The tensor is converted out of it first,
    and where the mean is a squeeze-and-excitation block, both forms of the tensor are kept and read.
Evidence: ReorderOutput before a ReduceMean of axes 2 and 3 in the optimised graph.
Fix and its safety: exact: the same sums in another order.
Example: ``--rewrite global-average-pool``
References: ONNX Runtime source, ``core/optimizer/nchwc_transformer.cc``; ONNX operators, "GlobalAveragePool".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir

from ortune.records import Workload
from ortune.rewrites._base import Proposed, Rewrite, RewriteResult
from ortune.rewrites._graph import Editor, constant, is_op, rank_of_constant, scopes_of

_AXES_ARE_INPUT = 13  # of Squeeze, from this opset on
_DEPTH = 6  # nodes looked through for a convolution
_KEEPS_RANK = (
    "Relu",
    "LeakyRelu",
    "Sigmoid",
    "Tanh",
    "HardSigmoid",
    "HardSwish",
    "BatchNormalization",
    "Clip",
)


def _from_convolution(value: ir.Value | None, depth: int = _DEPTH) -> bool:
    """Whether a value is a float32 convolution's over height and width, and what is done to it element by element."""
    node = value.producer() if value is not None else None
    if node is None or depth == 0:
        return False
    if is_op(node, "Conv"):
        weight = constant(node.inputs[1])
        return weight is not None and weight.ndim == 4 and weight.dtype == np.float32
    if is_op(node, "Mul"):
        # A factor of more axes would make another tensor of it.
        return all(
            _from_convolution(v, depth - 1) or (constant(v) is not None and rank_of_constant(v) <= 4)
            for v in node.inputs
        )
    return is_op(node, *_KEEPS_RANK) and _from_convolution(node.inputs[0], depth - 1)


def _axes(node: ir.Node) -> set[int] | None:
    """The axes that a mean goes over, of four; None where they are not known."""
    attribute = node.attributes.get("axes")
    if attribute is not None and not attribute.is_ref():
        return {axis % 4 for axis in attribute.as_ints()}
    numbers = constant(node.inputs[1]) if len(node.inputs) > 1 else None
    return {int(axis) % 4 for axis in numbers.reshape(-1)} if numbers is not None else None


def _match(node: ir.Node) -> str | None:
    """None for a mean over height and width; "" for other means, or why it is nearly one."""
    keep = node.attributes.get("keepdims")
    if _axes(node) != {2, 3} or (keep is not None and keep.is_ref()):
        return ""
    if not _from_convolution(node.inputs[0]):
        return f"what ReduceMean {node.name!r} is taken of is not known to come of a float32 convolution"
    return None


def _walk(model: ir.Model, editor: Editor | None) -> tuple[int, list[str]]:
    """How many match, replaced where an editor is given; and why something nearly does."""
    count, reasons = 0, list[str]()
    for scope, opset in scopes_of(model):
        for node in [node for node in scope if is_op(node, "ReduceMean")]:
            why = _match(node)
            if why is None:
                count += 1
                if editor is not None:
                    _replace(editor, node, opset)
            elif why:
                reasons.append(why)
    return count, list(dict.fromkeys(reasons))


def _replace(editor: Editor, node: ir.Node, opset: int) -> None:
    name, keep = node.name or "mean", node.attributes.get("keepdims")
    made = editor.node(node, "GlobalAveragePool", [node.inputs[0]], name=f"{name}_pool")
    if keep is not None and not keep.as_int():
        if opset >= _AXES_ARE_INPUT:
            axes = editor.constant(node, f"{name}_axes", np.array([2, 3]))
            made = editor.node(node, "Squeeze", [made, axes], name=f"{name}_squeeze")
        else:
            made = editor.node(
                node, "Squeeze", [made], [ir.AttrInt64s("axes", [2, 3])], name=f"{name}_squeeze"
            )
    editor.replace(node.outputs[0], made)


def _change(model: ir.Model, params: Mapping[str, str]) -> RewriteResult:
    count, reasons = _walk(model, Editor(model))
    if not count:
        why = tuple(reasons) or ("no mean over height and width is in the model",)
        return RewriteResult(modified=False, what="Nothing was changed.", reasons=why)
    return RewriteResult(
        modified=True, what=f"Made {count} GlobalAveragePool of means.", reasons=tuple(reasons)
    )


def _proposes(model: ir.Model, workload: Workload | None) -> Sequence[Proposed]:
    count, _ = _walk(model, None)
    return [({}, f"{count} means over height and width follow convolutions")] if count else []


REWRITE = Rewrite(
    name="global-average-pool",
    summary="means over height and width become GlobalAveragePool",
    safety="exact",
    stage=3,
    change=_change,
    proposes=_proposes,
)
