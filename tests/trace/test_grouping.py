"""Combinations of columns and sums of tables, against the plain ways to get them."""

from __future__ import annotations

import numpy as np
import pytest

from ortune.trace.grouping import TABLE, combined, sums
from ortune.trace.operators import groups
from ortune.trace.table import Labels


@pytest.mark.parametrize("sizes", [(7,), (7, 3), (50, 4, 3), (10 * TABLE, 3), (2**31, 2**31, 2**31)])
def test_combinations_are_those_of_sorted_rows(sizes: tuple[int, ...]) -> None:
    """Few combinations are looked up, many are sorted; a product of sizes may be beyond 64 bits."""
    rng = np.random.default_rng(len(sizes))
    columns = [rng.integers(0, size, 500) for size in sizes]
    columns = [np.concatenate([column, column[:100]]) for column in columns]
    first, place = combined(*zip(columns, sizes, strict=True))
    rows = np.stack(columns, axis=1)
    unique, index, inverse = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    assert len(first) == len(unique) and set(first.tolist()) == set(index.tolist())
    assert (rows[first][place] == rows).all()
    # The same partition, whatever it is numbered by.
    assert len({*zip(place.tolist(), inverse.reshape(-1).tolist(), strict=True)}) == len(unique)


def test_no_rows_have_no_combinations() -> None:
    nothing = np.empty(0, dtype=np.int64)
    first, place = combined((nothing, 0), (nothing, 5))
    assert len(first) == len(place) == 0


def test_groups_are_in_order_of_their_texts() -> None:
    one = Labels(codes=np.array([0, 1, 0, 2], dtype=np.int32), texts=("b", "a", "c", "never"))
    two = Labels(codes=np.array([0, 0, 1, 0], dtype=np.int32), texts=("x", "w"))
    keys, rows = groups(one, two)
    assert keys == [("a", "x"), ("b", "w"), ("b", "x"), ("c", "x")]
    assert rows.tolist() == [2, 0, 1, 3]


def test_sums_of_a_table() -> None:
    rng = np.random.default_rng(3)
    rows, columns, values = rng.integers(0, 5, 99), rng.integers(0, 4, 99), rng.random(99)
    expected = np.zeros((5, 4))
    np.add.at(expected, (rows, columns), values)
    assert np.allclose(sums(rows, columns, values, (5, 4)), expected)
    assert sums(rows[:0], columns[:0], values[:0], (5, 0)).shape == (5, 0)
