"""Tests of what a budget holds: beside a busy neighbour a longer one is needed, and is given then alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class TooShort(AssertionError):
    """The budget did not hold what the test is about."""


def held(what: object, said: object = "") -> None:
    """Requires what only a longer budget may bring."""
    if not what:
        raise TooShort(said)


def with_budgets(run: Callable[[str], T], *budgets: str) -> T:
    """What ``run`` gives with the first of the budgets that is not too short."""
    for budget in budgets[:-1]:
        try:
            return run(budget)
        except TooShort:
            continue
    return run(budgets[-1])
