"""The forms in which exporters write out what ONNX Runtime has an operator for."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

import numpy as np


class Maker(Protocol):
    """Makes nodes and constants; both are names."""

    def op(self, operator: str, *inputs: str, **attributes: object) -> str: ...

    def number(self, value: float) -> str: ...

    def weight(self, array: np.ndarray) -> str: ...


def _erf(m: Maker, x: str, by: str = "Div") -> str:
    inner = (
        m.op("Div", x, m.number(math.sqrt(2))) if by == "Div" else m.op("Mul", x, m.number(math.sqrt(0.5)))
    )
    return m.op("Add", m.op("Erf", inner), m.number(1))


def gelu_torch(m: Maker, x: str) -> str:
    """The older torch exporter: the half comes last."""
    return m.op("Mul", m.op("Mul", x, _erf(m, x)), m.number(0.5))


def gelu_dynamo(m: Maker, x: str) -> str:
    """The newer torch exporter: the half is a factor of the sum."""
    return m.op("Mul", x, m.op("Mul", m.number(0.5), _erf(m, x)))


def gelu_half_first(m: Maker, x: str) -> str:
    """Paddle and tf2onnx: the half is a factor of x."""
    return m.op("Mul", m.op("Mul", x, m.number(0.5)), _erf(m, x, "Mul"))


def gelu_half_of_sum(m: Maker, x: str) -> str:
    """JAX: the half and the sum trade places."""
    return m.op("Mul", m.op("Mul", _erf(m, x, "Mul"), m.number(0.5)), x)


def _tanh(m: Maker, x: str, cube: str) -> str:
    inner = m.op("Add", x, m.op("Mul", cube, m.number(0.044715)))
    return m.op("Add", m.op("Tanh", m.op("Mul", inner, m.number(math.sqrt(2 / math.pi)))), m.number(1))


def gelu_tanh_power(m: Maker, x: str) -> str:
    """GPT-2 as torch writes it."""
    return m.op("Mul", m.op("Mul", m.number(0.5), x), _tanh(m, x, m.op("Pow", x, m.number(3))))


def gelu_tanh_products(m: Maker, x: str) -> str:
    """JAX: the cube is products, one by one, and the constant goes into the first."""
    cube = m.op("Mul", x, m.op("Mul", x, m.op("Mul", m.number(0.044715), x)))
    inner = m.op("Mul", m.number(math.sqrt(2 / math.pi)), m.op("Add", x, cube))
    return m.op("Mul", x, m.op("Mul", m.number(0.5), m.op("Add", m.number(1), m.op("Tanh", inner))))


GELUS: tuple[Callable[[Maker, str], str], ...] = (
    gelu_torch,
    gelu_dynamo,
    gelu_half_first,
    gelu_half_of_sum,
    gelu_tanh_power,
    gelu_tanh_products,
)


def _affine(m: Maker, value: str, axis: int, width: int, rank: int, *, beta: bool = True) -> str:
    rng = np.random.default_rng(width)
    shape = (width,) if axis in (-1, rank - 1) else tuple(width if a == axis else 1 for a in range(rank))
    scaled = m.op("Mul", value, m.weight((rng.standard_normal(shape) * 0.4 + 1).astype(np.float32)))
    return m.op("Add", scaled, m.weight(rng.standard_normal(shape).astype(np.float32))) if beta else scaled


def norm_torch(m: Maker, x: str, axis: int, width: int, rank: int) -> str:
    """torch, older exporter."""
    centred = m.op("Sub", x, m.op("ReduceMean", x, axes=[axis]))
    variance = m.op("ReduceMean", m.op("Pow", centred, m.number(2)), axes=[axis])
    deviation = m.op("Sqrt", m.op("Add", variance, m.number(1e-5)))
    return _affine(m, m.op("Div", centred, deviation), axis, width, rank)


def norm_plain(m: Maker, x: str, axis: int, width: int, rank: int) -> str:
    """A square that is a product, a reciprocal root, and no factors."""
    centred = m.op("Sub", x, m.op("ReduceMean", x, axes=[axis]))
    variance = m.op("ReduceMean", m.op("Mul", centred, centred), axes=[axis])
    root = m.op("Sqrt", m.op("Add", m.number(1e-5), variance))
    return m.op("Mul", centred, m.op("Reciprocal", root))


def norm_tensorflow(m: Maker, x: str, axis: int, width: int, rank: int) -> str:
    """tf2onnx: gamma in the root, and the mean is subtracted from beta."""
    mean = m.op("ReduceMean", x, axes=[axis])
    centred = m.op("Sub", x, mean)
    variance = m.op("ReduceMean", m.op("Mul", centred, centred), axes=[axis])
    root = m.op("Reciprocal", m.op("Sqrt", m.op("Add", variance, m.number(1e-3))))
    rng = np.random.default_rng(width + 1)
    shape = (width,) if axis in (-1, rank - 1) else tuple(width if a == axis else 1 for a in range(rank))
    factor = m.op("Mul", root, m.weight((rng.standard_normal(shape) * 0.4 + 1).astype(np.float32)))
    shift = m.op("Sub", m.weight(rng.standard_normal(shape).astype(np.float32)), m.op("Mul", mean, factor))
    return m.op("Add", m.op("Mul", x, factor), shift)


def norm_moments(m: Maker, x: str, axis: int, width: int, rank: int) -> str:
    """JAX: the variance is the mean of squares without the square of the mean, and not below zero."""
    mean = m.op("ReduceMean", x, axes=[axis])
    squares = m.op("ReduceMean", m.op("Mul", x, x), axes=[axis])
    variance = m.op("Max", m.number(0), m.op("Sub", squares, m.op("Mul", mean, mean)))
    root = m.op("Reciprocal", m.op("Sqrt", m.op("Add", variance, m.number(1e-6))))
    return _affine(m, m.op("Mul", m.op("Sub", x, mean), root), axis, width, rank)


NORMS: tuple[Callable[[Maker, str, int, int, int], str], ...] = (
    norm_torch,
    norm_plain,
    norm_tensorflow,
    norm_moments,
)


def _moments(m: Maker, x: str, rank: int) -> tuple[str, str, str]:
    """What is above the mean, the mean, and the variance, over all axes behind the channels."""
    axes = list(range(2, rank))
    mean = m.op("ReduceMean", x, axes=axes)
    centred = m.op("Sub", x, mean)
    return centred, mean, m.op("ReduceMean", m.op("Mul", centred, centred), axes=[a - rank for a in axes])


def instance_torch(m: Maker, x: str, channels: int, rank: int) -> str:
    """By hand in torch: the deviation divides."""
    centred = m.op("Sub", x, m.op("ReduceMean", x, axes=list(range(2, rank))))
    variance = m.op("ReduceMean", m.op("Pow", centred, m.number(2)), axes=list(range(2, rank)))
    scaled = m.op("Div", centred, m.op("Sqrt", m.op("Add", variance, m.number(1e-5))))
    return _affine(m, scaled, 1, channels, rank)


def instance_plain(m: Maker, x: str, channels: int, rank: int) -> str:
    """No factors; a reciprocal root."""
    centred, _, variance = _moments(m, x, rank)
    return m.op("Mul", m.op("Reciprocal", m.op("Sqrt", m.op("Add", m.number(1e-3), variance))), centred)


def instance_tensorflow(m: Maker, x: str, channels: int, rank: int) -> str:
    """TensorFlow: gamma in the root, and the mean is subtracted from beta."""
    _, mean, variance = _moments(m, x, rank)
    root = m.op("Reciprocal", m.op("Sqrt", m.op("Add", variance, m.number(1e-3))))
    rng = np.random.default_rng(channels)
    shape = (channels, *[1] * (rank - 2))
    factor = m.op("Mul", root, m.weight((rng.standard_normal(shape) * 0.4 + 1).astype(np.float32)))
    shift = m.op("Sub", m.weight(rng.standard_normal(shape).astype(np.float32)), m.op("Mul", mean, factor))
    return m.op("Add", m.op("Mul", x, factor), shift)


INSTANCES: tuple[Callable[[Maker, str, int, int], str], ...] = (
    instance_torch,
    instance_plain,
    instance_tensorflow,
)


HEADS, SIZE = 2, 4
WIDTH = HEADS * SIZE


def _projected(m: Maker, x: str, seed: int, width: int = WIDTH) -> str:
    rng = np.random.default_rng(seed)
    weight = (rng.standard_normal((WIDTH, width)) * 0.4).astype(np.float32)
    return m.op("Add", m.op("MatMul", x, m.weight(weight)), m.weight(rng.standard_normal(width) * 0.1))


def _list(m: Maker, *numbers: int) -> str:
    return m.weight(np.array(numbers, np.int64))


def _sizes(m: Maker, x: str, *last: int) -> str:
    """Batch and length of ``x`` and what follows, as the older exporter computes a shape."""
    found = [
        m.op("Unsqueeze", m.op("Gather", m.op("Shape", x), m.weight(np.array(axis, np.int64))), _list(m, 0))
        for axis in (0, 1)
    ]
    return m.op("Concat", *found, *[_list(m, n) for n in last], axis=0)


def _turned_heads(m: Maker, value: str, shape: str, perm: tuple[int, ...] = (0, 2, 1, 3)) -> str:
    return m.op("Transpose", m.op("Reshape", value, shape), perm=list(perm))


def _joined_heads(m: Maker, value: str, shape: str) -> str:
    return m.op("Reshape", m.op("Transpose", value, perm=[0, 2, 1, 3]), shape)


def attention_torch(m: Maker, x: str, mask: str | None) -> str:
    """The older torch exporter: sizes read from each value, the scores divided, a mask for all queries."""
    q, k, v = (_projected(m, x, seed) for seed in range(3))
    queries, values = (_turned_heads(m, each, _sizes(m, each, HEADS, SIZE)) for each in (q, v))
    keys = _turned_heads(m, k, _sizes(m, k, HEADS, SIZE), (0, 2, 3, 1))
    scores = m.op("Div", m.op("MatMul", queries, keys), m.number(math.sqrt(SIZE)))
    weights = m.op("Softmax", m.op("Add", scores, mask) if mask else scores, axis=-1)
    return _joined_heads(m, m.op("MatMul", weights, values), _sizes(m, x, WIDTH))


def attention_dynamo(m: Maker, x: str, mask: str | None) -> str:
    """The newer torch exporter: half of the scale on either side, keys turned flat, rows of NaN made 0."""
    q, k, v = (_projected(m, x, seed) for seed in range(3))
    batch, length = (m.op("Shape", x, start=axis, end=axis + 1) for axis in (0, 1))
    shape = m.op("Concat", batch, length, _list(m, -1), _list(m, SIZE), axis=0)
    queries, keys, values = (_turned_heads(m, each, shape) for each in (q, k, v))
    sizes = m.op("Shape", keys)
    low, high = _list(m, -(2**63)), _list(m, 2**63 - 1)
    rows = m.op("Slice", sizes, _list(m, -2), _list(m, -1))
    columns = m.op("Slice", sizes, _list(m, -1), high)
    flat = m.op("Reshape", keys, m.op("Concat", _list(m, -1), rows, columns, axis=0))
    back = m.op("Concat", m.op("Slice", sizes, low, _list(m, -2)), columns, rows, axis=0)
    turned = m.op("Reshape", m.op("Transpose", flat, perm=[0, 2, 1]), back)
    half = m.number(SIZE**-0.25)
    scores = m.op("MatMul", m.op("Mul", queries, half), m.op("Mul", turned, half))
    weights = m.op("Softmax", m.op("Add", scores, mask) if mask else scores, axis=-1)
    guarded = m.op("Where", m.op("IsNaN", weights), m.number(0), weights)
    back = m.op("Concat", batch, length, _list(m, -1), axis=0)
    return _joined_heads(m, m.op("MatMul", guarded, values), back)


def attention_packed(m: Maker, x: str, mask: str | None) -> str:
    """timm: one product for all three, turned at once; the scale on the queries."""
    packed = m.op("Reshape", _projected(m, x, 0, 3 * WIDTH), _list(m, 0, -1, 3, HEADS, SIZE))
    turned = m.op("Transpose", packed, perm=[2, 0, 3, 1, 4])
    q, k, v = (m.op("Gather", turned, m.weight(np.array(n, np.int64)), axis=0) for n in range(3))
    scores = m.op("MatMul", m.op("Mul", q, m.number(SIZE**-0.5)), m.op("Transpose", k, perm=[0, 1, 3, 2]))
    weights = m.op("Softmax", m.op("Add", scores, mask) if mask else scores, axis=3)
    return _joined_heads(m, m.op("MatMul", weights, v), _list(m, 0, 0, WIDTH))


def attention_paddle(m: Maker, x: str, mask: str | None) -> str:
    """Paddle: the same, cut out of it by Slice and Squeeze."""
    packed = m.op("Reshape", _projected(m, x, 0, 3 * WIDTH), _list(m, 0, -1, 3, HEADS, SIZE))
    turned = m.op("Transpose", packed, perm=[2, 0, 3, 1, 4])
    q, k, v = (
        m.op("Squeeze", m.op("Slice", turned, _list(m, n), _list(m, n + 1), _list(m, 0)), _list(m, 0))
        for n in range(3)
    )
    scores = m.op("MatMul", m.op("Mul", q, m.number(SIZE**-0.5)), m.op("Transpose", k, perm=[0, 1, 3, 2]))
    weights = m.op("Softmax", m.op("Add", scores, mask) if mask else scores, axis=3)
    return _joined_heads(m, m.op("MatMul", weights, v), _list(m, 0, -1, WIDTH))


ATTENTIONS: tuple[Callable[[Maker, str, str | None], str], ...] = (
    attention_torch,
    attention_dynamo,
    attention_packed,
    attention_paddle,
)


def _mean_square(m: Maker, x: str, *, by_pow: bool) -> str:
    square = m.op("Pow", x, m.number(2)) if by_pow else m.op("Mul", x, x)
    return m.op("Add", m.op("ReduceMean", square, axes=[-1]), m.number(1e-6))


def _gamma(m: Maker, width: int) -> str:
    return m.weight(np.linspace(0.5, 1.5, width).astype(np.float32))


def rms_torch(m: Maker, x: str, width: int) -> str:
    """The older torch exporter: one over the root, which ONNX Runtime fuses."""
    root = m.op("Div", m.number(1), m.op("Sqrt", _mean_square(m, x, by_pow=True)))
    return m.op("Mul", _gamma(m, width), m.op("Mul", x, root))


def rms_dynamo(m: Maker, x: str, width: int) -> str:
    """The newer torch exporter: the reciprocal of the root."""
    root = m.op("Reciprocal", m.op("Sqrt", _mean_square(m, x, by_pow=True)))
    return m.op("Mul", m.op("Mul", x, root), _gamma(m, width))


def rms_product(m: Maker, x: str, width: int) -> str:
    """A square that is a product."""
    return m.op("Mul", m.op("Div", x, m.op("Sqrt", _mean_square(m, x, by_pow=False))), _gamma(m, width))


def rms_power(m: Maker, x: str, width: int) -> str:
    """A root that is a power."""
    root = m.op("Pow", _mean_square(m, x, by_pow=True), m.number(-0.5))
    return m.op("Mul", _gamma(m, width), m.op("Mul", root, x))


RMS: tuple[Callable[[Maker, str, int], str], ...] = (rms_torch, rms_dynamo, rms_product, rms_power)


def _total(m: Maker, powers: str, axis: int) -> str:
    return m.op("ReduceSum", powers, _list(m, axis), keepdims=1)


def _below(m: Maker, x: str, axis: int) -> tuple[str, str]:
    largest = m.op("ReduceMax", x, axes=[axis])
    return m.op("Sub", x, largest), largest


def softmax_bare(m: Maker, x: str, axis: int) -> str:
    """By hand: no maximum."""
    powers = m.op("Exp", x)
    return m.op("Div", powers, _total(m, powers, axis))


def softmax_guarded(m: Maker, x: str, axis: int) -> str:
    """By hand, as it should be."""
    powers = m.op("Exp", _below(m, x, axis)[0])
    return m.op("Div", powers, _total(m, powers, axis))


def softmax_reciprocal(m: Maker, x: str, axis: int) -> str:
    """A factor in the place of the quotient."""
    powers = m.op("Exp", _below(m, x, axis)[0])
    return m.op("Mul", m.op("Div", m.number(1), _total(m, powers, axis)), powers)


def softmax_jax(m: Maker, x: str, axis: int) -> str:
    """JAX of two axes: each reduction drops its axis, and a Reshape brings it back."""
    shape = _list(m, -1, 1)
    largest = m.op("Max", m.number(-math.inf), m.op("ReduceMax", x, axes=[axis], keepdims=0))
    powers = m.op("Exp", m.op("Sub", x, m.op("Reshape", largest, shape)))
    total = m.op("ReduceSum", powers, _list(m, axis), keepdims=0)
    return m.op("Div", powers, m.op("Reshape", total, shape))


def softmax_added(m: Maker, x: str, axis: int) -> str:
    """A small number beside the sum, against a division by zero that cannot be."""
    powers = m.op("Exp", _below(m, x, axis)[0])
    return m.op("Div", powers, m.op("Add", _total(m, powers, axis), m.number(1e-8)))


def softmax_clamped(m: Maker, x: str, axis: int) -> str:
    """The same by a maximum, and exponents that are zero at most."""
    powers = m.op("Exp", m.op("Min", _below(m, x, axis)[0], m.number(0)))
    return m.op("Div", powers, m.op("Max", m.number(1e-6), _total(m, powers, axis)))


SOFTMAXES: tuple[Callable[[Maker, str, int], str], ...] = (
    softmax_bare,
    softmax_guarded,
    softmax_reciprocal,
    softmax_added,
    softmax_clamped,
)


def log_softmax_guarded(m: Maker, x: str, axis: int) -> str:
    """The logarithm of the sum, from what is below the maximum."""
    below, _ = _below(m, x, axis)
    return m.op("Sub", below, m.op("Log", _total(m, m.op("Exp", below), axis)))


def log_softmax_of_all(m: Maker, x: str, axis: int) -> str:
    """The maximum comes back to the logarithm."""
    below, largest = _below(m, x, axis)
    return m.op("Sub", x, m.op("Add", m.op("Log", _total(m, m.op("Exp", below), axis)), largest))


def log_softmax_reduced(m: Maker, x: str, axis: int) -> str:
    """By the reduction that does all."""
    return m.op("Sub", x, m.op("ReduceLogSumExp", x, axes=[axis]))


LOG_SOFTMAXES: tuple[Callable[[Maker, str, int], str], ...] = (
    log_softmax_guarded,
    log_softmax_of_all,
    log_softmax_reduced,
)
