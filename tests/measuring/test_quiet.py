"""Waiting for a quiet machine: until other programs are gone, never longer than was asked, and never of the budget."""

from __future__ import annotations

import pytest

from facts import facts
from ortune.errors import UsageError
from ortune.measuring.clock import Stopwatch
from ortune.measuring.quiet import LASTS_S, wait_for_quiet
from ortune.measuring.watcher import Watcher
from ortune.platform import SensorSnapshot
from ortune.show.message_words import text
from ortune.verbs.compare.options import Options
from simulated_machine import Lab, Weather, tools_of


def waited(lab: Lab, limit_s: float, stop: bool = False) -> tuple[str, float, float]:
    """What it said, how long it took, and what of that the budget lost."""
    with tools_of(lab):
        clock, began_s = Stopwatch(), lab.now_s
        watch = Watcher(machine=lab.machine, clock=clock, stop=lambda: stop)
        (message,) = wait_for_quiet(lab.machine(), limit_s, watch)
        return text(message), lab.now_s - began_s, clock.spent_s


def test_it_ends_once_other_programs_were_gone_for_a_while() -> None:
    lab = Lab(0, weather=Weather(loops=2, until_s=1030.0))
    said, took_s, spent_s = waited(lab, 600.0)
    facts(said, "waited", "quiet machine", "0.0 of 4 CPUs")
    assert 30.0 + LASTS_S <= took_s <= 32.0 + LASTS_S and spent_s == 0.0


def test_a_quiet_machine_is_not_waited_for() -> None:
    said, took_s, _ = waited(Lab(0), 600.0)
    facts(said, "quiet machine", "0.0 of 4 CPUs")
    assert took_s <= LASTS_S + 1.0


def test_a_machine_that_stays_busy_is_measured_after_the_limit_and_that_is_said() -> None:
    said, took_s, spent_s = waited(Lab(0, weather=Weather(loops=2)), 60.0)
    facts(said, "still busy", "2.0 of 4 CPUs")
    assert 60.0 <= took_s <= 62.0 and spent_s == 0.0


def test_a_stop_ends_the_wait() -> None:
    _, took_s, _ = waited(Lab(0, weather=Weather(loops=2)), 600.0, stop=True)
    assert took_s <= 2.0


def test_a_system_that_does_not_tell_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab(0)
    machine = lab.machine()
    monkeypatch.setattr(type(machine), "sensors", lambda self: SensorSnapshot())
    (message,) = wait_for_quiet(machine, 600.0, Watcher(machine=lab.machine))
    facts(text(message), "--wait-quiet has no effect")


def test_without_the_option_nothing_is_waited_for() -> None:
    assert wait_for_quiet(Lab(0).machine(), 0.0, Watcher()) == []
    assert Options(a="m.onnx").wait_quiet_s == 0.0
    assert Options(a="m.onnx", wait_quiet="10m").wait_quiet_s == 600.0
    with pytest.raises(UsageError):
        Options(a="m.onnx", wait_quiet="long")
