"""Fuses arithmetic into Softmax and LogSoftmax.

What it is: ``exp(x - max) / sum`` over the last axis (JAX, handwritten attention and losses), with or without the
    maximum, with Div or a reciprocal, the axis kept or restored by a Reshape; and ``x - log(sum(exp(x)))``, which is
    LogSoftmax. Both are matched by what the nodes compute on sample values. Over an inner axis nothing is fused,
    because ONNX Runtime's Softmax transposes twice there. A Log after a Softmax is not fused either: far below the
    maximum, Log returns minus infinity where LogSoftmax is finite. A clamp (Clip, Max or Min) or an added small number
    that has no effect is removed as well.
Why it costs: three to six passes over the tensor instead of one. ONNX Runtime fuses none of these.
Evidence: Exp, ReduceSum and Div in the optimised graph.
Fix and its safety: exact: the same function apart from rounding, wherever the original nodes return values that sum to
    one. Without the maximum, Exp or its sum can overflow (values above 88) or underflow (a whole row below -87). There,
    Softmax returns correct values.
Example: ``--rewrite softmax``
References: ONNX operators, "Softmax" and "LogSoftmax"; Blanchard, Higham and Higham, "Accurately computing the
    log-sum-exp and softmax functions", 2021.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from ortune.graph.constants import Array, constant
from ortune.graph.limits import limits
from ortune.graph.nodes import is_op
from ortune.graph.shapes.known import InferredShape
from ortune.rewrites._editor import Editor
from ortune.rewrites._pattern import Pattern, PatternFacts
from ortune.rewrites._probe import LOWEST, Probes, evaluate_on_probes, nodes_between

_ONE_AXIS_OPSET = 13  # before it, Softmax normalizes over its axis and all that follow
_FOLLOWED = 40  # maximum values to evaluate from x
_NEAR = 2e-7  # relative tolerance in float64, which admits a small constant in the sum
_NEARLY = 1e-3
_MOST_ELEMENTS = 1 << 16  # maximum elements of a probe with the sizes of x
_UNKNOWN, _SMALL = (
    3,
    5,
)  # sizes of probe axes: if unknown, and at most if the probe would be too large
_VANISHES = -104.0
"""Number below which Exp is zero in float32."""
_ROUNDED = 2.0**-23
"""Number below which an addition to 1 is lost in float32."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Match:
    """A matched Softmax or LogSoftmax over the last axis.

    Attributes:
        x, y: Input and output.
        operator: "Softmax" or "LogSoftmax".
        axis: The last axis in the form that the opset needs: -1, or its number.
    """

    x: ir.Value
    y: ir.Value
    operator: str
    axis: int


def _starts(anchor: ir.Node) -> list[ir.Value]:
    """Return the possible inputs of the Softmax: the value that the maximum is subtracted from, then Exp's input."""
    value = anchor.inputs[0] if anchor.inputs else None
    source = value.producer() if value is not None else None
    while source is not None and limits(source) is not None:
        source = next((v.producer() for v in source.inputs if constant(v) is None and v is not None), None)
    before = source.inputs[0] if source is not None and is_op(source, "Sub") else None
    candidates = [v for v in (before, value) if v is not None and constant(v) is None]
    return list(dict.fromkeys(candidates))


def _shape(value: InferredShape) -> tuple[int, ...] | None:
    """Return a shape for probes; None if the last axis has one element or the tensor is empty."""
    if value.dims is None:
        return _UNKNOWN, _SMALL
    sizes = [_UNKNOWN if not isinstance(size, int) else size for size in value.dims]
    if not sizes or 0 in sizes or sizes[-1] == 1:
        return None
    return tuple(sizes if math.prod(sizes) <= _MOST_ELEMENTS else (min(size, _SMALL) for size in sizes))


def _log_shares(x: Array, axis: int) -> Array:
    below = x - x.max(axis, keepdims=True)
    shares: Array = below - np.log(np.exp(below).sum(axis, keepdims=True))
    return shares


def _operator(values: Probes, probes: Probes, axis: int, near: float = _NEAR) -> str:
    """Return the function, "Softmax" or "LogSoftmax", that maps the probes to the values along an axis, or ""."""
    if values[0].shape != probes[0].shape:
        return ""
    logs = [_log_shares(p, axis) for p in probes]
    for name, wanted in (("LogSoftmax", logs), ("Softmax", [np.exp(p) for p in logs])):
        if all(np.allclose(a, b, rtol=near, atol=0) for a, b in zip(values, wanted, strict=True)):
            return name
    return ""


def _match(anchor: ir.Node, look: PatternFacts) -> _Match | str:
    """Match the Softmax or LogSoftmax around a node, or return the reason for a near miss ("" if unrelated)."""
    if is_op(anchor, "Log"):
        return _of_shares(anchor)
    why = ""
    for x in _starts(anchor):
        of_x = look.inferred(x)
        shape = _shape(of_x)
        if shape is None:
            continue
        rng = np.random.default_rng(0)
        # With low numbers too, where a lower bound of the sum would matter.
        probes = [rng.standard_normal(shape) * 2 + offset for offset in (0.0, -30.0)]
        rank = len(of_x.dims or ())
        computed = evaluate_on_probes(
            x, probes, rank=rank, axes=len(shape), limit=_FOLLOWED, sizes_of=look.contents, bounds=True
        )
        for y in reversed(computed) if anchor.outputs[0] in computed else ():
            operator = _operator(computed[y], probes, -1)
            if operator and (operator == "Softmax" or _of_the_sum(anchor)):
                match = _checked(_Match(x=x, y=y, operator=operator, axis=-1), computed, of_x, look.opset)
                if isinstance(match, _Match):
                    return match
                why = why or match
            elif not operator and _operator(computed[y][:1], probes[:1], -1):
                why = (
                    why
                    or f"the arithmetic around {anchor.op_type} {anchor.name!r} is not a Softmax for small values"
                )
            elif not operator and _operator(computed[y], probes, -1, _NEARLY):
                why = (
                    why
                    or f"{anchor.op_type} {anchor.name!r} differs from a Softmax by a constant that changes the result"
                )
            elif not operator and any(_operator(computed[y], probes, axis) for axis in range(len(shape) - 1)):
                why = why or f"the Softmax around {anchor.op_type} {anchor.name!r} is not over the last axis"
    return why


