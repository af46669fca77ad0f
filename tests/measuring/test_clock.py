"""The clock of an invocation: it runs from the start of the process, and stands still while another measures."""

from __future__ import annotations

import math
import time
from pathlib import Path

import pytest

from ortune import launcher
from ortune.measuring.budget import UNLIMITED, Budget
from ortune.measuring.clock import Stopwatch
from ortune.measuring.exclusive import exclusive
from ortune.measuring.pace import Pace
from ortune.measuring.watcher import Watcher
from ortune.store import lock


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The monotonic clock, which goes where it is set."""
    at = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: at[0])
    return at


def test_what_is_spent_counts_from_the_start_and_may_pass_the_budget(now: list[float]) -> None:
    watch = Stopwatch(97.0)
    budget = Budget(total_s=10.0, spent_ns=lambda: int(1e9 * watch.spent_s))
    assert (budget.spent_s, budget.left_s) == pytest.approx((3.0, 7.0))
    now[0] = 112.0
    assert (budget.spent_s, budget.left_s) == pytest.approx((15.0, -5.0))


def test_a_budget_says_which_trials_it_holds_and_which_budget_would_hold_more() -> None:
    whole = Budget(total_s=100.0, spent_ns=lambda: 20e9, elapsed_ns=lambda: 25e9)
    budget = whole.reserve(10.0)
    assert (whole.left_s, budget.left_s, budget.left_ns, budget.running.left_s) == (80.0, 70.0, 70e9, 65.0)
    assert budget.trials(2e9) == 35.0 and budget.holds(35, 2e9) and not budget.holds(36, 2e9)
    assert budget.needed_s(50, 2e9) == pytest.approx(20 + 100 + 10)
    assert budget.needed_s(50, 2e9, before_s=0.0) == pytest.approx(100 + 10)
    assert budget.share(0.5).left_s == pytest.approx(35.0)
    assert UNLIMITED.share(0.5).holds(1e12, 1e12) and UNLIMITED.reserve(5.0).left_s == math.inf
    assert [whole.enough_s(seconds) for seconds in (1.0, 24.0, 26.0)] == [10, 30, 40]


def test_waiting_for_another_ortune_costs_nothing_and_measuring_does(
    now: list[float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORTUNE_LOCK", str(tmp_path / "lock"))
    watch = Watcher(step=lambda step: now.__setitem__(0, now[0] + 30.0))

    def other_ends(_: float) -> None:
        other.__exit__(None, None, None)

    other = lock.measuring("compare", wait=False, say=lambda text: None)
    other.__enter__()
    monkeypatch.setattr("time.sleep", other_ends)
    now[0] += 2.0
    with exclusive("tune", watch, wait=True):
        now[0] += 5.0
    assert now[0] == 137.0
    assert watch.clock.spent_s == 7.0


def test_a_process_knows_when_it_was_started() -> None:
    started_s = launcher.started_s()
    assert started_s <= time.monotonic()
    assert abs(launcher.started_s() - started_s) < 1.0  # the same, whenever it is asked


def test_a_unit_of_work_begins_where_the_longest_so_far_fits(now: list[float]) -> None:
    pace = Pace(lambda: 110.0 - now[0])
    for takes_s in (1.0, 4.0, 2.0):
        assert pace.begins(f"takes {takes_s}")
        now[0] += takes_s
    assert not pace.begins("the next")  # 3 s are left, and one took 4
    assert not pace.begins("another")
    assert pace.left_out == ["the next", "another"]
    assert pace.needed_s(20.0) == pytest.approx(20.0 + 2 * 7.0 / 3)
    assert pace.needed_s(20.0, share=0.5) == pytest.approx(20.0 + 4 * 7.0 / 3)


def test_one_unit_that_was_stopped_does_not_stand_for_all_others(now: list[float]) -> None:
    pace = Pace(lambda: 110.0 - now[0])
    for takes_s in (*[0.1] * 30, 5.0):
        assert pace.begins("a rule")
        now[0] += takes_s
    assert pace.begins("the next")  # 2 s are left
    now[0] += 5.0
    assert not pace.begins("another")  # nothing is left
    pace = Pace(lambda: 130.0 - now[0])
    for takes_s in (*[0.1] * 30, 5.0, 5.0):
        assert pace.begins("a rule")
        now[0] += takes_s
    assert not pace.begins("the next")  # 4 s are left, and two took 5


def test_nothing_begins_once_the_time_is_over(now: list[float]) -> None:
    pace = Pace(lambda: 100.0 - now[0])
    assert not pace.begins("the first")
    assert (pace.left_out, pace.needed_s(20.0)) == (["the first"], 40.0)


def test_what_is_read_once_for_all_units_tells_nothing_of_them(now: list[float]) -> None:
    """On a busy machine it may take longer than everything else together."""
    pace = Pace(lambda: 103.0 - now[0], least_s=1.5, once="every rule")
    assert pace.begins("every rule")
    now[0] += 5.0  # past the end of the time
    for number in range(3):
        assert pace.begins(f"rule {number}")
        now[0] += 0.4
    assert not pace.begins("rule 3")  # 0.3 s of the least are left, and one takes 0.4
    assert pace.left_out == ["rule 3"]
    assert pace.needed_s(20.0) == pytest.approx(20.4)
    pace = Pace(lambda: 106.2 - now[0], once="every rule")
    assert not pace.begins("every rule")
    assert pace.needed_s(20.0) == 40.0
    # Where it is known how long that takes, it begins only if it fits.
    for fits, once_s in ((True, 2.0), (False, 3.0)):
        pace = Pace(lambda: 2.5, once="every rule", once_s=once_s)
        assert pace.begins("every rule") is fits
