"""Rows that have the same numbers in several columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from ortune.errors import UsageError
from ortune.trace.table import Floats, Numbers

Whole = np.ndarray[Any, np.dtype[Any]]

MOST_CELLS = 1 << 26
"""Of a table of nodes and runs: half a gibibyte, of which a profile needs some."""
TABLE = 1 << 20
"""Up to so many possible combinations (or four for each row) are looked up in a table, which needs no sorting."""


def combined(*columns: tuple[Whole, int]) -> tuple[Numbers, Numbers]:
    """Return number the distinct combinations of codes.

    Returns:
        The first row of each combination (combinations,), in the order of the numbers, and the combination of each
        row (rows,).
    """
    codes, size = columns[0]
    place, n = _dense(np.asarray(codes, dtype=np.int64), size)
    for codes, size in columns[1:]:
        # Without gaps after each column: the product of all sizes may not fit in 64 bits.
        place, n = _dense(place * size + codes, n * size)
    first = np.empty(n, dtype=np.int64)
    # Written from the last row to the first, which stays.
    first[place[::-1]] = np.arange(len(place) - 1, -1, -1)
    return first, place


def sums(rows: Whole, columns: Whole, values: Whole, shape: tuple[int, int]) -> Floats:
    """Sums values by table cell.

    Raises:
        UsageError: The table is larger than any profile's.
    """
    if shape[0] * shape[1] > MOST_CELLS:
        raise UsageError(
            f"the profile has {shape[0]:,} nodes in {shape[1]:,} runs, too many to compare run by run",
            do="profile fewer runs",
        )
    flat = np.bincount(rows * shape[1] + columns, weights=values, minlength=shape[0] * shape[1])
    return np.asarray(flat, dtype=np.float64).reshape(shape)


def _dense(keys: Numbers, size: int) -> tuple[Numbers, int]:
    """Return the keys, all below ``size``, numbered without gaps; and how many different ones there are."""
    if size > max(TABLE, 4 * len(keys)):
        different, place = np.unique(keys, return_inverse=True)
        return place.reshape(-1), len(different)
    # A table with a place for each key is faster than sorting, unless it is far larger than what is in it.
    there = np.zeros(size, dtype=bool)
    there[keys] = True
    numbers = np.cumsum(there, dtype=np.int64) - 1
    return numbers[keys], int(there.sum())
