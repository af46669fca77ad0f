"""A number never says more, or less, than what was measured."""

from __future__ import annotations

import pytest

from ortune.report.numbers import change, span


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (0.981, "-1.9 %"),
        (1.0, "+0.0 %"),
        (41.0, "+4000.0 %"),
        (0.0006, "-99.9 %"),
        (0.0004, "-99.96 %"),
        (0.00003, "-99.997 %"),
        (0.000003, "-99.9997 %"),
        (0.0, "-100.0 %"),
    ],
)
def test_a_change_takes_all_of_it_away_only_where_nothing_is_left(ratio: float, text: str) -> None:
    assert change(ratio) == text


def test_an_end_that_nothing_bounds_is_no_number() -> None:
    assert span(0.0, None) == "no bound"
    assert span(0.0, 1.2) == "up to +20.0 %"
    assert span(0.00004, 1.2) == "-99.996 % to +20.0 %"
    assert span(0.9, None) == "-10.0 % or more"
