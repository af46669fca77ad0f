"""Fuses arithmetic into InstanceNormalization.

What it is: ``(x - mean) / sqrt(variance + epsilon) * gamma + beta``, mean and variance over all axes after the channels
    (style transfer, image translation, speech), in any order of operations: the nodes are matched by what they compute
    on sample values. GroupNormalization stays as exporters write it (an InstanceNormalization between two Reshapes),
    because ONNX Runtime has no CPU kernel for it.
Why it costs: seven to twelve nodes, of which five or more read and write the whole tensor. The operator passes over
    each channel three times, from the cache. It uses one thread, so with many threads the separate nodes can be as
    fast.
Evidence: ReduceMean over height and width, Sub, Pow, Sqrt, Div in the optimised graph.
Fix and its safety: exact: the same sums in a different order.
Example: ``--rewrite instance-normalization``
References: Ulyanov et al., "Instance Normalization: The Missing Ingredient for Fast Stylization", 2016; ONNX Runtime
    source, ``core/providers/cpu/nn/instance_norm.cc``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from ortune.graph.constants import Array, scalar
from ortune.graph.nodes import is_op
from ortune.graph.shapes.known import Dims
from ortune.graph.shapes.nearby import reduced_axes
from ortune.rewrites._editor import Editor
from ortune.rewrites._pattern import Pattern, PatternFacts
from ortune.rewrites._probe import Probes, epsilons, evaluate_on_probes, form_of, same_shapes

_FOLLOWED = 40  # maximum values to evaluate from x
_NEAR = 1e-6  # relative tolerance
_MOST_ELEMENTS = 1 << 18  # maximum elements of a probe with the sizes of x
_UNKNOWN = 3  # size of probe axes of unknown size
_SMALL = 4  # maximum size of probe axes if the probe would be too large
_ROWS = (1.0, 0.03, 5.0, 0.004, 0.5, 1e-4)  # standard deviations; small ones show where epsilon is added
_MOST_EPSILON = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Match:
    """A matched instance normalization.

    Attributes:
        x, y: Input and output.
        epsilon: Number added to the variance.
        gamma, beta: Scale and shift per channel.
    """

    x: ir.Value
    y: ir.Value
    epsilon: float
    gamma: Array
    beta: Array


def _starts(mean: ir.Node) -> Iterator[ir.Value]:
    """Yield the values that a mean may normalize: the mean's input and, if that is a square, the squared value."""
    value = mean.inputs[0]
    if value is None:
        return
    yield value
    square = value.producer()
    if square is None or not is_op(square, "Mul", "Pow") or square.inputs[0] is None:
        return
    if square.inputs[0] is square.inputs[1] or (is_op(square, "Pow") and scalar(square.inputs[1]) == 2.0):
        yield square.inputs[0]


def _shapes(dims: Dims) -> list[tuple[int, ...]]:
    """Return two probe shapes that differ in unknown sizes, so that a constant that fits only one shape is noticed."""
    sizes = [_UNKNOWN if not isinstance(size, int) else size for size in dims]
    if math.prod(sizes) > _MOST_ELEMENTS:
        sizes = [size if axis == 1 else min(size, _SMALL) for axis, size in enumerate(sizes)]
    others = [
        size + (axis != 1 and size != own) for axis, (size, own) in enumerate(zip(sizes, dims, strict=True))
    ]
    return [tuple(sizes), tuple(others)]


def _probes(shapes: list[tuple[int, ...]]) -> Probes:
    """Return probes whose channels have different means and deviations."""
    probes: Probes = []
    # Two of the first shape, one of the second.
    for seed, shape in enumerate((*shapes[:1] * 2, *shapes[1:])):
        rng = np.random.default_rng(seed)
        rows = rng.standard_normal((shape[0] * shape[1], math.prod(shape[2:])))
        rows *= np.asarray(_ROWS)[(np.arange(len(rows)) + seed) % len(_ROWS)][:, None]
        rows += rng.standard_normal((len(rows), 1))
        probes.append(rows.reshape(shape))
    return probes


def _by_channel(values: Array) -> Array:
    """Return an array with channels on axis 1 reshaped to one row per channel."""
    rows: Array = np.moveaxis(values, 1, 0).reshape(values.shape[1], -1)
    return rows


def _normalised(x: Array, epsilon: float) -> Array:
    axes = tuple(range(2, x.ndim))
    centred = x - x.mean(axes, keepdims=True)
    normalised: Array = centred / np.sqrt((centred**2).mean(axes, keepdims=True) + epsilon)
    return normalised


