"""Rewrites RMS normalisations in the form that ONNX Runtime fuses.

What it is: ``x / sqrt(mean(x^2) + epsilon) * gamma`` over the last axis (Llama, Qwen, T5). ONNX Runtime fuses it where
    the square is a Pow and the root is a divisor. torch's newer exporter writes a Reciprocal, others Mul for the square
    or Pow for the root. These become Pow and Div.
Why it costs: six or seven passes over the tensor instead of one, twice per layer.
Evidence: ReduceMean, Sqrt and Reciprocal in the optimised graph.
Fix and its safety: exact: the same sums; only rounding differs.
Example: ``--rewrite rms-normalization``
References: Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019; ONNX Runtime source,
    ``core/optimizer/layer_norm_fusion.cc``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from ortune.graph.attributes import int_of, is_parameter
from ortune.graph.constants import constant, scalar
from ortune.graph.forms import NUMBER, either, nearest, op
from ortune.graph.nodes import is_op, only_user, other_input
from ortune.graph.ort_fusions import fusion_at
from ortune.graph.shapes.nearby import least_rank, rank_of_constant, reduced_axis
from ortune.rewrites._editor import Editor
from ortune.rewrites._pattern import Pattern, PatternFacts

_LEAST_OPSET = 13  # Pow with exponents of another type; ONNX Runtime does not fuse older ones
_AXES_ARE_INPUT = 18  # first opset in which the axes of ReduceMean are an input


@dataclass(frozen=True, slots=True, kw_only=True)
class _Match:
    """A matched ``y = x / sqrt(mean(x^2) + epsilon)``."""

    x: ir.Value
    y: ir.Value
    epsilon: float


_TOTAL = op(
    "Add",
    op("ReduceMean", either(op("Pow", "x", 2.0), ("", op("Mul", "x", "x"))), called="mean"),
    NUMBER,
    called="sum",
)
_ROOT = op("Sqrt", _TOTAL)
_FORM = either(
    op("Div", "x", _ROOT),
    ("", op("Mul", "x", op("Reciprocal", _ROOT))),
    ("", op("Mul", "x", op("Div", 1.0, _ROOT))),
    ("", op("Mul", "x", op("Pow", _TOTAL, -0.5))),
)


def _match(end: ir.Node, look: PatternFacts) -> _Match | str:  # noqa: PLR0911  (one a near miss)
    """Match the RMS normalization that ends with a node, or return the reason for a near miss ("" if unrelated)."""
    matching = nearest(_FORM, end)
    if matching is None:
        return ""
    x, y, mean, total = matching.values["x"], end.outputs[0], matching.node("mean"), matching.node("sum")
    added = other_input(total, mean.outputs[0])
    epsilon = scalar(added)
    # A constant of higher rank than x would change the shape.
    rank = max(rank_of_constant(value) for node in matching.nodes for value in node.inputs)
    if epsilon is None or only_user(mean.outputs[0]) is not total or rank > max(1, least_rank(x)):
        return ""
    what = f"the RMS normalisation of {x.name!r}"
    axis, sizes = reduced_axis(mean), look.values.sizes(x)
    if axis != -1 and (axis is None or sizes is None or axis % len(sizes) != len(sizes) - 1):
        return f"{what} might not be over the last axis"
    if is_parameter(mean, "keepdims") or not int_of(mean, "keepdims", 1):
        return f"{what} does not keep the reduced axis"
    numbers = constant(added)
    if numbers is None or numbers.dtype != np.float32 or x.dtype not in (None, ir.DataType.FLOAT):
        return f"{what} is not float32"
    if look.opset < _LEAST_OPSET:
        return f"the model has opset {look.opset}, and ONNX Runtime fuses {what} only from opset {_LEAST_OPSET} on"
    scaled = only_user(y)
    gamma = constant(other_input(scaled, y)) if scaled is not None and is_op(scaled, "Mul") else None
    if scaled is None or gamma is None or gamma.ndim != 1:
        return f"{what} is not followed by a constant scale per element of a row"
    if fusion_at(scaled) is not None:
        return f"ONNX Runtime itself fuses {what}"
    return _Match(x=x, y=y, epsilon=epsilon)


def _replace(editor: Editor, match: _Match, look: PatternFacts) -> None:
    at = match.y.producer()
    assert at is not None
    name = f"{at.name or match.y.name or 'rms'}_normalization"
    two = editor.constant(at, f"{name}_two", np.array(2, np.float32))
    square = editor.node(at, "Pow", [match.x, two], name=f"{name}_square")
    if look.opset >= _AXES_ARE_INPUT:
        axes = editor.constant(at, f"{name}_axis", np.array([-1]))
        mean = editor.node(at, "ReduceMean", [square, axes], name=f"{name}_mean")
    else:
        mean = editor.node(at, "ReduceMean", [square], [ir.AttrInt64s("axes", [-1])], name=f"{name}_mean")
    epsilon = editor.constant(at, f"{name}_epsilon", np.array(match.epsilon, np.float32))
    total = editor.node(at, "Add", [mean, epsilon], name=f"{name}_sum")
    root = editor.node(at, "Sqrt", [total], name=f"{name}_root")
    editor.replace(match.y, editor.node(at, "Div", [match.x, root], name=name))


PATTERN = Pattern(
    anchors=("Div", "Mul"),
    beside=("ReduceMean",),
    match=_match,
    replace=_replace,
    made="Rewrote {n} RMS {normalisation|normalisations} in the form that ONNX Runtime fuses.",
    proposed="{n} RMS {normalisation is|normalisations are} in a form that ONNX Runtime does not fuse",
    none="the model has no RMS normalisation pattern",
    repeats=True,
)
REWRITE = PATTERN.rewrite(
    name="rms-normalization",
    summary="rewrites RMS normalisations in the form that ONNX Runtime fuses",
    stage=3,
)
