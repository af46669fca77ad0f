"""Figures that comparing outputs rests on: rows and their counterparts, moments, the leaves of maps."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ortune.outputs.files import CHUNK, Array, decode, pieces

FLOOR = 1e-5
"""An output smaller than this everywhere is compared as if it reached it."""

MOST_PAIRED = 2_000
"""Rows left for the search pair by pair, whose time grows with the square."""


def units_of(rows: Array, limit: float) -> Array:
    """Return the limit of each column: of two values that match, the difference is at most one of these."""
    finite = np.where(np.isfinite(rows), np.abs(rows), 0.0)
    return np.asarray(limit * np.maximum(finite.max(axis=0, initial=0.0), FLOOR))


def partners(old: Array, new: Array, unit: Array | None) -> tuple[list[int], list[int]]:
    """Return the rows of two sets that match one to one, as places in each.

    Args:
        old: Rows of the reference.
        new: Rows of the other side.
        unit: Of each column, the largest difference of two that match; None if they must be equal.
    """
    if unit is not None:
        # NaN and infinities become far values of their own, equal only to themselves.
        old, new = (np.nan_to_num(a / unit, nan=3e99, posinf=1e99, neginf=-1e99) for a in (old, new))
        # Adding 0.0 turns -0.0 into 0.0, which has other bytes.
        keys = [[row.tobytes() for row in np.round(a) + 0.0] for a in (old, new)]
    else:
        keys = [[tuple(row) for row in a.tolist()] for a in (old, new)]
    # Most rows fall into the same cell of a grid; those at its borders are searched pair by pair.
    # A row that occurs twice needs two partners.
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


def accepting(relative_l2: float, max_error: float) -> float:
    """Return the smallest of 1, 2 and 5 times a power of ten that accepts a difference as a tolerance."""
    # The largest error may be ten times the tolerance.
    least = max(relative_l2, 0.1 * max_error)
    # A difference of 0.0031 is tried against 0.001, 0.002 and 0.005, which accepts it.
    power = 10.0 ** math.floor(math.log10(least))
    return next(float(f"{m * power:.0e}") for m in (1.0, 2.0, 5.0, 10.0) if m * power > least)


def top1(arrays: tuple[Array, Array], types: tuple[str, str]) -> tuple[float, int] | None:
    """Share of the rows whose largest element is the same, and the number of rows; None for what has no such rows."""
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
    """Return how many elements are NaN or infinite, and how many of these no healthy model gives.

    Among finite numbers -infinity is the mask of a score, or the logarithm of 0.
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
    """Return mean and standard deviation of the finite values, and the number of others."""
    count = bad = 0
    mean = squares = 0.0
    for piece, _ in pieces(array, array):
        values = decode(piece, onnx_type).astype(np.float64)
        finite = values[np.isfinite(values)]
        bad += values.size - finite.size
        if finite.size:
            # Joins the sums of two pieces as Chan, Golub and LeVeque do: squares of large values are never
            # subtracted.
            step = float(finite.mean()) - mean
            total = count + finite.size
            squares += float(((finite - finite.mean()) ** 2).sum()) + step**2 * count * finite.size / total
            mean, count = mean + step * finite.size / total, total
    return mean, math.sqrt(squares / count) if count else 0.0, bad


def columns_of(maps: Any, labels: Sequence[str]) -> Array | None:
    """Return a list of maps from classes to numbers as a table, a row for each map and a column for each class.

    Args:
        maps: As read from JSON; all have the same keys.
        labels: The classes in the order of the columns; none for the order of the keys.

    Returns:
        None if the maps are no such table.
    """
    if not isinstance(maps, list) or not all(isinstance(entries, dict) for entries in maps):
        return None
    keys = set(maps[0]) if maps else set(labels)
    if labels and set(labels) != keys:
        return None
    # As numbers, class 10 comes after class 2.
    whole = all(key.removeprefix("-").isdigit() for key in keys)
    order = labels or sorted(keys, key=int if whole else str)
    rows = [[entries.get(key) for key in order] for entries in maps if entries.keys() == keys]
    if len(rows) < len(maps) or not all(isinstance(v, int | float) for row in rows for v in row):
        return None
    return np.array(rows, dtype=np.float64).reshape(len(maps), len(order))


def leaves(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every number and text inside lists and maps, with its place."""
    if isinstance(value, dict):
        for key in sorted(value):
            yield from leaves(value[key], f"{place}[{key!r}]")
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from leaves(item, f"{place}[{i}]")
    else:
        yield place, value