def _factors(values: Probes, plain: Probes) -> tuple[Array, Array] | None:
    """Fit ``values = gamma * plain + beta`` per channel for all probes; return (gamma, beta), or None without a fit."""
    ours, theirs = [_by_channel(p) for p in plain], [_by_channel(p) for p in values]
    channels = np.arange(len(ours[0]))
    # Fit with the two extreme numbers of a channel, where rounding matters least.
    low, high = ours[0].argmin(axis=1), ours[0].argmax(axis=1)
    with np.errstate(all="ignore"):
        apart = ours[0][channels, high] - ours[0][channels, low]
        gamma = (theirs[0][channels, high] - theirs[0][channels, low]) / apart
        beta = theirs[0][channels, low] - gamma * ours[0][channels, low]
        if not np.isfinite(gamma).all() or not np.isfinite(beta).all():
            return None
        size = max(np.abs(gamma).max(), np.abs(beta).max(), 1e-12)
        same = all(
            np.abs(gamma[:, None] * a + beta[:, None] - b).max() <= _NEAR * size * np.abs(a).max()
            for a, b in zip(ours, theirs, strict=True)
        )
    # With gamma near zero the result is constant, which is not a normalization of x.
    return (gamma, beta) if same and np.abs(gamma).max() > _NEAR * np.abs(beta).max() else None


def _match(mean: ir.Node, look: PatternFacts) -> _Match | str:
    """Match the instance normalization that begins with a mean, or return the reason for a near miss (or "")."""
    why = ""
    for x in _starts(mean):
        dims = look.inferred(x).dims
        axes = reduced_axes(mean)
        if dims is None or axes is None or len(dims) < 3:
            continue
        if {axis % len(dims) for axis in axes} != set(range(2, len(dims))) or 0 in dims:
            continue
        shapes = _shapes(dims)
        if math.prod(shapes[0][2:]) == 1:
            continue  # one element equals its mean
        probes = _probes(shapes)
        computed = evaluate_on_probes(
            x, probes, rank=len(dims), axes=len(dims), limit=_FOLLOWED, sizes_of=look.contents
        )
        match = _match_between(x, probes, computed, isinstance(dims[1], int))
        if isinstance(match, _Match):
            return match
        why = why or match
    return why


def _match_between(
    x: ir.Value, probes: Probes, computed: dict[ir.Value, Probes], channels_known: bool
) -> _Match | str:
    why = ""
    for epsilon in epsilons(computed, _MOST_EPSILON):
        plain = [_normalised(p, epsilon) for p in probes]
        for y in reversed(computed):
            factors = _factors(computed[y], plain) if same_shapes(computed[y], probes) else None
            if factors is None:
                continue
            gamma, beta = factors
            if probes[0].ndim == 3 and max(np.ptp(gamma), np.ptp(beta)) <= _NEAR * np.abs(gamma).max():
                continue  # over one axis without per-channel scales, which is a LayerNormalization
            form = form_of(f"the normalisation of {x.name!r}", x, y, computed)
            if isinstance(form, str):
                why = why or form
                continue
            if not channels_known:
                return f"the number of channels of {x.name!r} is unknown"
            return _Match(x=x, y=y, epsilon=epsilon, gamma=gamma, beta=beta)
    return why


def _replace(editor: Editor, match: _Match, look: PatternFacts) -> None:
    at = match.y.producer()
    assert at is not None
    name = f"{at.name or match.y.name or 'instance'}_normalization"
    scale = editor.constant(at, f"{name}_gamma", match.gamma.astype(np.float32))
    shift = editor.constant(at, f"{name}_beta", match.beta.astype(np.float32))
    epsilon = [ir.AttrFloat32("epsilon", match.epsilon)]
    output = editor.node(at, "InstanceNormalization", [match.x, scale, shift], epsilon, name=name)
    look.values[output] = look.inferred(match.y)
    editor.replace(match.y, output)


PATTERN = Pattern(
    anchors=("ReduceMean",),
    match=_match,
    replace=_replace,
    made="Fused {n} InstanceNormalization.",
    proposed="{n} InstanceNormalization {is|are} not fused",
    none="the model has no InstanceNormalization pattern",
    repeats=True,
)
REWRITE = PATTERN.rewrite(
    name="instance-normalization",
    summary="fuses reductions and arithmetic into InstanceNormalization",
    stage=3,
)
