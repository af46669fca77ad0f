"""Measures for the comparison of outputs: matched rows, top-1 agreement, moments, values of maps."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ortune.outputs.files import CHUNK, Array, decode, pieces

FLOOR = 1e-5
"""Minimum magnitude of an output for relative errors; smaller outputs are compared as if they had this magnitude."""

MOST_PAIRED = 2_000
"""Maximum number of unmatched rows for the pairwise search, which takes quadratic time."""


def units_of(rows: Array, limit: float) -> Array:
    """Return the largest difference of matching values in each column: ``limit`` times its largest magnitude."""
    finite = np.where(np.isfinite(rows), np.abs(rows), 0.0)
    return np.asarray(limit * np.maximum(finite.max(axis=0, initial=0.0), FLOOR))


def partners(old: Array, new: Array, unit: Array | None) -> tuple[list[int], list[int]]:
    """Match the rows of two sets one to one; return the indices of the matched rows in ``old`` and in ``new``.

    Args:
        old: Rows of the reference.
        new: Rows of the candidate.
        unit: Largest difference of matching values, for each column; None if the values must be equal.
    """
    if unit is not None:
        # NaN and infinities become distinct large values, equal only to themselves.
        old, new = (np.nan_to_num(a / unit, nan=3e99, posinf=1e99, neginf=-1e99) for a in (old, new))
        # Adding 0.0 turns -0.0 into 0.0, which has different bytes.
        keys = [[row.tobytes() for row in np.round(a) + 0.0] for a in (old, new)]
    else:
        keys = [[tuple(row) for row in a.tolist()] for a in (old, new)]
    # Most rows fall into the same grid cell; others are searched pairwise. A row that occurs twice needs two
    # partners.
    free: dict[Any, list[int]] = defaultdict(list)
    for i in reversed(range(len(keys[0]))):
        free[keys[0][i]].append(i)
    pairs = [(free[key].pop(), j) for j, key in enumerate(keys[1]) if free.get(key)]
    left_old = sorted(set(range(len(old))) - {i for i, _ in pairs})
    left_new = sorted(set(range(len(new))) - {j for _, j in pairs})
    if unit is not None and max(len(left_old), len(left_new)) <= MOST_PAIRED:
        for row in left_new:
            if not left_old:
                break
            distance = np.abs(old[left_old] - new[row]).max(axis=1)
            nearest = int(distance.argmin())
            if distance[nearest] <= 1.0:
                pairs.append((left_old.pop(nearest), row))
    return [i for i, _ in pairs], [j for _, j in pairs]


def smallest_accepting(relative_l2: float, max_error: float) -> float:
    """Return the smallest tolerance that accepts a difference: 1, 2 or 5 times a power of ten."""
    # The limit of the largest error is ten times the tolerance.
    least = max(relative_l2, 0.1 * max_error)
    # For 0.0031, the candidates are 0.001, 0.002 and 0.005, of which the last accepts it.
    power = 10.0 ** math.floor(math.log10(least))
    return next(float(f"{m * power:.0e}") for m in (1.0, 2.0, 5.0, 10.0) if m * power > least)


def top1(arrays: tuple[Array, Array], types: tuple[str, str]) -> tuple[float, int] | None:
    """Return the fraction of rows whose largest element has the same index, and the number of rows; None without rows.

    Only non-empty outputs with two or three dimensions and at least two columns have rows.
    """
    old, _ = arrays
    if old.ndim not in (2, 3) or old.shape[-1] < 2 or not old.size or types[0].startswith("complex"):
        return None
    width = old.shape[-1]
    rows, step = old.size // width, max(1, CHUNK // width)
    agreeing = 0
    for start in range(0, rows, step):
        a, b = (
            decode(np.asarray(array.reshape(-1, width)[start : start + step]), onnx_type).argmax(axis=1)
            for array, onnx_type in zip(arrays, types, strict=True)
        )
        agreeing += int((a == b).sum())
    return agreeing / rows, rows


def nonfinite(array: Array, onnx_type: str) -> tuple[int, int]:
    """Return the number of NaN or infinite elements, and how many of these indicate an error.

    In an output with finite elements, -infinity is allowed as a masked score or the logarithm of 0.
    """
    finite = bad = masks = 0
    for (piece,) in pieces(array):
        values = piece if piece.dtype.kind in "fc" else decode(piece, onnx_type)
        some = int(np.isfinite(values).sum())
        finite, bad = finite + some, bad + values.size - some
        if some < values.size and values.dtype.kind == "f":
            masks += int(np.isneginf(values).sum())
    return bad, bad - masks if finite else bad


def moments(array: Array, onnx_type: str) -> tuple[float, float, int]:
    """Return the mean and standard deviation of the finite values, and the number of non-finite values."""
    count = bad = 0
    mean = squares = 0.0
    for piece, _ in pieces(array, array):
        values = decode(piece, onnx_type).astype(np.float64)
        finite = values[np.isfinite(values)]
        bad += values.size - finite.size
        if finite.size:
            # Sums of two pieces are combined as in Chan, Golub and LeVeque, which avoids subtracting large squares.
            step = float(finite.mean()) - mean
            total = count + finite.size
            squares += float(((finite - finite.mean()) ** 2).sum()) + step**2 * count * finite.size / total
            mean, count = mean + step * finite.size / total, total
    return mean, math.sqrt(squares / count) if count else 0.0, bad


def columns_of(maps: Any, labels: Sequence[str]) -> Array | None:
    """Return maps from classes to numbers as a table with one row per map and one column per class.

    Args:
        maps: The maps, as read from JSON.
        labels: Classes in column order; empty for key order.

    Returns:
        The table; None if keys differ between maps or from ``labels``, or values are not numbers.
    """
    if not isinstance(maps, list) or not all(isinstance(entries, dict) for entries in maps):
        return None
    keys = set(maps[0]) if maps else set(labels)
    if labels and set(labels) != keys:
        return None
    # In numerical order, class 10 comes after class 2.
    whole = all(key.removeprefix("-").isdigit() for key in keys)
    order = labels or sorted(keys, key=int if whole else str)
    rows = [[entries.get(key) for key in order] for entries in maps if entries.keys() == keys]
    if len(rows) < len(maps) or not all(isinstance(v, int | float) for row in rows for v in row):
        return None
    return np.array(rows, dtype=np.float64).reshape(len(maps), len(order))


def leaves(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (path, value) for each number and text in nested lists and maps."""
    if isinstance(value, dict):
        for key in sorted(value):
            yield from leaves(value[key], f"{place}[{key!r}]")
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from leaves(item, f"{place}[{i}]")
    else:
        yield place, value
