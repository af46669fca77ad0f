"""Slices of an output: the rows of a detector, classes, channels, time steps, each with an error of its own.

One number for a whole tensor hides its small parts: boxes of hundreds of pixels hide that all scores from 0 to 1 are
lost. So the distance is also computed for each slice along each axis of moderate length.

A slice that is small compared with the whole may be lost without harm: the background of a heat map, an absent class.
Values as small as its own are then lost in the other slices too. So a small slice counts if such values are
rare in the other slices, or are much more accurate there.

Along a longer axis, or of fewer elements, a slice has no error of its own, as places and pixels differ too. But whether
it is dead is judged there too: 3 lost rows among the 2,000 of a detector show in no other figure.
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
"""Of an axis: more are places, pixels or anchors, and no kinds of thing."""
FEWEST = 16
"""Elements of a slice whose error is taken."""
MOST_JUDGED, FEWEST_JUDGED = 32_768, 4
"""Slices of an axis, and elements of each, of which is judged whether they are dead: the anchors of a detector."""
MOST_RUNS = 256
"""Runs of dead slices of an axis that are kept."""
FLOOR_SHARE = 1e-3
"""Of the whole's root mean square: a slice that is smaller is compared as if it were as large."""
STANDS_OUT = 2.0
"""Times the error of the whole."""
LEAST = 1e-4
"""Relative L2 of a slice below which slices are not examined further."""
COMMON = 0.1
"""Share of the values elsewhere that lie in the range of a slice: with fewer its values are of a kind of their own."""
FARES_WORSE = 3.0
"""Times the largest error of such values elsewhere."""
MARGIN = 3.0
"""Times its spread, on either side of a slice's range: values there still tell how such values fare."""
STILL = 1e-3
"""Of the reference's spread: a candidate that spreads less is constant."""
LEAST_SPREAD = 1e-5
"""Of the whole's largest value: a reference that spreads less is constant itself."""
LOST = 0.1
"""Relative L2 of a slice from which on a constant is no approximation of it."""


@dataclass(slots=True)
class _Axis:
    """What is summed up of the slices along one axis."""

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
        """Whether the slices are too many or too short for an error of each."""
        return self.norm2.size > MOST_SLICES or self.n_elements < FEWEST

    def add(self, at: slice, old: Array, new: Array, error2: Array, norm2: Array) -> None:
        """Take in a box of finite values, their squared errors, and squares."""
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
    """Return the worst slice of an output, and those that are dead.

    Args:
        arrays: Reference and candidate, of one shape.
        types: Their ONNX types.
        relative_l2: The distance of the whole.

    Returns:
        None if no axis has slices of which something can be said; none if none is dead.
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
    # Along every axis the same elements are summed, so any one gives the whole.
    rms = math.sqrt(float(axes[0].norm2.sum()) / arrays[0].size)
    if not FLOOR <= rms < math.inf:
        return None, ()  # nearly nothing, or too much to square: distances tell little
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
    """Return the dead columns of rows in no fixed order, of which there may be more on a side; each column is sorted.

    Args:
        old: Rows of the reference.
        new: Rows of the candidate, as wide.
        axis: What the columns are called.
    """
    rows = min(len(old), len(new))
    if rows < FEWEST:
        return ()
    # Sorted columns are compared at equal shares of their length, which thins out the longer ones.
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
    """Return the relative L2 of each slice along an axis, whether it is dead, and whether it counts."""
    count = axis.n_elements
    peak = max(float(np.abs(axis.low).max()), float(np.abs(axis.high).max()))
    norms = np.sqrt(axis.norm2)
    # A slice of nearly nothing is measured against a thousandth of what an average slice holds.
    errors = np.sqrt(axis.error2) / np.maximum(norms, max(FLOOR_SHARE * rms, FLOOR) * math.sqrt(count))
    spread = axis.high - axis.low
    varies = spread > np.maximum(
        STILL * np.maximum(np.abs(axis.low), np.abs(axis.high)), max(LEAST_SPREAD * peak, FLOOR)
    )
    still = varies & (axis.new_high - axis.new_low <= STILL * spread) & (np.sqrt(axis.error2) > LOST * norms)
    apart = still | (errors > max(STANDS_OUT * relative_l2, LEAST))
    # A slice at least as large as the average counts; of a smaller one the values elsewhere decide.
    small = norms < rms * math.sqrt(count)
    doubtful = np.flatnonzero((still if axis.only_dead else apart) & small)
    counts = np.ones(errors.size, dtype=bool)
    if doubtful.size:
        counts[doubtful] = _on_its_own(axis, arrays, types, doubtful, ~apart)
    return errors, still & counts, counts


def _on_its_own(
    axis: _Axis, arrays: tuple[Array, Array], types: tuple[str, str], slices: Array, whole: Array
) -> Array:
    """Return whether values such as these slices have are rare elsewhere, or far better off there."""
    low, high = axis.low[slices], axis.high[slices]
    margin = MARGIN * (high - low)
    n_within, elsewhere, total = np.zeros(slices.size), np.zeros(slices.size), 0
    for box in blocks(arrays[0].shape):
        # Only slices that fare as the whole does tell how such values fare.
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
    """Return the largest of ``values[first:last]`` of many ranges; 0 of an empty one."""
    largest, lengths = np.zeros(first.size), last - first
    # Of each range its first and its last 2**k, which cover it: k by k, so that many ranges cost one pass each.
    of_power, power = values, 1
    while power <= lengths.max(initial=0):
        at = np.flatnonzero((lengths >= power) & (lengths < 2 * power))
        largest[at] = np.maximum(of_power[first[at]], of_power[last[at] - power])
        of_power, power = np.maximum(of_power[:-power], of_power[power:]), 2 * power
    return largest


def _within(box: tuple[slice, ...], axis: int) -> slice:
    """Return the part of an axis that a box covers."""
    return box[axis] if axis < len(box) else slice(None)


def _runs(axis: _Axis, errors: Array, dead: Array) -> Iterator[SliceError]:
    """Dead slices, neighbours as one."""
    zero = (axis.new_low == 0.0) & (axis.new_high == 0.0)
    at = np.flatnonzero(dead)
    # A run ends at a gap, and where zeros turn into another constant.
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
    """Dead slices, and what they are: "rows 4 to 11 of axis 1 are all zero"; of several runs the first three."""
    first = slices[0]
    alike = [error for error in slices if (error.axis, error.dead) == (first.axis, first.dead)]
    runs = [f"{e.first}" if e.first == e.last else f"{e.first} to {e.last}" for e in alike]
    least = "at least " if len(slices) >= MOST_RUNS else ""  # no more of them are kept
    shown = runs if len(runs) <= 3 else [*runs[:3], f"{least}{len(runs) - 3} more"]
    text = " and ".join(filter(None, [", ".join(shown[:-1]), shown[-1]]))
    one = len(alike) == 1 and first.first == first.last
    kind = "all zero" if first.dead == "zero" else "constant"
    return f"{'row' if one else 'rows'} {text} of axis {first.axis} {'is' if one else 'are'} {kind}"
