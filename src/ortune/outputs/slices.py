"""Errors of slices of an output: rows of a detector, classes, channels or time steps.

One error for a whole tensor hides small parts: boxes of hundreds of pixels hide the loss of all scores from 0 to 1. The
distance is therefore also computed for each slice along each axis of moderate length.

A slice that is small compared with the whole may be lost without harm: the background of a heat map, an absent class.
Values of the same size are then also lost in other slices. A small slice therefore counts only if such values are rare
in other slices, or are much more accurate there.

Slices along longer axes, or with fewer elements, have no separate error, since positions and pixels differ too. They
are still checked for being dead: 3 lost rows among the 2,000 of a detector show in no other measure.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import msgspec
import numpy as np

from ortune.outputs.figures import FLOOR
from ortune.outputs.files import Array, blocks, decode
from ortune.records import SliceError

MOST_SLICES = 256
"""Maximum number of slices per axis with separate errors; longer axes are positions, pixels or anchors."""
FEWEST = 16
"""Minimum number of elements of a slice with a separate error."""
MOST_JUDGED, FEWEST_JUDGED = 32_768, 4
"""Maximum number of slices per axis, and minimum number of elements per slice, for the check for dead slices."""
MOST_RUNS = 256
"""Maximum number of runs of dead slices kept per axis."""
FLOOR_SHARE = 1e-3
"""Minimum magnitude of a slice for its relative error, as a fraction of the whole output's root mean square."""
STANDS_OUT = 2.0
"""Minimum ratio of a slice's error to that of the whole output for further examination."""
LEAST = 1e-4
"""Minimum relative L2 distance of a slice for further examination."""
COMMON = 0.1
"""Minimum fraction of all values that must be in a slice's range for the range to be common."""
FARES_WORSE = 3.0
"""Minimum ratio of a slice's largest error to the largest error of similar values in other slices."""
MARGIN = 3.0
"""Margin around a slice's range of values, as a multiple of the range, within which other values are similar."""
STILL = 1e-3
"""Maximum ratio of a candidate slice's spread to that of the reference slice for the candidate to count as constant."""
LEAST_SPREAD = 1e-5
"""Maximum ratio of a reference slice's spread to the output's largest value for the slice to count as constant."""
LOST = 0.1
"""Minimum relative L2 distance at which a constant slice is dead, not an approximation."""


@dataclass(slots=True)
class _Axis:
    """Accumulated statistics of the slices along one axis."""

    axis: int
    n_elements: float
    error2: Array
    norm2: Array
    worst2: Array
    low: Array
    high: Array
    new_low: Array
    new_high: Array

    @classmethod
    def empty(cls, axis: int, n: int, n_elements: float) -> _Axis:
        up, down = np.full(n, np.inf), np.full(n, -np.inf)
        return cls(axis, n_elements, np.zeros(n), np.zeros(n), np.zeros(n), up, down, up.copy(), down.copy())

    @property
    def only_dead(self) -> bool:
        """Whether the slices are only checked for being dead: there are too many, or they are too short."""
        return self.norm2.size > MOST_SLICES or self.n_elements < FEWEST

    def add(self, at: slice, old: Array, new: Array, error2: Array, norm2: Array) -> None:
        """Add the finite values of a box, with squared errors ``error2`` and squared reference values ``norm2``."""
        others = tuple(i for i in range(old.ndim) if i != self.axis)
        self.error2[at] += error2.sum(axis=others)
        self.norm2[at] += norm2.sum(axis=others)
        self.worst2[at] = np.maximum(self.worst2[at], error2.max(axis=others))
        self.low[at] = np.minimum(self.low[at], old.min(axis=others))
        self.high[at] = np.maximum(self.high[at], old.max(axis=others))
        self.new_low[at] = np.minimum(self.new_low[at], new.min(axis=others))
        self.new_high[at] = np.maximum(self.new_high[at], new.max(axis=others))


