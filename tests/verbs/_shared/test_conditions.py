"""How busy the machine was said to be: idle only where it was."""

from __future__ import annotations

import pytest

from ortune.records import Block, BlockTrial, CaseTimes, Measured, Plan, Sensors, TrialDone
from ortune.search.blocks import BASE
from ortune.search.state import Search
from ortune.verbs._shared.tuned import _conditions


@pytest.mark.parametrize(
    ("waited_us", "others_us", "load1", "said"),
    [
        (10_000, None, 1.9, "on an idle machine"),
        (10_000, None, 3.2, ""),  # a neighbour on another CPU, for which nobody waits
        (100_000, None, 1.9, ""),
        (400_000, None, 1.9, "on a busy machine"),
        (None, None, 1.9, ""),
        # The trials waited for each other, and the load is of before.
        (400_000, 20_000, 3.2, "on an idle machine"),
        (400_000, 400_000, 1.9, "on a busy machine"),
        (10_000, 900_000, 1.9, ""),
    ],
)
def test_conditions(waited_us: int | None, others_us: int | None, load1: float, said: str) -> None:
    case = CaseTimes(case="", weight=1.0, latency_ns=(10**6,), first_ns=10**6, warmup_runs=1)
    done = TrialDone(load_ns=1, cases=(case,), cpu_ns=1, wall_ns=1, n_runs=1)
    sensors = Sensors(
        load1=load1,
        psi_cpu_some_us=waited_us,
        others_cpu_us=others_us,
        cpu_over_wall=1.8,
        elapsed_ns=10**9,
    )
    trial = BlockTrial(arm=BASE, outcome=Measured(plan="", done=done, elapsed_ns=10**9, sensors=sensors))
    search = Search(race=None, default=Plan(), current=None)  # type: ignore[arg-type]
    search.calibration = [Block(index=0, phase="calibration", trials=(trial,))]
    assert _conditions(search) == said
