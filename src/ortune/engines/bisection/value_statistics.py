"""Statistics of one value of a run, and a sample of its elements on disk."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ortune.inputs.value_files import StoredValue
from ortune.outputs.files import Array, decode, family, load_array, pieces

KEPT = 1 << 18
"""Maximum number of elements in a sample, evenly spaced in the value."""

FARTHEST = 1e9
"""Relative L2 of values that cannot be compared: one is all zeros, or their finite elements differ in position."""

LONGEST_AXIS = 512
SLICE_FLOOR = 1e-3

_PRECISION = {"float16": 2.0**-7, "bfloat16": 2.0**-4, "double": 2.0**-46}
"""Precision by type, which allows for reordered sums: eight rounding steps for coarse types, 64 for others."""
_USUAL_PRECISION = 2.0**-17


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueStatistics:
    """Statistics and a sample of one value.

    Attributes:
        sample: ``.npy`` file with at most ``KEPT`` elements, in their stored type.
        n_nan, n_inf: Numbers of NaN and infinite elements.
        n_minus_inf: Number of negative infinities.
        figures: Norm, sum of magnitudes, sum, minimum and maximum of the finite elements, in this order.
    """

    onnx_type: str
    shape: tuple[int, ...]
    sample: Path
    n_nan: int
    n_inf: int
    n_minus_inf: int
    figures: tuple[float, ...]

    @property
    def size(self) -> int:
        """Number of elements of the value."""
        return math.prod(self.shape)

    @property
    def whole(self) -> bool:
        """Whether the sample contains every element."""
        return self.size <= KEPT

    def values(self) -> Array:
        """Return the sample as float64."""
        return decode(np.asarray(load_array(self.sample)), self.onnx_type).astype(np.float64)


def sample_value(value: StoredValue, sample: Path) -> ValueStatistics | None:
    """Sample a value from a worker's file, piece by piece; return None for strings and non-tensors."""
    if value.kind != "tensor" or value.onnx_type == "string":
        return None
    array = load_array(value.files[0])
    n_nan = n_inf = n_minus_inf = 0
    norm2 = sizes = total = 0.0
    low, high = math.inf, -math.inf
    for (piece,) in pieces(array):
        values = decode(piece, value.onnx_type).astype(np.float64)
        finite = values[np.isfinite(values)]
        n_nan += int(np.isnan(values).sum())
        n_inf += int(np.isinf(values).sum())
        n_minus_inf += int(np.isneginf(values).sum())
        if finite.size:
            with np.errstate(over="ignore"):
                norm2 += float(finite @ finite)
            sizes += float(np.abs(finite).sum())
            total += float(finite.sum())
            low, high = min(low, float(finite.min())), max(high, float(finite.max()))
    # Evenly spaced, so the samples of two values of one shape have the same elements.
    step = max(1, -(-array.size // KEPT))
    np.save(sample, np.ascontiguousarray(array.reshape(-1)[::step]), allow_pickle=False)
    # No element was finite: minimum and maximum still have their initial values.
    none = math.inf in (low, -high)
    return ValueStatistics(
        onnx_type=value.onnx_type,
        shape=tuple(array.shape),
        sample=sample,
        n_nan=n_nan,
        n_inf=n_inf,
        n_minus_inf=n_minus_inf,
        figures=(math.sqrt(norm2), sizes, total, 0.0 if none else low, 0.0 if none else high),
    )


def rounding_l2(a: ValueStatistics, b: ValueStatistics) -> float:
    """Return the relative L2 that rounding in the finer of both types explains, so that conversions are noticed."""
    return min(_PRECISION.get(value.onnx_type, _USUAL_PRECISION) for value in (a, b))


def relative_l2(
    a: ValueStatistics,
    b: ValueStatistics,
    *,
    any_order: bool = False,
    zero: float = 0.0,
    zero_b: float | None = None,
) -> float:
    """Return the relative L2 distance of two values of the same size.

    Args:
        a: The reference.
        b: The values compared with it.
        any_order: Compare sorted elements, for values in different layouts.
        zero: The integer that represents zero.
        zero_b: The integer that represents zero in B; None if it equals ``zero``.
    """
    # B's integers, shifted to A's zero point.
    old, new = a.values(), b.values() + (0.0 if zero_b is None else zero - zero_b)
    if old.size != new.size:
        return FARTHEST
    if any_order:
        old, new = np.sort(old), np.sort(new)
    finite = np.isfinite(old) & np.isfinite(new)
    rest = ~finite
    if ((old[rest] != new[rest]) & ~(np.isnan(old[rest]) & np.isnan(new[rest]))).any():
        return FARTHEST
    if (a.n_nan, a.n_inf) != (b.n_nan, b.n_inf):
        return FARTHEST
    with np.errstate(over="ignore"):
        error = float(np.linalg.norm(new[finite] - old[finite]))
        # Of the represented numbers, not of the integers.
        norm = float(np.linalg.norm(old[finite] - zero))
    # Before the norm is computed: zeros that stayed zeros are equal.
    if error == 0.0:
        return 0.0
    return FARTHEST if norm == 0.0 or not math.isfinite(error) else min(FARTHEST, error / norm)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorstSlice:
    """The slice along one axis, such as a channel or a row, with the largest difference."""

    relative_l2: float
    axis: int
    index: int


def worst_slice(a: ValueStatistics, b: ValueStatistics) -> WorstSlice | None:
    """Return the worst slice along any axis of moderate length; None without such axes or without complete samples.

    The error of a slice that is nearly zero is relative to a thousandth of the RMS norm of all slices.
    """
    if not (a.whole and b.whole) or a.shape != b.shape:
        return None
    old, new = (value.values().reshape(a.shape) for value in (a, b))
    if not (np.isfinite(old).all() and np.isfinite(new).all()):
        return None
    worst = None
    with np.errstate(over="ignore", invalid="ignore"):
        error2, norm2 = (new - old) ** 2, old**2
        for axis, length in enumerate(a.shape):
            if not 2 <= length <= LONGEST_AXIS or a.size == length:
                continue
            others = tuple(i for i in range(old.ndim) if i != axis)
            # Sums over all other axes: one figure for each slice.
            errors, norms = error2.sum(axis=others), norm2.sum(axis=others)
            floor = SLICE_FLOOR**2 * float(norms.mean())
            shares = errors / np.maximum(norms, floor) if floor else np.zeros(length)
            at = int(np.argmax(shares))
            share = math.sqrt(float(shares[at]))
            if math.isfinite(share) and (worst is None or share > worst.relative_l2):
                worst = WorstSlice(relative_l2=share, axis=axis, index=at)
    return worst


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """Difference of two values on one quantization grid, in steps.

    Attributes:
        most: Largest difference.
        typical: RMS of the differences.
        worst: RMS of the differences in the worst slice along any axis of moderate length.
        share: Fraction of elements that differ by half a step or more.
    """

    most: float
    typical: float
    worst: float
    share: float


def in_steps(a: ValueStatistics, b: ValueStatistics, step: float, moved: float = 0.0) -> Steps | None:
    """Return the difference in steps of a grid; None if the values cannot be compared.

    Args:
        a: The reference.
        b: The values compared with it.
        step: Step of the grid.
        moved: Zero point of A minus zero point of B.
    """
    old, new = a.values(), b.values() + moved
    if old.size != new.size or not old.size:
        return None
    apart = np.abs(new - old) / step
    if not np.isfinite(apart).all():
        return None
    # Not the largest: one element in a million may be rounded by a whole step without making the value wrong.
    typical = worst = float(np.sqrt((apart**2).mean()))
    if a.whole and b.whole and a.shape == b.shape:
        squares = (apart**2).reshape(a.shape)
        for axis, length in enumerate(a.shape):
            if 2 <= length <= LONGEST_AXIS and length < a.size:
                others = tuple(i for i in range(squares.ndim) if i != axis)
                worst = max(worst, float(np.sqrt(squares.mean(axis=others).max())))
    return Steps(
        most=float(apart.max()),
        typical=typical,
        worst=worst,
        share=float((apart >= 0.5).mean()),
    )


def differing_share(a: ValueStatistics, b: ValueStatistics) -> float:
    """Return the fraction of elements that differ, for integer values."""
    old, new = a.values(), b.values()
    return float((old != new).mean()) if old.size else 0.0


def may_be_equal(a: ValueStatistics, b: ValueStatistics, limit: float) -> bool:
    """Return whether the statistics of two values allow that they are equal, regardless of element order."""
    if (a.size, a.n_nan, a.n_inf) != (b.size, b.n_nan, b.n_inf):
        return False
    if family(a.onnx_type) != family(b.onnx_type):
        return False
    norm = max(a.figures[0], b.figures[0])
    # Sums of many elements are as large as the norm times the root of their number.
    root = math.sqrt(a.size)
    units = (norm, root * norm, root * norm, norm, norm)
    return all(abs(x - y) <= limit * unit for x, y, unit in zip(a.figures, b.figures, units, strict=True))
