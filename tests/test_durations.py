"""A duration is read in the unit that fits, and typed so that it holds what it stands for."""

from __future__ import annotations

import pytest

from ortune.durations import as_option, in_words
from ortune.show.numbers import duration
from ortune.verbs._shared.quantities import seconds


@pytest.mark.parametrize(
    ("length_s", "text"),
    [(0.4, "0 s"), (45, "45 s"), (599.4, "599 s"), (599.6, "10 min"), (5490, "92 min"), (12600, "3.5 h")],
)
def test_a_long_time_is_told_in_minutes_and_hours(length_s: float, text: str) -> None:
    assert in_words(length_s) == text


@pytest.mark.parametrize("length_s", [0.2, 60, 142, 599, 600, 601, 5490, 12600])
def test_a_budget_that_is_typed_is_never_less(length_s: float) -> None:
    typed = seconds(as_option(length_s), "--budget")
    assert length_s <= typed < length_s + 60
    assert as_option(5490) == "92m"


def test_a_measured_time_of_many_minutes_is_told_so_too() -> None:
    assert [duration(ns) for ns in (1.2e9, 9.99e11, 5.49e12)] == ["1.20 s", "999 s", "92 min"]
