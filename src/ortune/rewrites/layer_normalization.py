"""Fuses arithmetic into LayerNormalization.

What it is: ``(x - mean) / sqrt(variance + epsilon) * gamma + beta`` over one axis, in any order of operations: the
    nodes are matched by what they compute on sample values. Variants: the variance as ``E[x^2] - E[x]^2``, gamma inside
    the reciprocal root (TensorFlow, JAX), the axis kept or restored by a Reshape. Over an inner axis, a Transpose is
    added before and after. Opsets 13 to 16 are raised to 17, which has the operator.
Why it costs: seven to twelve passes over the tensor instead of one. ONNX Runtime fuses only the order that torch
    writes, and not always after a Transpose, which it may move first.
Evidence: ReduceMean, Sub, Pow, Sqrt, Div in the optimised graph.
Fix and its safety: exact: the same sums in a different order. Where the mean is many times the standard deviation,
    rounding differs visibly, as it does in ONNX Runtime's own fusion: ``E[x^2] - E[x]^2`` loses digits there, and the
    fused operator is nearer to the exact result. Magika's outputs for short texts are an example, with a relative error
    of 7e-4 before and 6e-8 after.
Example: ``--rewrite layer-normalization``
References: Ba et al., "Layer Normalization", 2016; ONNX operators, "LayerNormalization".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from ortune.graph.constants import Array, constant
from ortune.graph.model.graphs import op_set, scopes
from ortune.graph.model.operators import STANDARD
from ortune.graph.nodes import is_op, scopes_of, source_of
from ortune.graph.shapes.nearby import reduced_axis
from ortune.rewrites._editor import Editor
from ortune.rewrites._pattern import Pattern, PatternFacts
from ortune.rewrites._probe import Probes, epsilons, evaluate_on_probes, form_of, same_shapes

Sizes = tuple[int | None, ...]

_OPERATOR_OPSET = 17  # first opset with LayerNormalization
_RAISED_FROM = 13  # from here on, operators kept their meaning up to it, except the ones below
_CHANGED_MEANING = ("RoiAlign", "BatchNormalization")
_FOLLOWED = 40  # maximum values to evaluate from x
_NEAR = 1e-6  # relative tolerance
_MOST_ELEMENTS = 1 << 20  # maximum elements of a probe
_MOST_EPSILON = 0.1
_UNKNOWN = (3, 4)  # two sizes of probe axes of unknown size, since no constant fits both
_ROWS = (1.0, 0.03, 5.0, 0.004, 0.5, 1e-4)  # standard deviations; small ones show where epsilon is added
_STEPS = 9  # maximum nodes from a mean to a square root
_BETWEEN = op_set(
    "Sub Mul Pow Div Add Sqrt Reciprocal Reshape Expand Unsqueeze Squeeze Max Neg Cast Identity ReduceMean "
    "ReduceSum"
)
_FUSED = {"ReduceMean": 2, "Sub": 1, "Pow": 1, "Add": 1, "Sqrt": 1, "Div": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Match:
    """A matched layer normalization.

    Attributes:
        x, y: Input and output.
        axis, rank: The axis, non-negative, and the rank of ``x``; (-1, 0) for the last axis of a value of unknown rank.
        epsilon: Number added to the variance.
        gamma, beta: Scale and shift along the axis.
        nodes: Nodes between input and output.
    """

    x: ir.Value
    y: ir.Value
    axis: int
    rank: int
    epsilon: float
    gamma: Array
    beta: Array
    nodes: tuple[ir.Node, ...]


def unfused_operators(mean: ir.Node, look: PatternFacts) -> tuple[ir.Node, tuple[str, ...]] | None:
    """Return (last node of a layer normalization, operators that it lacks for ONNX Runtime's fusion).

    Returns None if there is no layer normalization, or if it has all operators and ONNX Runtime may fuse it.
    """
    match = _match(mean, look)
    if not isinstance(match, _Match):
        return None
    kinds = Counter(node.op_type for node in match.nodes)
    missing = tuple(op for op, count in _FUSED.items() if kinds[op] < count)
    end = match.y.producer()
    return (end, missing) if missing and end is not None else None


def _starts(node: ir.Node) -> Iterator[ir.Value]:
    """Yield the values that a mean may normalize: the mean's input and, if that is a square, the squared value."""
    value = source_of(node.inputs[0])
    if value is None:
        return
    yield value
    square = value.producer()
    if is_op(square, "Mul") and square is not None:
        factors = {*map(source_of, square.inputs)}
        yield from filter(None, factors if len(factors) == 1 else ())


def _probe_shapes(x: ir.Value, sizes: Sizes | None, axis: int) -> list[tuple[int, ...]]:
    """Return two probe shapes; empty if the size of the axis is unknown or 1, or the probes would be too large."""
    if sizes is None and axis != -1:
        return []
    dims: list[int | None] = [None, None] if sizes is None else list(sizes)
    if not -len(dims) <= axis < len(dims):
        return []
    width = dims[axis] = dims[axis] or _width(x)
    shapes = [tuple(s or unknown for s in dims) for unknown in _UNKNOWN]
    return shapes if width > 1 and np.prod(shapes[0]) <= _MOST_ELEMENTS else []


def _width(x: ir.Value) -> int:
    """Return the size of the last axis of ``x``, from constants combined with values computed from ``x``, or 0."""
    derived = [use.node.outputs[0] for use in x.uses()]
    for value in derived:
        for use in value.uses() if len(derived) < _FOLLOWED else ():
            numbers = [constant(source_of(v)) for v in use.node.inputs]
            sizes = [
                n.size
                for n in numbers
                if n is not None and n.dtype.kind == "f" and n.size > 1 and n.shape[-1] == n.size
            ]
            if sizes:
                return sizes[0]
            if is_op(
                use.node, "Identity", "Add", "Sub", "Mul", "Div", "Pow", "Sqrt", "ReduceMean", "ReduceSum"
            ):
                derived.append(use.node.outputs[0])
    return 0


def _probes(shapes: list[tuple[int, ...]], axis: int) -> Probes:
    """Return probes whose rows have different statistics: two to solve for gamma and beta, and one to verify them."""
    probes: Probes = []
    for seed, shape in enumerate((*shapes[:1] * 2, *shapes[1:])):
        rng = np.random.default_rng(seed)
        values = np.moveaxis(rng.standard_normal(shape), axis, -1).copy()
        rows = values.reshape(-1, values.shape[-1])
        at = np.arange(len(rows)) + seed
        rows *= np.asarray(_ROWS)[at % len(_ROWS)][:, None]
        rows += rng.standard_normal((len(rows), 1))
        probes.append(np.moveaxis(values, -1, axis))
    return probes


def _normalised(x: Array, axis: int, epsilon: float) -> Array:
    centred = x - x.mean(axis, keepdims=True)
    normalised: Array = centred / np.sqrt((centred**2).mean(axis, keepdims=True) + epsilon)
    return normalised


def _factors(values: Probes, plain: Probes, axis: int) -> tuple[Array, Array] | None:
    """Fit ``values = gamma * plain + beta`` along an axis for all probes; return (gamma, beta), None without a fit."""
    width = plain[0].shape[axis]
    ours = [np.moveaxis(p, axis, -1).reshape(-1, width) for p in plain]
    theirs = [np.moveaxis(p, axis, -1).reshape(-1, width) for p in values]
    # Two rows give gamma and beta of each position: (y1 - y2) / (x1 - x2), then y1 - gamma x1.
    apart = ours[0][0] - ours[1][0]
    with np.errstate(all="ignore"):
        gamma = (theirs[0][0] - theirs[1][0]) / apart
        beta = theirs[0][0] - gamma * ours[0][0]
    if not np.isfinite(gamma).all() or not np.isfinite(beta).all():
        return None
    if np.abs(gamma).max() <= _NEAR * np.abs(beta).max():
        return None  # the mean of a normalized value is constant, which is not a normalization of x
    size = max(np.abs(gamma).max(), np.abs(beta).max(), 1e-12)
    same = all(
        np.abs(gamma * a + beta - b).max() <= _NEAR * size * np.abs(a).max()
        for a, b in zip(ours, theirs, strict=True)
    )
    return (gamma, beta) if same else None


def _match(mean: ir.Node, look: PatternFacts) -> _Match | str:
    """Match the layer normalization that begins with a mean, or return the reason for a near miss ("" if unrelated)."""
    axis, why = reduced_axis(mean), ""
    for x in _starts(mean) if axis is not None else ():
        assert axis is not None
        for sizes in _sizes(x, mean, axis, look):
            shapes = _probe_shapes(x, sizes, axis)
            if not shapes:
                continue
            probes = _probes(shapes, axis)
            rank, axes = len(sizes or (0,)), len(shapes[0])
            computed = evaluate_on_probes(
                x, probes, rank=rank, axes=axes, limit=_FOLLOWED, sizes_of=look.contents
            )
            match = _match_between(x, sizes, axis, probes, computed)
            if isinstance(match, _Match):
                return match
            why = why or match
    return why


def _sizes(x: ir.Value, mean: ir.Node, axis: int, look: PatternFacts) -> Iterator[Sizes | None]:
    """Yield the sizes of ``x`` to try: for the last axis, None (unknown) first, which is cheap and usually enough."""
    if axis == -1:
        yield None
    sizes = look.values.sizes(x) if may_begin(mean) else None
    if sizes is not None:
        yield sizes


def may_begin(mean: ir.Node) -> bool:
    """Return whether a subtraction and a square root follow a mean closely; a cheap filter before matching."""
    visited: dict[ir.Node, None] = {}
    level = [mean]
    for _ in range(_STEPS):
        level = [use.node for node in level for value in node.outputs for use in value.uses()]
        level = [node for node in dict.fromkeys(level) if is_op(node, *_BETWEEN) and node not in visited]
        visited |= dict.fromkeys(level)
    kinds = {node.op_type for node in visited}
    return not kinds.isdisjoint(("Sub", "Neg")) and not kinds.isdisjoint(("Sqrt", "Pow"))


def _match_between(
    x: ir.Value, sizes: Sizes | None, axis: int, probes: Probes, computed: dict[ir.Value, Probes]
) -> _Match | str:
    why = ""
    for epsilon in epsilons(computed, _MOST_EPSILON):
        plain = [_normalised(p, axis, epsilon) for p in probes]
        for y in reversed(computed):
            if y is x or not same_shapes(computed[y], probes):
                continue
            factors = _factors(computed[y], plain, axis)
            if factors is None:
                continue
            what = f"the normalisation of {x.name!r}"
            form = form_of(what, x, y, computed)
            if isinstance(form, str):
                why = why or form
                continue
            # A constant along the axis proves its size; without one, the probes fit a size that was only
            # assumed.
            if sizes is None or sizes[axis] is None:
                constants = [constant(source_of(v)) for node in form.nodes for v in node.inputs]
                if not any(n is not None and n.size == factors[0].size for n in constants):
                    return f"the size of the normalised axis of {x.name!r} is unknown"
            last = axis == -1 or (sizes is not None and axis == len(sizes) - 1)
            # After a Transpose ONNX Runtime may not fuse, since it moves the Transpose first.
            if last and not is_op(x.producer(), "Transpose") and form.is_fused:
                return f"ONNX Runtime itself fuses {what}"
            if sizes is None:
                place, rank = -1, 0
            else:
                rank = len(sizes)
                place = axis % rank
            return _Match(
                x=x,
                y=y,
                axis=place,
                rank=rank,
                epsilon=epsilon,
                gamma=factors[0],
                beta=factors[1],
                nodes=form.nodes,
            )
    return why


def _refuses(look: PatternFacts) -> str:
    """Return why the opset lacks LayerNormalization and cannot be raised; "" if the operator is or can be available."""
    for scope, opset in scopes_of(look.model):
        if opset >= _OPERATOR_OPSET:
            continue
        if opset < _RAISED_FROM:
            return f"the model has opset {opset}, and LayerNormalization needs 17 (opsets 13 to 16 are converted)"
        for node in scope:
            if is_op(node, *_CHANGED_MEANING) and (node.op_type == "RoiAlign" or len(node.outputs) > 1):
                return f"the model has opset {opset}, and {node.op_type} {node.name!r} has another meaning in opset 17"
    return ""


def _replace(editor: Editor, match: _Match, look: PatternFacts) -> None:
    at = match.y.producer()
    assert at is not None
    name = f"{at.name or match.y.name or 'layer'}_normalization"
    inner = match.axis not in (-1, match.rank - 1)
    order = [axis for axis in range(match.rank) if axis != match.axis] + [match.axis]
    x = match.x
    if inner:
        x = editor.node(at, "Transpose", [x], [ir.AttrInt64s("perm", order)], name=f"{name}_before")
    inputs = [x, editor.constant(at, f"{name}_gamma", match.gamma.astype(np.float32))]
    if match.beta.any():
        inputs.append(editor.constant(at, f"{name}_beta", match.beta.astype(np.float32)))
    attributes = [ir.AttrInt64("axis", -1), ir.AttrFloat32("epsilon", match.epsilon)]
    output = editor.node(at, "LayerNormalization", inputs, attributes, name=name)
    if inner:
        # The inverse order: for rank 4 and axis 1, the order is 0, 2, 3, 1 and its inverse 0, 3, 1, 2.
        back = [order.index(axis) for axis in range(match.rank)]
        output = editor.node(at, "Transpose", [output], [ir.AttrInt64s("perm", back)], name=f"{name}_after")
    editor.replace(match.y, output)


def _raise(model: ir.Model) -> None:
    """Raise the model's standard opset to the first opset with LayerNormalization."""
    for root in scopes(model):
        imports = root.opset_imports if isinstance(root, ir.Function) else model.opset_imports
        for domain in STANDARD:
            if domain in imports:
                imports[domain] = max(imports[domain], _OPERATOR_OPSET)


PATTERN = Pattern(
    anchors=("ReduceMean", "ReduceSum"),
    match=_match,
    replace=_replace,
    end=lambda match: match.y.producer(),
    refuses=_refuses,
    made="Fused {n} LayerNormalization.",
    proposed="{n} LayerNormalization {is|are} not fused",
    none="the model has no LayerNormalization pattern",
    repeats=True,
    finish=_raise,
)
REWRITE = PATTERN.rewrite(
    name="layer-normalization",
    summary="fuses reductions and arithmetic into LayerNormalization",
    stage=3,
)
