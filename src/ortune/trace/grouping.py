"""Grouping of rows by equal codes in several columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from ortune.errors import UsageError
from ortune.trace.table import Floats, Numbers

Whole = np.ndarray[Any, np.dtype[Any]]

MOST_CELLS = 1 << 26
"""Maximum number of cells in a table of nodes and runs: half a gibibyte, far more than a profile needs."""
TABLE = 1 << 20
"""Maximum number of combinations (or four per row, if larger) for which a lookup table replaces sorting."""


def combined(*columns: tuple[Whole, int]) -> tuple[Numbers, Numbers]:
    """Number the distinct combinations of codes in several columns, given as (column, number of codes) pairs.

    Returns:
        The first row of each combination (combinations,), in numbering order, and the combination of each row (rows,).
    """
    codes, size = columns[0]
    place, n = _dense(np.asarray(codes, dtype=np.int64), size)
    for codes, size in columns[1:]:
        # Renumbered without gaps after each column, since the product of all sizes may exceed 64 bits.
        place, n = _dense(place * size + codes, n * size)
    first = np.empty(n, dtype=np.int64)
    # Written from the last row to the first, which remains.
    first[place[::-1]] = np.arange(len(place) - 1, -1, -1)
    return first, place


def sums(rows: Whole, columns: Whole, values: Whole, shape: tuple[int, int]) -> Floats:
    """Sum values by table cell, into an array of ``shape``.

    Raises:
        UsageError: If the table exceeds ``MOST_CELLS``.
    """
    if shape[0] * shape[1] > MOST_CELLS:
        raise UsageError(
            f"the profile has {shape[0]:,} nodes in {shape[1]:,} runs, too many to compare run by run",
            do="profile fewer runs",
        )
    flat = np.bincount(rows * shape[1] + columns, weights=values, minlength=shape[0] * shape[1])
    return np.asarray(flat, dtype=np.float64).reshape(shape)


def _dense(keys: Numbers, size: int) -> tuple[Numbers, int]:
    """Renumber keys below ``size`` without gaps; return them with the number of distinct keys."""
    if size > max(TABLE, 4 * len(keys)):
        different, place = np.unique(keys, return_inverse=True)
        return place.reshape(-1), len(different)
    # A table with an entry per key is faster than sorting, unless most entries are unused.
    there = np.zeros(size, dtype=bool)
    there[keys] = True
    numbers = np.cumsum(there, dtype=np.int64) - 1
    return numbers[keys], int(there.sum())