def slice_errors(
    arrays: tuple[Array, Array], types: tuple[str, str], relative_l2: float
) -> tuple[SliceError | None, tuple[SliceError, ...]]:
    """Return the worst slice of an output, and the dead slices.

    Args:
        arrays: Reference and candidate, of the same shape.
        types: Their ONNX types.
        relative_l2: Relative L2 distance of the whole output.

    Returns:
        The worst slice, or None if no axis has slices to judge, and a tuple of dead slices.
    """
    shape = arrays[0].shape
    axes = [
        _Axis.empty(axis, n, arrays[0].size / n)
        for axis, n in enumerate(shape)
        if 2 <= n <= MOST_JUDGED and arrays[0].size >= FEWEST_JUDGED * n
    ]
    if not axes or types[0].startswith("complex"):
        return None, ()
    for box in blocks(shape):
        old, new = (decode(np.asarray(a[box]), t) for a, t in zip(arrays, types, strict=True))
        finite = np.isfinite(old) & np.isfinite(new)
        if not finite.all():
            old, new = np.where(finite, old, 0.0), np.where(finite, new, 0.0)
        with np.errstate(over="ignore"):
            error2, norm2 = np.square(new - old), np.square(old)
            for sums in axes:
                sums.add(_within(box, sums.axis), old, new, error2, norm2)
    # Every axis sums the same elements, so any one gives the whole.
    rms = math.sqrt(float(axes[0].norm2.sum()) / arrays[0].size)
    if not FLOOR <= rms < math.inf:
        return None, ()  # nearly zero, or too large to square: distances are not meaningful
    worst: list[SliceError] = []
    dead: list[SliceError] = []
    for sums in axes:
        errors, still, counts = _judged(sums, arrays, types, rms, relative_l2)
        dead += islice(_runs(sums, errors, still), MOST_RUNS)
        if not sums.only_dead and counts.any():
            at = int(np.where(counts, errors, -1.0).argmax())
            worst.append(SliceError(axis=sums.axis, first=at, last=at, relative_l2=float(errors[at])))
    return max(worst, key=lambda error: error.relative_l2, default=None), tuple(dead)


def dead_columns(old: Array, new: Array, *, axis: int) -> tuple[SliceError, ...]:
    """Return the dead columns of unordered rows; columns are sorted for comparison, and row counts may differ.

    Args:
        old: Rows of the reference.
        new: Rows of the candidate, of the same width.
        axis: Axis number of the columns in the result.
    """
    rows = min(len(old), len(new))
    if rows < FEWEST:
        return ()
    # Sorted columns are sampled at equal fractions of their length, which thins out the longer ones.
    places = [np.linspace(0, len(array) - 1, rows).round().astype(int) for array in (old, new)]
    a, b = (np.sort(array, axis=0)[at] for array, at in zip((old, new), places, strict=True))
    with np.errstate(over="ignore", invalid="ignore"):
        norm = float(np.linalg.norm(np.nan_to_num(a)))
        far = float(np.linalg.norm(np.nan_to_num(b - a))) / max(norm, FLOOR)
    _, dead = slice_errors((a, b), ("double", "double"), far)
    return tuple(msgspec.structs.replace(error, axis=axis) for error in dead if error.axis == 1)


def _judged(
    axis: _Axis, arrays: tuple[Array, Array], types: tuple[str, str], rms: float, relative_l2: float
) -> tuple[Array, Array, Array]:
    """Return, for each slice of an axis, its relative L2 distance, whether it is dead, and whether it counts."""
    count = axis.n_elements
    peak = max(float(np.abs(axis.low).max()), float(np.abs(axis.high).max()))
    norms = np.sqrt(axis.norm2)
    # A nearly empty slice is measured relative to a thousandth of an average slice.
    errors = np.sqrt(axis.error2) / np.maximum(norms, max(FLOOR_SHARE * rms, FLOOR) * math.sqrt(count))
    spread = axis.high - axis.low
    varies = spread > np.maximum(
        STILL * np.maximum(np.abs(axis.low), np.abs(axis.high)), max(LEAST_SPREAD * peak, FLOOR)
    )
    still = varies & (axis.new_high - axis.new_low <= STILL * spread) & (np.sqrt(axis.error2) > LOST * norms)
    apart = still | (errors > max(STANDS_OUT * relative_l2, LEAST))
    # A slice at least as large as the average counts; a smaller one is judged by values elsewhere.
    small = norms < rms * math.sqrt(count)
    doubtful = np.flatnonzero((still if axis.only_dead else apart) & small)
    counts = np.ones(errors.size, dtype=bool)
    if doubtful.size:
        counts[doubtful] = _on_its_own(axis, arrays, types, doubtful, ~apart)
    return errors, still & counts, counts


