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
