"""Fuses HardSwish and HardSigmoid written as Clip arithmetic into HardSigmoid and Mul.

What it is: ``x * clip(x + 3, 0, 6) / 6`` (MobileNetV3, PaddleOCR, most exports before opset 14), written as Add, Clip,
    Mul and Div, becomes HardSigmoid and Mul. A scaled Clip alone (squeeze-and-excitation, Keras) becomes HardSigmoid.
Why it costs: each of the four operators reads and writes the whole tensor. ONNX Runtime's CPU provider has no Clip or
    scalar Add in its blocked layout. The tensor is therefore converted out of that layout after the previous
    convolution, and back before the next. HardSigmoid and Mul stay in the layout, and are fused into the convolution
    where possible.
Evidence: Add, Clip, Mul, Div and ReorderOutput after convolutions take more time than the convolutions.
Fix and its safety: exact: the same function; only rounding differs.
Example: ``--rewrite hard-swish``
References: ONNX operators, "HardSwish" and "HardSigmoid"; Howard et al., "Searching for MobileNetV3", 2019.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from ortune.graph.constants import Array, one_number, scalar
from ortune.graph.nodes import is_op, only_user, other_input
from ortune.graph.shapes.nearby import least_rank, rank_of_constant
from ortune.rewrites._editor import Editor
from ortune.rewrites._pattern import Pattern, PatternFacts
from ortune.rewrites._probe import elementwise_ancestors, evaluate_on_probes, nodes_between

_LEAST_OPSET = 6  # before it, HardSigmoid has other attributes
_NEAR = 1e-6  # relative tolerance: constants are stored in float32, some with eight digits
_ABOVE = 5  # maximum nodes from the Clip upstream to x
_FOLLOWED = 16  # maximum values to evaluate from x
_LEAST_NODES = 3  # minimum nodes of a HardSigmoid; replacing only an Add and a Clip saves nothing
_FAR: Array = np.array([1e2, 1e4, 1e6])
_POINTS: Array = np.concatenate([-_FAR[::-1], np.linspace(-12, 12, 192), _FAR])  # without zero, to divide by


@dataclass(frozen=True, slots=True, kw_only=True)
class _Match:
    """A matched ``clip(alpha * x + beta, 0, 1)``, optionally times a factor.

    Attributes:
        x: Input.
        alpha, beta: Slope and offset, the attributes of HardSigmoid.
        factor: Value that multiplies the clipped value; None if there is none.
        result: Output of the match.
        at: Node before which the new nodes are inserted.
    """

    x: ir.Value
    alpha: float
    beta: float
    factor: ir.Value | None
    result: ir.Value
    at: ir.Node


def _ramp(values: Array) -> tuple[float, float, float] | None:
    """Fit ``top * clip(alpha * x + beta, 0, 1)`` to values at the probe points; return (alpha, beta, top) or None."""
    # At the last point, 1e6, a ramp is at its top.
    top = float(values[-1])
    inside = np.flatnonzero((values > 0) & (values < top))
    if values[0] != 0.0 or not np.isfinite(values).all() or inside.size < 2:
        return None
    first, last = inside[0], inside[-1]
    slope = float((values[last] - values[first]) / (_POINTS[last] - _POINTS[first]))
    alpha, beta = slope / top, float(values[first] - slope * _POINTS[first]) / top
    ramp = top * np.clip(alpha * _POINTS + beta, 0.0, 1.0)
    # A ramp that begins or ends at x = 0 is not an activation, but the Clip of an earlier result.
    is_ramp = np.allclose(values, ramp, rtol=_NEAR, atol=_NEAR * top)
    return (alpha, beta, top) if is_ramp and 0.0 < beta < 1.0 and not np.isclose(beta, (0, 1)).any() else None


def _is_one(top: float) -> bool:
    return abs(top - 1.0) <= _NEAR


def _by_number(node: ir.Node | None, value: ir.Value | None, top: float) -> bool:
    """Return whether a node divides a value by ``top``, or multiplies it by ``1 / top``."""
    if node is None or value is None or not is_op(node, "Div", "Mul"):
        return False
    if is_op(node, "Div") and node.inputs[0] is not value:
        return False
    other = other_input(node, value)
    number = scalar(other)
    wanted = top if is_op(node, "Div") else 1 / top
    near = number is not None and abs(number - wanted) <= _NEAR * wanted
    return near and least_rank(value) >= rank_of_constant(other)


def _times(clipped: ir.Value, top: float) -> tuple[ir.Value, ir.Value] | None:
    """Match a clipped value that is multiplied by a factor and divided by ``top``; return (factor, result) or None."""
    product = only_user(clipped)
    factor = other_input(product, clipped) if product is not None and is_op(product, "Mul") else None
    if product is None or factor is None:
        return None
    over = only_user(product.outputs[0])
    if over is not None and _by_number(over, product.outputs[0], top):
        return factor, over.outputs[0]
    before = factor.producer()
    source = next((v for v in before.inputs if scalar(v) is None), None) if before is not None else None
    if source is not None and _by_number(before, source, top) and only_user(factor) is product:
        return source, product.outputs[0]
    return None


def _candidates(clip: ir.Node) -> Iterator[tuple[_Match, list[ir.Node], ir.Value | None]]:
    """Yield possible activations around a Clip, each with its nodes and an inner value used elsewhere or None."""
    for x in elementwise_ancestors(clip, _ABOVE):
        computed = evaluate_on_probes(
            x, [_POINTS], rank=least_rank(x), axes=0, limit=_FOLLOWED, bounds=True, scope=clip.graph
        )
        for y in computed:
            at = y.producer()
            if at is None or y is x or clip.outputs[0] not in computed:
                continue
            nodes, elsewhere = nodes_between(x, y, computed)
            if clip not in nodes:
                continue
            values = computed[y][0]
            with np.errstate(all="ignore"):
                # x times a ramp, divided by x, is the ramp; no point is zero.
                swish, ramp = _ramp(values / _POINTS), _ramp(values)
            if swish is not None and _is_one(swish[2]):
                alpha, beta, _ = swish
                yield _Match(x=x, alpha=alpha, beta=beta, factor=x, result=y, at=at), nodes, elsewhere
            elif ramp is not None and _is_one(ramp[2]) and len(nodes) >= _LEAST_NODES:
                alpha, beta, _ = ramp
                yield _Match(x=x, alpha=alpha, beta=beta, factor=None, result=y, at=at), nodes, elsewhere
            elif ramp is not None and (times := _times(y, ramp[2])) is not None:
                alpha, beta, _ = ramp
                factor, result = times
                end = result.producer()
                assert end is not None
                yield (
                    _Match(x=x, alpha=alpha, beta=beta, factor=factor, result=result, at=end),
                    nodes,
                    elsewhere,
                )


def _match(clip: ir.Node, look: PatternFacts) -> _Match | str:
    """Match the HardSwish or HardSigmoid around a Clip, or return the reason for a near miss ("" if unrelated)."""
    # Prefer a HardSwish to the HardSigmoid within it, and more nodes to fewer.
    candidates = sorted(
        _candidates(clip), key=lambda candidate: (candidate[0].factor is None, -len(candidate[1]))
    )
    for match, nodes, elsewhere in candidates:
        if elsewhere is None:
            numbers = [one_number(value) for node in nodes for value in node.inputs]
            types = {ir.DataType.from_numpy(number.dtype) for number in numbers if number is not None}
            others = sorted(dtype.name for dtype in types - {ir.DataType.FLOAT})
            if not others:
                return match
            return f"{clip.op_type} {clip.name!r} has the type {others[0]}, but HardSigmoid only has a FLOAT kernel"
    if candidates:
        used = candidates[0][2]
        assert used is not None
        return f"{used.name!r} in the activation around {clip.op_type} {clip.name!r} is also used elsewhere"
    return ""


def _replace(editor: Editor, match: _Match, look: PatternFacts) -> None:
    name = match.at.name or match.result.name or "hard_swish"
    attributes = [ir.AttrFloat32("alpha", match.alpha), ir.AttrFloat32("beta", match.beta)]
    value = editor.node(match.at, "HardSigmoid", [match.x], attributes, name=f"{name}_hard_sigmoid")
    value.type, value.shape = match.x.type, match.x.shape
    if match.factor is not None:
        value = editor.node(match.at, "Mul", [match.factor, value], name=f"{name}_hard_swish")
    editor.replace(match.result, value)


def _refuses(look: PatternFacts) -> str:
    old = look.opset < _LEAST_OPSET
    return f"the model has opset {look.opset}, and HardSigmoid needs {_LEAST_OPSET}" if old else ""


def _summary(matches: Sequence[_Match]) -> str:
    swish = sum(match.factor is not None for match in matches)
    counts = [f"{swish} HardSwish"] if swish else []
    counts += [f"{len(matches) - swish} HardSigmoid"] if len(matches) > swish else []
    return f"Fused {' and '.join(counts)} from Clip arithmetic."


PATTERN = Pattern(
    anchors=("Clip", "Min"),
    match=_match,
    replace=_replace,
    end=lambda match: match.at,
    refuses=_refuses,
    made=_summary,
    proposed="{n} {activation is|activations are} written as Clip arithmetic",
    none="the model has no HardSwish or HardSigmoid pattern around Clip",
)
REWRITE = PATTERN.rewrite(
    name="hard-swish",
    summary="fuses HardSwish and HardSigmoid written as Clip arithmetic into HardSigmoid and Mul",
    stage=1,
)
