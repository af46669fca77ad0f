"""A tuning that cannot end in an answer stops when that is known, not when its budget ends."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from facts import facts
from ortune.measuring.watcher import Watcher
from ortune.verbs.tune import run as tune
from simulated_machine import Lab, Weather, net, tools_of

pytestmark = pytest.mark.xdist_group("sessions")


def test_time_is_not_spent_on_what_cannot_be_confirmed(tmp_path: Path) -> None:
    lab, said = Lab(1, weather=Weather(crowd=20)), list[str]()
    with tools_of(lab):
        options = tune.Options(
            model=net(tmp_path), bundle=False, budget=200.0, store=tmp_path / "store", runtime=sys.executable
        )
        result = tune.run(options, Watcher(machine=lab.machine, say=said.append)).result
    assert result.elapsed_s < 50
    assert not result.budget.exploratory and not result.changes
    assert result.budget.enough_s > 200
    facts(result.headline, "nothing", "200 s", "--budget 360s")
    assert any("--budget 360s" in line for line in said)