def _on_its_own(
    axis: _Axis, arrays: tuple[Array, Array], types: tuple[str, str], slices: Array, whole: Array
) -> Array:
    """Return, for each slice, whether values like its own are rare in other slices, or much more accurate there."""
    low, high = axis.low[slices], axis.high[slices]
    margin = MARGIN * (high - low)
    n_within, elsewhere, total = np.zeros(slices.size), np.zeros(slices.size), 0
    for box in blocks(arrays[0].shape):
        # Only slices that are as accurate as the whole are used for comparison.
        kept = whole[_within(box, axis.axis)]
        old, new = (
            np.compress(kept, decode(np.asarray(a[box]), t), axis=axis.axis).reshape(-1)
            for a, t in zip(arrays, types, strict=True)
        )
        order = np.argsort(old)
        old, error = old[order], np.nan_to_num(np.abs(new - old)[order])
        n_within += np.searchsorted(old, high, "right") - np.searchsorted(old, low, "left")
        first, last = np.searchsorted(old, low - margin, "left"), np.searchsorted(old, high + margin, "right")
        elsewhere = np.maximum(elsewhere, _largest(error, first, last))
        total += old.size
    rare = n_within < COMMON * max(1, total)
    return np.asarray(rare | (np.sqrt(axis.worst2[slices]) > FARES_WORSE * elsewhere))


def _largest(values: Array, first: Array, last: Array) -> Array:
    """Return the maximum of ``values[first:last]`` for each of many ranges; 0 for an empty range."""
    largest, lengths = np.zeros(first.size), last - first
    # Each range is covered by its first and last 2**k elements; one pass per k covers all ranges.
    of_power, power = values, 1
    while power <= lengths.max(initial=0):
        at = np.flatnonzero((lengths >= power) & (lengths < 2 * power))
        largest[at] = np.maximum(of_power[first[at]], of_power[last[at] - power])
        of_power, power = np.maximum(of_power[:-power], of_power[power:]), 2 * power
    return largest


def _within(box: tuple[slice, ...], axis: int) -> slice:
    """Return the range of an axis that a box covers."""
    return box[axis] if axis < len(box) else slice(None)


def _runs(axis: _Axis, errors: Array, dead: Array) -> Iterator[SliceError]:
    """Yield runs of neighbouring dead slices."""
    zero = (axis.new_low == 0.0) & (axis.new_high == 0.0)
    at = np.flatnonzero(dead)
    # A run ends at a gap, and at a change from zeros to another constant.
    breaks = np.flatnonzero((np.diff(at) != 1) | (zero[at[1:]] != zero[at[:-1]])) + 1
    for run in np.split(at, breaks) if at.size else ():
        yield SliceError(
            axis=axis.axis,
            first=int(run[0]),
            last=int(run[-1]),
            relative_l2=float(errors[run].max()),
            dead="zero" if zero[run[0]] else "constant",
        )


def in_words(slices: tuple[SliceError, ...]) -> str:
    """Describe dead slices, such as "rows 4 to 11 of axis 1 are all zero"; at most three runs of slices are listed."""
    first = slices[0]
    alike = [error for error in slices if (error.axis, error.dead) == (first.axis, first.dead)]
    runs = [f"{e.first}" if e.first == e.last else f"{e.first} to {e.last}" for e in alike]
    least = "at least " if len(slices) >= MOST_RUNS else ""  # no more of them are kept
    shown = runs if len(runs) <= 3 else [*runs[:3], f"{least}{len(runs) - 3} more"]
    text = " and ".join(filter(None, [", ".join(shown[:-1]), shown[-1]]))
    one = len(alike) == 1 and first.first == first.last
    kind = "all zero" if first.dead == "zero" else "constant"
    return f"{'row' if one else 'rows'} {text} of axis {first.axis} {'is' if one else 'are'} {kind}"
