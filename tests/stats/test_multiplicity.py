"""Student's t far out, and intervals of differences that are told together."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from ortune.errors import OrtuneError
from ortune.stats.multiplicity import widths_together
from ortune.stats.student import t_chance, t_quantile


@pytest.mark.parametrize("df", [1, 2, 3, 4, 8, 29, 200])
def test_t_is_that_of_scipy(df: int) -> None:
    for chance in (0.8, 0.2, 0.05, 0.02, 1e-3, 1e-5, 1e-7):
        exact = scipy.stats.t.isf(chance / 2, df)
        assert t_quantile(1 - chance / 2, df) == pytest.approx(exact, rel=1e-5)
        assert t_chance([exact, -exact], df) == pytest.approx([chance, chance], rel=1e-5)
    assert t_chance([0.0, np.inf], df) == pytest.approx([1.0, 0.0])


def test_t_has_degrees_of_freedom() -> None:
    with pytest.raises(OrtuneError, match="degree of freedom"):
        t_chance([1.0], 0)
    with pytest.raises(OrtuneError, match="probability"):
        t_quantile(0.4, 3)


def test_one_difference_has_its_plain_interval_and_of_many_the_chosen_leave_out_zero() -> None:
    four = np.full(1, 4.9)  # rounded down
    assert widths_together(np.ones(1), np.ones(1), four) == pytest.approx([scipy.stats.t.isf(0.025, 4)])
    changes = np.array([9.0, -8.0, 2.1, 0.5, 0.0])
    widths = widths_together(changes, np.ones(5), np.full(5, 30.0))
    # Benjamini and Hochberg choose two; 2.1 alone would leave out 0.
    assert widths == pytest.approx(np.full(5, scipy.stats.t.isf(0.05 * 2 / 5 / 2, 30)))
    assert (np.abs(changes) > widths).tolist() == [True, True, False, False, False]
    assert widths_together(np.zeros(0), np.zeros(0), np.zeros(0)).tolist() == []


def test_what_never_varies_differs_where_it_differs_at_all() -> None:
    widths = widths_together(np.array([0.0, 1.0]), np.zeros(2), np.ones(2))
    assert widths.tolist() == [0.0, 0.0]
