"""Lets a convolution do the padding that a Pad before it does.

What it is: Pad with zeros along height and width, before a Conv: the sizes are added to the convolution's own ``pads``.
Why it costs: Pad copies the whole tensor to put a border around it; a convolution reads zeros there for nothing. It
    also stands outside of the blocked layout. ONNX Runtime does the same at load where every reader of the Pad is a
    convolution or a pool, and not where one of them is something else.
Evidence: Pad before Conv in the optimised graph.
Fix and its safety: exact: the same numbers.
Example: ``--rewrite pad-into-convolution``
References: ONNX operators, "Pad" and "Conv"; ONNX Runtime source, ``core/optimizer/pad_fusion.cc``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx_ir as ir

from ortune.graph.attributes import float_of, has_parameters, ints_of, text_of
from ortune.graph.constants import constant, scalar
from ortune.graph.nodes import holds, input_of, is_op, scopes_of
from ortune.records import Workload
from ortune.rewrites._base import Proposed, Rewrite, RewriteResult
from ortune.rewrites._editor import Editor, until_none

_LEAST_OPSET = 2  # the sizes have another name before


def _border(pad: ir.Node, rank: int) -> list[int] | str:
    """What a Pad puts before every axis but the first two, then after them; or why a Conv cannot do it."""
    said = f"Pad {pad.name!r}"
    given = [input_of(pad, place) for place in (1, 2, 3)]
    number = scalar(given[1]) if given[1] is not None else float_of(pad, "value", 0.0)
    if text_of(pad, "mode", "constant") != "constant" or number != 0.0:
        return f"{said} does not pad with zeros, as far as is known"
    found, sizes = constant(given[0]), ints_of(pad, "pads")
    if sizes is None and found is not None:
        sizes = found.reshape(-1).tolist()
    axes = constant(given[2])
    if sizes is None or (given[2] is not None and axes is None):
        return f"{said} computes its sizes at every call"
    places = list(range(rank)) if axes is None else [int(axis) % rank for axis in axes.reshape(-1)]
    if len(sizes) != 2 * len(places):
        return f"{said} pads a tensor of another rank than the convolution's"
    border = [0] * (2 * rank)
    for place, axis in enumerate(places):
        border[axis], border[rank + axis] = sizes[place], sizes[len(places) + place]
    if min(border) < 0 or any(border[k] for k in (0, 1, rank, rank + 1)):
        return f"{said} cuts, or pads images or channels"
    return border[2:rank] + border[rank + 2 :]


def _walk(model: ir.Model, editor: Editor) -> tuple[int, list[str]]:
    """Moves the padding of what is right before: into how many convolutions, and why others do without."""
    count = 0
    reasons: dict[str, None] = {}
    for scope, opset in scopes_of(model):
        for conv in [node for node in scope if is_op(node, "Conv")] if opset >= _LEAST_OPSET else ():
            source = conv.inputs[0].producer() if conv.inputs[0] is not None else None
            weight = conv.inputs[1].shape if conv.inputs[1] is not None else None
            both = (conv, source) if source is not None and is_op(source, "Pad") else ()
            if not both or weight is None or any(map(has_parameters, both)):
                continue
            assert source is not None
            auto, own = text_of(conv, "auto_pad", "NOTSET"), ints_of(conv, "pads")
            border = _border(source, len(weight))
            if auto not in ("NOTSET", "VALID"):
                border = f"Conv {conv.name!r} pads by the size of what it is given"
            if isinstance(border, str):
                reasons[border] = None
                continue
            before = own if own is not None and auto == "NOTSET" else [0] * len(border)
            conv.attributes.pop("auto_pad", None)
            conv.attributes["pads"] = ir.AttrInt64s(
                "pads", [a + b for a, b in zip(before, border, strict=True)]
            )
            padded = conv.inputs[0]
            conv.replace_input_with(0, source.inputs[0])
            editor.drop(padded)
            count += 1
    return count, list(reasons)


def _change(model: ir.Model, params: Mapping[str, str]) -> RewriteResult:
    count, reasons = until_none(_walk, model)
    if not count:
        why = tuple(reasons) or ("no convolution follows a Pad",)
        return RewriteResult(modified=False, what="Nothing was changed.", reasons=why)
    what = f"Let {count} convolution{'s' if count > 1 else ''} pad."
    return RewriteResult(modified=True, what=what, reasons=tuple(reasons))


def _proposes(model: ir.Model, workload: Workload | None) -> Sequence[Proposed]:
    if not holds(model, "Pad"):
        return []
    copy = model.clone()
    count, _ = _walk(copy, Editor(copy))
    return (
        [({}, f"{count} convolution{'s follow' if count > 1 else ' follows'} a Pad of zeros")]
        if count
        else []
    )


REWRITE = Rewrite(
    name="pad-into-convolution",
    summary="convolutions pad what a Pad before them padded",
    safety="exact",
    stage=1,
    change=_change,
    proposes=_proposes,
)
