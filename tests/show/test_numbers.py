"""A number never says more, or less, than what was measured."""

from __future__ import annotations

import pytest

from ortune.show.numbers import change, detectable, factor, interval_name, span
from ortune.show.profile_tables import unit_of


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


def test_an_interval_has_the_name_of_its_own_level() -> None:
    named = [interval_name(level) for level in (0.95, 0.96875, 0.990234, 0.9961)]
    assert named == ["95 % interval", "96.9 % interval", "99 % interval", "99.6 % interval"]


def test_an_effect_beyond_all_reason_cannot_be_told() -> None:
    assert [detectable(share) for share in (0.021, 0.662, None)] == ["2.1 %", "66.2 %", "not known"]
    assert detectable(82.14) == "cannot be told (above 100 %)"


def test_a_large_factor_has_three_digits() -> None:
    assert [factor(value) for value in (991.51, 66.67, 9.876, 1.004)] == ["992", "66.7", "9.88", "1.004"]


def test_what_rounds_to_nothing_has_no_sign() -> None:
    unit = unit_of(24.4e6)
    assert [unit.signed(ns) for ns in (-2e3, 0.0, -0.0, 2e6)] == ["+0.00", "+0.00", "+0.00", "+2.00"]
