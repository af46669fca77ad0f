"""Merges a Pad into the convolution that follows.

What it is: Pad with zeros along height and width before a Conv: its sizes are added to the ``pads`` of the
    convolution.
Why it costs: Pad copies the whole tensor to add a border, and interrupts the blocked layout. A convolution pads with
    zeros at no cost. ONNX Runtime does the same at session creation if every reader of the Pad is a convolution or a
    pool, but not if another node reads it too.
Evidence: Pad before Conv in the optimised graph.
Fix and its safety: exact: the same values.
Example: ``--rewrite pad-into-convolution``
References: ONNX operators, "Pad" and "Conv"; ONNX Runtime source, ``core/optimizer/pad_fusion.cc``.
"""

from __future__ import annotations

import onnx_ir as ir

from ortune.graph.attributes import float_of, has_parameters, ints_of, text_of
from ortune.graph.constants import constant, scalar
from ortune.graph.nodes import input_of, is_op
from ortune.rewrites._editor import Editor
from ortune.rewrites._pattern import Pattern, PatternFacts

_LEAST_OPSET = 2  # before it, the attribute "pads" has another name


def _border(pad: ir.Node, rank: int) -> list[int] | str:
    """Return a Pad's spatial pads (all starts, then all ends), or the reason that a Conv cannot absorb them."""
    said = f"Pad {pad.name!r}"
    operands = [input_of(pad, place) for place in (1, 2, 3)]
    number = scalar(operands[1]) if operands[1] is not None else float_of(pad, "value", 0.0)
    if text_of(pad, "mode", "constant") != "constant" or number != 0.0:
        return f"{said} might not pad with zeros"
    pads, sizes = constant(operands[0]), ints_of(pad, "pads")
    if sizes is None and pads is not None:
        sizes = pads.reshape(-1).tolist()
    axes = constant(operands[2])
    if sizes is None or (operands[2] is not None and axes is None):
        return f"the pads of {said} are not constant"
    places = list(range(rank)) if axes is None else [int(axis) % rank for axis in axes.reshape(-1)]
    if len(sizes) != 2 * len(places):
        return f"{said} has a different rank than the convolution"
    border = [0] * (2 * rank)
    for place, axis in enumerate(places):
        border[axis], border[rank + axis] = sizes[place], sizes[len(places) + place]
    if min(border) < 0 or any(border[k] for k in (0, 1, rank, rank + 1)):
        return f"{said} crops, or pads the batch or channel axis"
    return border[2:rank] + border[rank + 2 :]


_Match = tuple[ir.Node, ir.Node, list[int]]
"""A convolution, the Pad before it, and the sum of their pads."""


def _match(conv: ir.Node, _: PatternFacts) -> _Match | str:
    """Match a convolution and a Pad that it can absorb, or return the reason for a near miss ("" if unrelated)."""
    source = conv.inputs[0].producer() if conv.inputs[0] is not None else None
    weight = conv.inputs[1].shape if conv.inputs[1] is not None else None
    both = (conv, source) if source is not None and is_op(source, "Pad") else ()
    if not both or source is None or weight is None or any(map(has_parameters, both)):
        return ""
    auto, own = text_of(conv, "auto_pad", "NOTSET"), ints_of(conv, "pads")
    if auto not in ("NOTSET", "VALID"):
        return f"Conv {conv.name!r} has automatic padding"
    border = _border(source, len(weight))
    if isinstance(border, str):
        return border
    before = own if own is not None and auto == "NOTSET" else [0] * len(border)
    return conv, source, [a + b for a, b in zip(before, border, strict=True)]


def _replace(editor: Editor, match: _Match, look: PatternFacts) -> None:
    conv, pad, pads = match
    conv.attributes.pop("auto_pad", None)
    conv.attributes["pads"] = ir.AttrInt64s("pads", pads)
    padded = conv.inputs[0]
    conv.replace_input_with(0, pad.inputs[0])
    editor.drop(padded)


PATTERN = Pattern(
    anchors=("Conv",),
    match=_match,
    replace=_replace,
    made="Merged {n} Pad into the following {convolution|convolutions}.",
    proposed="{n} {convolution follows|convolutions follow} a Pad with zeros",
    none="no convolution follows a Pad",
    beside=("Pad",),
    least_opset=_LEAST_OPSET,
    repeats=True,
    counts_replaced=True,
)
REWRITE = PATTERN.rewrite(
    name="pad-into-convolution",
    summary="merges a Pad into the convolution that follows",
    stage=1,
)