def _of_the_sum(anchor: ir.Node) -> bool:
    """Return whether the logarithm is taken of the sum of exponentials.

    The logarithm of a quotient differs from LogSoftmax if the quotient underflows.
    """
    return is_op(anchor, "ReduceLogSumExp") or all(
        is_op(use.node, "ReduceSum") for use in anchor.outputs[0].uses()
    )


def _checked(
    match: _Match, computed: dict[ir.Value, Probes], of_x: InferredShape, opset: int
) -> _Match | str:
    nodes, elsewhere = nodes_between(match.x, match.y, computed)
    what = f"the {match.operator} of {match.x.name!r}"
    if elsewhere is not None:
        return f"{elsewhere.name!r} in {what} is also used elsewhere"
    if (of_x.dtype or match.x.dtype) != ir.DataType.FLOAT:
        return f"{what} might not be float32"
    why = _other_function(match, nodes, computed)
    if why:
        return f"{what} {why}"
    if opset >= _ONE_AXIS_OPSET:
        return match
    if of_x.dims is None:
        return f"the model has opset {opset}, and the last axis of {what} is unknown"
    return _Match(x=match.x, y=match.y, operator=match.operator, axis=len(of_x.dims) - 1)


def _other_function(match: _Match, nodes: Sequence[ir.Node], computed: Mapping[ir.Value, Probes]) -> str:
    """Return a reason that the function may differ from Softmax outside the range of the probes; "" if it cannot."""
    if any(_changes_function(node, match, computed) for node in nodes):
        return "uses constants that the operator would ignore"
    if match.operator == "LogSoftmax" and not all(_of_the_sum(node) for node in nodes if is_op(node, "Exp")):
        return "is the logarithm of probabilities, which can underflow to zero"
    return ""


def _changes_function(node: ir.Node, match: _Match, computed: Mapping[ir.Value, Probes]) -> bool:
    """Return whether a node's constants change the function; the 1 in 1 / sum and unreachable bounds do not."""
    within = limits(node)
    if within is not None:
        low, high = within
        least, most = _reach(node, match, computed)
        return (low > max(least, LOWEST)) or (high < min(most, -LOWEST))
    for place, value in enumerate(node.inputs):
        number = constant(value)
        if number is None or number.dtype.kind != "f":
            continue
        one = float(number.reshape(())) if number.size == 1 else math.nan
        over = is_op(node, "Div") and place == 0 and one == 1.0
        # With the maximum subtracted, the sum of a row is at least exp(0) = 1, so adding 1e-9 has no effect.
        added = is_op(node, "Add") and 0 <= one < _ROUNDED and _reach(node, match, computed)[0] == 1.0
        if not (over or added):
            return True
    return False


def _reach(node: ir.Node, match: _Match, computed: Mapping[ir.Value, Probes]) -> tuple[float, float]:
    """Return bounds of a node's input if that is ``x - max(x)`` or the sum of exponentials; infinities for others."""
    value = next(v for v in node.inputs if v is not None and v in computed)
    below = [p - p.max(-1, keepdims=True) for p in computed[match.x]]
    if _same(computed[value], [np.exp(b).sum(-1) for b in below]):
        return 1.0, math.inf
    if _same(computed[value], below):
        return (_VANISHES if match.operator == "Softmax" else -math.inf), 0.0
    return -math.inf, math.inf


def _same(ones: Probes, others: Probes) -> bool:
    return all(
        a.size == b.size and np.allclose(a.reshape(-1), b.reshape(-1), rtol=_NEAR, atol=0)
        for a, b in zip(ones, others, strict=True)
    )


def _of_shares(node: ir.Node) -> str:
    """Return a sentence that says why the logarithm of a Softmax is not replaced; "" for other nodes."""
    source = node.inputs[0].producer() if node.inputs[0] is not None else None
    if source is None or not is_op(source, "Softmax"):
        return ""
    return (
        f"Log {node.name!r} of Softmax {source.name!r} is minus infinity where a probability underflows, "
        "but LogSoftmax is finite"
    )


def _replace(editor: Editor, match: _Match, look: PatternFacts) -> None:
    at = match.y.producer()
    assert at is not None
    name = f"{at.name or match.y.name or 'shares'}_{match.operator.lower()}"
    output = editor.node(at, match.operator, [match.x], [ir.AttrInt64("axis", match.axis)], name=name)
    look.values[output] = look.inferred(match.y)
    editor.replace(match.y, output)


PATTERN = Pattern(
    anchors=("Exp", "ReduceLogSumExp", "Log"),
    match=_match,
    replace=_replace,
    made="Fused {n} Softmax.",
    proposed="{n} Softmax {is|are} not fused",
    none="the model has no Softmax pattern",
    repeats=True,
)
REWRITE = PATTERN.rewrite(
    name="softmax",
    summary="fuses exponentials divided by their sum into Softmax or LogSoftmax",
    stage=2,
)
