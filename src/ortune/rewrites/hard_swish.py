"""Makes HardSwish and HardSigmoid of the Clip arithmetic that they were exported as.

What it is: ``x * clip(x + 3, 0, 6) / 6`` (MobileNetV3, PaddleOCR, most exports before opset 14) is Add, Clip, Mul and
    Div. It becomes HardSigmoid and Mul; a scaled Clip alone (squeeze-and-excitation, Keras) becomes HardSigmoid.
Why it costs: each of the four reads and writes the whole tensor, and ONNX Runtime's CPU provider has no Clip or scalar
    Add in its blocked layout, so that every convolution before them is followed by a conversion, and every one after
    them preceded by one. HardSigmoid and Mul stay in the layout, and are fused into the convolution where they can be.
Evidence: Add, Clip, Mul, Div and ReorderOutput after convolutions take more time than the convolutions.
Fix and its safety: exact: the same function; sums and products are rounded in another order.
Example: ``--rewrite hard-swish``
References: ONNX operators, "HardSwish" and "HardSigmoid"; Howard et al., "Searching for MobileNetV3", 2019.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir

from ortune.graph.constants import constant, scalar
from ortune.graph.nodes import is_op, only_user, other_input
from ortune.graph.shapes.nearby import least_rank, rank_of_constant
from ortune.rewrites._editor import Editor
from ortune.rewrites._pattern import Look, Pattern
from ortune.rewrites._probe import limits

_LEAST_OPSET = 6  # HardSigmoid without attributes of the operators before
_NEAR = 1e-6  # relative: constants are stored in float32, some with eight digits


@dataclass(frozen=True, slots=True, kw_only=True)
class _Match:
    """``scale * x + shift``, clipped to 0 and ``top``, then divided by ``top``.

    Attributes:
        x: What goes in.
        alpha, beta: Of the HardSigmoid.
        factor: What the clipped value is multiplied with, None where it is not.
        result: What all of it becomes.
        at: The node before which the new ones go.
    """

    x: ir.Value
    alpha: float
    beta: float
    factor: ir.Value | None
    result: ir.Value
    at: ir.Node


def _bounds(clip: ir.Node) -> tuple[float, float] | None:
    """The two numbers that a Clip has, as inputs or as attributes; None where it lacks one."""
    found = limits(clip)
    return None if found is None or math.inf in map(abs, found) else found


def _linear(value: ir.Value) -> tuple[ir.Value, float, float] | None:
    """(x, scale, shift) of a value that is ``scale * x + shift`` for numbers; the value itself at least."""
    scale, shift, x = 1.0, 0.0, value
    node = x.producer()
    if is_op(node, "Add") and only_user(x) is not None:
        assert node is not None
        split = _with_number(node)
        if split is not None:
            x, shift = split
    node = x.producer()
    if is_op(node, "Mul") and only_user(x) is not None and shift:
        assert node is not None
        split = _with_number(node)
        if split is not None:
            x, scale = split
    return (x, scale, shift) if x is not value else None


def _with_number(node: ir.Node) -> tuple[ir.Value, float] | None:
    """The input of a node of two that is no number, and the number; None where broadcasting could change the rank."""
    for x, other in (node.inputs, reversed(node.inputs)):
        number = scalar(other)
        if x is not None and number is not None and scalar(x) is None:
            return (x, number) if least_rank(x) >= rank_of_constant(other) else None
    return None


def _added_type(shifted: ir.Value) -> ir.DataType:
    """Of the number in a sum, which is the type of the sum: that of a value is not declared everywhere."""
    node = shifted.producer()
    assert node is not None
    return next(ir.DataType.from_numpy(n.dtype) for n in map(constant, node.inputs) if n is not None)


def _divided(value: ir.Value, top: float) -> ir.Value | None:
    """The value over ``top``, where the one node that uses it divides it so."""
    node = only_user(value)
    if node is None or not is_op(node, "Div", "Mul"):
        return None
    if is_op(node, "Div") and node.inputs[0] is not value:
        return None
    other = other_input(node, value)
    number = scalar(other)
    wanted = top if is_op(node, "Div") else 1 / top
    if number is None or abs(number - wanted) > _NEAR * wanted or least_rank(value) < rank_of_constant(other):
        return None
    return node.outputs[0]


def _match(clip: ir.Node, look: Look) -> _Match | str:
    """What a Clip belongs to; why it is nearly that; or "" where it is something else."""
    bounds = _bounds(clip)
    x = clip.inputs[0]
    if bounds is None or x is None or bounds[0] != 0.0 or bounds[1] <= 0.0:
        return ""
    top = bounds[1]
    linear = _linear(x)
    if linear is None or linear[2] <= 0.0 or linear[2] >= top:
        return ""
    dtype = _added_type(x)
    if dtype != ir.DataType.FLOAT:
        return f"the Clip {clip.name!r} works on {dtype.name}, and HardSigmoid has a kernel for FLOAT alone"
    x, scale, shift = linear
    clipped = clip.outputs[0]
    found: dict[str, ir.Value | None] = {}
    if top == 1.0 and scale != 1.0:
        found = {"factor": None, "result": clipped}
    elif divided := _divided(clipped, top):
        found = {"factor": None, "result": divided}
    else:
        found = _times(clipped, top)
    if not found:
        return f"the result of the Clip {clip.name!r} is not divided by {top:g}, or is used elsewhere too"
    result = found["result"]
    assert result is not None
    at = result.producer()
    assert at is not None
    return _Match(x=x, alpha=scale / top, beta=shift / top, factor=found["factor"], result=result, at=at)


def _times(clipped: ir.Value, top: float) -> dict[str, ir.Value | None]:
    """The product that alone uses a clipped value, divided by ``top`` before or after; empty where it is not."""
    product = only_user(clipped)
    if product is None or not is_op(product, "Mul"):
        return {}
    factor = other_input(product, clipped)
    if factor is None:
        return {}
    divided = _divided(product.outputs[0], top)
    if divided is not None:
        return {"factor": factor, "result": divided}
    before = factor.producer()
    source = before.inputs[0] if before is not None and before.inputs else None
    if source is not None and _divided(source, top) is factor and only_user(factor) is product:
        return {"factor": source, "result": product.outputs[0]}
    return {}


def _replace(editor: Editor, match: _Match, look: Look) -> None:
    name = match.at.name or match.result.name or "hard_swish"
    attributes = [ir.AttrFloat32("alpha", match.alpha), ir.AttrFloat32("beta", match.beta)]
    value = editor.node(match.at, "HardSigmoid", [match.x], attributes, name=f"{name}_hard_sigmoid")
    value.type, value.shape = match.x.type, match.x.shape
    if match.factor is not None:
        value = editor.node(match.at, "Mul", [match.factor, value], name=f"{name}_hard_swish")
    editor.replace(match.result, value)


def _refuses(look: Look) -> str:
    old = look.opset < _LEAST_OPSET
    return f"the model is of opset {look.opset}, and HardSigmoid needs {_LEAST_OPSET}" if old else ""


def _made(matches: Sequence[_Match]) -> str:
    swish = sum(match.factor is not None for match in matches)
    counts = [f"{swish} HardSwish"] if swish else []
    counts += [f"{len(matches) - swish} HardSigmoid"] if len(matches) > swish else []
    return f"Made {' and '.join(counts)} of Clip arithmetic."


PATTERN = Pattern(
    anchors=("Clip",),
    match=_match,
    replace=_replace,
    end=lambda match: match.at,
    refuses=_refuses,
    made=_made,
    proposed="{n} {activation is|activations are} Clip arithmetic",
    none="no Clip of a shifted value, divided by its upper bound, is in the model",
)
REWRITE = PATTERN.rewrite(
    name="hard-swish", summary="Clip arithmetic becomes HardSigmoid and HardSwish", stage=1
)
