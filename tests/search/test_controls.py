"""What a calibration chooses to compare."""

from __future__ import annotations

import numpy as np
import pytest

from ortune.records import Block, BlockTrial, CaseTimes, Measured, TrialDone
from ortune.search import controls
from ortune.search.blocks import BASE, IDENTICAL, SPIKE
from ortune.search.figures import PAIRED


def calibration(runs: int, rounds: int = 6) -> list[Block]:
    """Nine blocks in which the fastest runs are all alike and the rounds are not: the tenth percentile is steadiest."""
    rng = np.random.default_rng(8)
    blocks = []
    for index in range(controls.CALIBRATION_BLOCKS):
        trials = []
        for arm in (BASE, IDENTICAL, SPIKE):
            n = runs * rounds
            times = 1e6 * (1 + 0.5 * np.abs(rng.standard_normal(n)))
            times[::7] = 1e6
            wait = 0.05 if arm == SPIKE else 0.0
            case = CaseTimes(
                case="x",
                weight=1.0,
                latency_ns=tuple(int(t * (1 + wait)) for t in times),
                first_ns=10**6,
                turn_runs=(runs,) * rounds,
                waits_ns=tuple(int(t * wait) for t in times),
            )
            done = TrialDone(
                load_ns=10**7, cases=(case,), cpu_ns=10**8, wall_ns=10**8, n_runs=n, peak_bytes=10**8
            )
            trials.append(BlockTrial(arm=arm, outcome=Measured(plan=arm, done=done, elapsed_ns=10**9)))
        blocks.append(Block(index=index, phase="calibration", trials=tuple(trials)))
    return blocks


@pytest.mark.parametrize(("runs", "chosen"), [(8, {"p10"}), (2, set(PAIRED))])
def test_a_tenth_percentile_wants_runs_enough(runs: int, chosen: set[str]) -> None:
    assert controls.judge(calibration(runs), None).statistic in chosen
