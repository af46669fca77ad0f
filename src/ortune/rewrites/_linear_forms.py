"""Linear forms of values and elementwise functions of them, which express one step of a recurrence.

Exporters write one product for all gates or one each, split before or after the activation. As matrices of values these
are equal, so steps are compared by their numbers and not by their nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

Values = np.ndarray


@dataclass(frozen=True, slots=True, eq=False)
class Linear:
    """A linear form: a sum of values times constant matrices, plus a constant row.

    Attributes:
        parts: Maps each value to the matrix that multiplies it; None for the value itself.
        bias: The constant row; None for zeros.
    """

    parts: Mapping[ir.Value, Values | None]
    bias: Values | None = None

    def same(self, other: Linear) -> bool:
        """Return whether two linear forms have the same values, matrices and bias."""
        return self.parts.keys() == other.parts.keys() and self.equals(
            other, {key: key for key in self.parts}
        )

    def equals(self, other: Linear, named: Mapping[ir.Value, ir.Value]) -> bool:
        """Return whether two linear forms are equal after this form's values are mapped by ``named``."""
        if len(self.parts) != len(other.parts) or not _equal(self.bias, other.bias):
            return False
        return all(
            named.get(key) in other.parts and _equal(matrix, other.parts[named[key]])
            for key, matrix in self.parts.items()
        )

    @property
    def as_it_is(self) -> bool:
        """Whether the form contains a value that is not multiplied by a matrix."""
        return any(matrix is None for matrix in self.parts.values())

    @property
    def is_value(self) -> bool:
        """Whether the form is a single value that is not multiplied by a matrix."""
        return self.bias is None and len(self.parts) == 1 and self.as_it_is


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """An elementwise function: an operator applied to linear forms, numbers or other functions."""

    operator: str
    inputs: tuple[Part, ...]


Part = Linear | Curve | float


def _equal(one: Values | None, other: Values | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.shape == other.shape and bool((one == other).all())


def clipped(part: Part, low: float, high: float) -> Curve:
    """Return the function that clips a part to a lower and an upper bound."""
    return Curve("Min", (Curve("Max", (part, low)), high))


def row_of(value: ir.Value, numbers: Values) -> Part:
    """Return a constant array as a bias row, as one number if all elements are equal, or else as an ordinary value."""
    if numbers.dtype.kind != "f":
        return Linear({value: None})
    if numbers.size and (numbers == numbers.reshape(-1)[0]).all():
        return float(numbers.reshape(-1)[0])
    if numbers.ndim == 1 or numbers.shape[:-1] == (1,):
        return Linear({}, numbers.reshape(-1))
    return Linear({value: None})


def cut(whole: Part, start: int, end: int | None, pieces: int) -> Part | None:
    """Slice the last axis of a part; return None if that is not possible.

    If ``pieces`` is not 0, the axis is divided into that many equal pieces and ``start`` is the index of a piece.
    """
    if isinstance(whole, float):
        return whole
    if isinstance(whole, Curve):
        inputs = [cut(part, start, end, pieces) for part in whole.inputs]
        parts = tuple(part for part in inputs if part is not None)
        return Curve(whole.operator, parts) if len(parts) == len(inputs) else None
    arrays = [array for array in (*whole.parts.values(), whole.bias) if array is not None]
    if not arrays or whole.as_it_is:
        return None
    width = arrays[0].shape[-1]
    if pieces:
        if width % pieces:
            return None
        # start is the index of a piece.
        start, end = start * (width // pieces), (start + 1) * (width // pieces)
    part = slice(start, end)
    bias = None if whole.bias is None else whole.bias[part]
    return Linear({key: m if m is None else m[:, part] for key, m in whole.parts.items()}, bias)


def total(one: Part | None, other: Part | None, sign: float) -> Linear | None:
    """Return ``one + sign * other``; None if the sum is not a linear form."""
    if isinstance(one, float) and isinstance(other, Linear):
        one = _full(other, one)
    if isinstance(other, float) and isinstance(one, Linear):
        other = _full(one, other)
    if not isinstance(one, Linear) or not isinstance(other, Linear) or one.is_value or other.is_value:
        return None
    # Two matrices of one value would have to be summed, and rounding would change the weights of the cell.
    if one.parts.keys() & other.parts.keys():
        return None
    if other.as_it_is:
        return None
    turned = {key: m if m is None or sign > 0 else -m for key, m in other.parts.items()}
    biases = [b for b in (one.bias, other.bias if other.bias is None else sign * other.bias) if b is not None]
    if len({b.shape for b in biases}) > 1:
        return None
    return Linear({**one.parts, **turned}, sum(biases[1:], biases[0]) if biases else None)


def _full(beside: Linear, number: float) -> Linear | None:
    """Broadcast a number to the width of a linear form; return None for zero or if the form has no arrays."""
    arrays = [array for array in (*beside.parts.values(), beside.bias) if array is not None]
    if not arrays:
        return None
    return Linear({}, np.full(arrays[0].shape[-1], number, arrays[0].dtype) if number else None)
