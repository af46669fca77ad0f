"""A way to run a source that compiles first begins only where the budget holds it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ortune.measuring.budget import Budget
from ortune.verbs.compare.comparing import Comparing


def side(*, compiles: bool, elapsed_s: float = 0.0) -> Any:
    source = SimpleNamespace(compiles=compiles, called="PyTorch 2.13.0 (torch.compile)")
    trials = [SimpleNamespace(elapsed_ns=int(elapsed_s * 1e9))] if elapsed_s else []
    return SimpleNamespace(side=SimpleNamespace(runtime=SimpleNamespace(source=source)), trials=trials)


@pytest.mark.parametrize(
    ("base_s", "tried_s", "left_s", "begins"),
    [(0.3, 15.0, 31.0, True), (0.3, 15.0, 29.0, False), (15.0, 0.3, 29.0, False), (0.3, 0.3, -1.0, False)],
)
def test_it_needs_two_of_the_longest_trials_so_far(
    base_s: float, tried_s: float, left_s: float, begins: bool
) -> None:
    notes: list[str] = []
    compiled = side(compiles=True)
    comparing: Any = object.__new__(Comparing)
    comparing.news = [side(compiles=False, elapsed_s=tried_s), compiled]
    first = SimpleNamespace(elapsed_ns=int(base_s * 1e9))
    comparing.baseline = SimpleNamespace(pilot=SimpleNamespace(first=first), note=notes.append)
    comparing.budget = Budget(total_s=100.0, spent_ns=lambda: 1e9 * (100.0 - left_s))
    assert comparing._compiles_too_long(compiled) != begins
    assert (compiled in comparing.news) == begins
    assert bool(notes) != begins
    if notes:
        assert "torch.compile" in notes[0] and "compiles first" in notes[0]


def test_the_only_new_side_and_ways_that_do_not_compile_always_run() -> None:
    comparing: Any = object.__new__(Comparing)
    plain = side(compiles=False)
    comparing.news = [side(compiles=True)]
    assert not comparing._compiles_too_long(comparing.news[0])
    comparing.news = [plain, side(compiles=True)]
    assert not comparing._compiles_too_long(plain)
