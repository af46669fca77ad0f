"""Makes a 1x1 convolution and DepthToSpace of a transposed convolution whose kernel is as large as its stride.

What it is: with a 2x2 kernel and stride 2 (and likewise 3, 4), no padding and no groups, every output pixel comes of
    one input pixel. A 1x1 convolution computes the four of each place as channels, and DepthToSpace lays them out.
Why it costs: ONNX Runtime computes ConvTranspose outside of the blocked layout, by a product and a scatter that adds
    into the result; the 1x1 convolution stays in the layout, and takes up scales and activations beside it.
Evidence: ConvTranspose among the first in the profile of a segmentation or text detection model.
Fix and its safety: exact: the same sums over channels in another order.
Example: ``--rewrite transposed-convolution``
References: Shi et al., "Real-Time Single Image and Video Super-Resolution", 2016 (sub-pixel convolution).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from ortune.records import Workload
from ortune.rewrites._base import Proposed, Rewrite, RewriteResult
from ortune.rewrites._graph import Editor, constant, is_op, scopes_of

_LEAST_OPSET = 11  # DepthToSpace with a mode
_MOST_BLOCK = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class _Match:
    """Weight and bias of a transposed convolution, and the side of its kernel."""

    node: ir.Node
    weight: np.ndarray
    bias: np.ndarray | None
    block: int


def _ints(node: ir.Node, name: str) -> list[int] | None:
    attribute = node.attributes.get(name)
    return list(attribute.as_ints()) if attribute is not None and not attribute.is_ref() else None


def _match(node: ir.Node) -> _Match | str:  # noqa: PLR0911  (one a near miss)
    """What a transposed convolution is made of; or why it is not one of these."""
    what = f"ConvTranspose {node.name!r}"
    weight = constant(node.inputs[1])
    bias = constant(node.inputs[2]) if len(node.inputs) > 2 else None
    if weight is None or weight.dtype != np.float32 or (len(node.inputs) > 2 and bias is None):
        return f"the weights of {what} are not constant float32"
    block = weight.shape[-1]
    if weight.shape[2:] != (block, block) or not 1 < block <= _MOST_BLOCK:
        return f"the kernel of {what} is not a square of 2 to {_MOST_BLOCK}"
    if _ints(node, "strides") != [block, block]:
        return f"the stride of {what} is not its kernel"
    attributes = node.attributes
    if any(a.is_ref() for a in attributes.values()):
        return f"the attributes of {what} are those of a function"
    group, pad = attributes.get("group"), attributes.get("auto_pad")
    if group is not None and group.as_int() != 1:
        return f"{what} has groups"
    plain = pad is None or pad.as_string() in ("NOTSET", "VALID")
    zeros = [*(_ints(node, "pads") or []), *(_ints(node, "output_padding") or [])]
    if (
        not plain
        or any(zeros)
        or "output_shape" in attributes
        or (_ints(node, "dilations") or [1, 1]) != [1, 1]
    ):
        return f"{what} pads, cuts or dilates"
    return _Match(node=node, weight=weight, bias=bias, block=block)


def _walk(model: ir.Model, editor: Editor | None) -> tuple[int, list[str]]:
    """How many match, replaced where an editor is given; and why the others do not."""
    count, reasons = 0, list[str]()
    for scope, opset in scopes_of(model):
        for node in [node for node in scope if is_op(node, "ConvTranspose")]:
            match = _match(node)
            if isinstance(match, _Match) and opset < _LEAST_OPSET:
                match = f"the model is of opset {opset}, and DepthToSpace needs {_LEAST_OPSET}"
            if isinstance(match, str):
                reasons.append(match)
                continue
            count += 1
            if editor is not None:
                _replace(editor, match)
    return count, list(dict.fromkeys(reasons))


def _replace(editor: Editor, match: _Match) -> None:
    node, block = match.node, match.block
    name = node.name or node.outputs[0].name or "transposed"
    # [in, out, row, column] -> [out * row * column, in]: the order of DepthToSpace's "CRD".
    weight = match.weight.transpose(1, 2, 3, 0).reshape(-1, match.weight.shape[0], 1, 1)
    inputs = [node.inputs[0], editor.constant(node, f"{name}_pixels", weight)]
    if match.bias is not None:
        inputs.append(editor.constant(node, f"{name}_bias", np.repeat(match.bias, block * block)))
    attributes = [ir.AttrInt64s("kernel_shape", [1, 1])]
    pixels = editor.node(node, "Conv", inputs, attributes, name=f"{name}_convolution")
    order = [ir.AttrInt64("blocksize", block), ir.AttrString("mode", "CRD")]
    editor.replace(node.outputs[0], editor.node(node, "DepthToSpace", [pixels], order, name=f"{name}_space"))


def _change(model: ir.Model, params: Mapping[str, str]) -> RewriteResult:
    count, reasons = _walk(model, Editor(model))
    if not count:
        why = tuple(reasons) or ("the model has no ConvTranspose",)
        return RewriteResult(modified=False, what="Nothing was changed.", reasons=why)
    what = f"Made {count} 1x1 convolution{'s' if count > 1 else ''} with DepthToSpace of ConvTranspose."
    return RewriteResult(modified=True, what=what, reasons=tuple(reasons))


def _proposes(model: ir.Model, workload: Workload | None) -> Sequence[Proposed]:
    count, _ = _walk(model, None)
    return [({}, f"{count} ConvTranspose have a kernel as large as their stride")] if count else []


REWRITE = Rewrite(
    name="transposed-convolution",
    summary="transposed convolutions without overlap become 1x1 convolutions and DepthToSpace",
    safety="exact",
    stage=2,
    change=_change,
    proposes=_proposes,
)
