"""Writes Pad as Slice and Concat.

What it is: a Pad that mirrors (``reflect``) or repeats the edge (``edge``) becomes Slices of the tensor that are
    concatenated with it. A Pad with a constant becomes a Concat with constants.
Why it costs: NNAPI supports Pad only with a constant, and CoreML's MLProgram not at all, according to ONNX Runtime's
    lists. Each Pad splits the model into one more region, with copies before and after it.
Evidence: Pad among the nodes that ``ortune partition`` leaves on the CPU.
Fix and its safety: exact: the same elements. On the CPU, the single Pad is faster; use this rewrite for phones only.
Example: ``--rewrite pad-as-concat``
References: ONNX operators, "Pad", "Slice" and "Concat".
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from ortune.catalogue.providers import COREML, NNAPI
from ortune.graph.attributes import is_parameter, text_of
from ortune.graph.constants import constant, scalar
from ortune.graph.nodes import input_of
from ortune.rewrites._editor import Editor
from ortune.rewrites._pattern import Pattern, PatternFacts

_LEAST_OPSET = 11  # first opset in which the pads are an input
_MOST_COPIES = 8  # maximum repetitions of an edge
_MOST_BYTES = 4 << 20  # maximum size of constants for one Pad
_MODES = ("constant", "reflect", "edge")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Match:
    """A Pad that can be replaced.

    Attributes:
        node: The Pad.
        mode: The Pad's mode.
        shape: Sizes of the Pad's input; None for dynamic sizes.
        amounts: Maps each padded axis to the numbers of elements added before and after.
        fill: Fill value of the mode "constant".
    """

    node: ir.Node
    mode: str
    shape: tuple[int | None, ...]
    amounts: dict[int, tuple[int, int]]
    fill: float


def _match(node: ir.Node, look: PatternFacts) -> _Match | str:  # noqa: PLR0911  (one a near miss)
    said, mode = f"Pad {node.name!r}", text_of(node, "mode", "constant")
    shape = look.values.sizes(node.inputs[0])
    if (
        look.inferred(node.inputs[0]).dtype != ir.DataType.FLOAT
        or shape is None
        or is_parameter(node, "mode")
    ):
        return f"{said} is not known to be float32 with a known number of dimensions"
    pads, axes = constant(input_of(node, 1)), constant(input_of(node, 3))
    if pads is None or (axes is None and input_of(node, 3) is not None):
        return f"the pads of {said} are not constant"
    places = [int(axis) % len(shape) for axis in axes] if axes is not None else list(range(len(shape)))
    if mode not in _MODES or (pads < 0).any() or pads.size != 2 * len(places):
        return f"{said} crops, or has a mode other than constant, reflect and edge"
    ends = zip(places, pads[: len(places)], pads[len(places) :], strict=True)
    amounts = {axis: (int(low), int(high)) for axis, low, high in ends if low or high}
    if not amounts:
        return f"{said} pads nothing"
    value = input_of(node, 2)
    fill = 0.0 if value is None else scalar(value)
    if mode == "constant" and (fill is None or None in shape or _bytes(shape, amounts) > _MOST_BYTES):
        return f"the fill value of {said} is not constant, has a dynamic dimension, or is too large"
    if mode == "edge" and max(map(max, amounts.values())) > _MOST_COPIES:
        return f"{said} repeats an edge more than {_MOST_COPIES} times"
    if mode == "reflect" and any((n := shape[axis]) is None or max(amounts[axis]) >= n for axis in amounts):
        return f"{said} mirrors more elements than exist, or a dynamic dimension"
    return _Match(node=node, mode=mode, shape=shape, amounts=amounts, fill=fill or 0.0)


def _bytes(shape: tuple[int | None, ...], amounts: dict[int, tuple[int, int]]) -> int:
    sizes, total = [n or 0 for n in shape], 0
    for axis, (low, high) in amounts.items():
        total += 4 * (low + high) * math.prod(n for place, n in enumerate(sizes) if place != axis)
        sizes[axis] += low + high
    return total


def _replace(editor: Editor, match: _Match, look: PatternFacts) -> None:
    value, sizes = match.node.inputs[0], list(match.shape)
    assert value is not None
    for axis, (low, high) in match.amounts.items():
        before, behind = (
            _filled(editor, match, value, axis, sizes, count, last=last)
            for count, last in ((low, False), (high, True))
        )
        parts = [*before, value, *behind]
        joined = editor.node(
            match.node,
            "Concat",
            parts,
            [ir.AttrInt64("axis", axis)],
            name=f"{match.node.name or 'pad'}_concat",
        )
        joined.type = match.node.inputs[0].type if match.node.inputs[0] is not None else None
        value = joined
        size = sizes[axis]
        sizes[axis] = None if size is None else size + low + high
    look.values[value] = look.inferred(match.node.outputs[0])
    editor.replace(match.node.outputs[0], value)


def _filled(
    editor: Editor,
    match: _Match,
    value: ir.Value,
    axis: int,
    sizes: list[int | None],
    count: int,
    *,
    last: bool,
) -> list[ir.Value]:
    """Return the tensors to concatenate before a tensor, or after it if ``last``, on one axis."""
    if not count:
        return []
    name = f"{match.node.name or 'pad'}"
    if match.mode == "constant":
        shape = [count if place == axis else n or 0 for place, n in enumerate(sizes)]
        return [editor.constant(match.node, f"{name}_fill", np.full(shape, match.fill, np.float32))]
    edge, step = match.mode == "edge", 1 if match.mode == "edge" else -1
    if edge:
        start, end = (-1, np.iinfo(np.int64).max) if last else (0, 1)
    else:
        # A reflection excludes the edge: two elements before [a, b, c] are c and b.
        start, end = (-2, -2 - count) if last else (count, 0)
    numbers = [
        editor.constant(match.node, f"{name}_{what}", np.asarray([n], np.int64))
        for what, n in (("start", start), ("end", end), ("axis", axis), ("step", step))
    ]
    part = editor.node(match.node, "Slice", [value, *numbers], name=f"{name}_slice")
    return [part] * (count if edge else 1)


PATTERN = Pattern(
    anchors=("Pad",),
    match=_match,
    replace=_replace,
    made="Replaced {n} Pad {node|nodes} with Slice and Concat.",
    proposed="{n} Pad {node|nodes} can be replaced with Slice and Concat",
    none="the model has no Pad",
    least_opset=_LEAST_OPSET,
)
REWRITE = PATTERN.rewrite(
    name="pad-as-concat",
    summary="Pad becomes Slice and Concat, for NNAPI and CoreML",
    stage=7,
    targets=(NNAPI.target, COREML.target),
)
