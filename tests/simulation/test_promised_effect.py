"""The effect that ``doctor`` promises for a minute is the one that a comparison of a minute reports."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from ortune.measuring.watcher import Watcher
from ortune.verbs.compare import run as compare
from ortune.verbs.doctor import run as doctor
from simulated_machine import Lab, Weather, net, tools_of

pytestmark = pytest.mark.xdist_group("sessions")


def promised(seed: int, folder: Path) -> float:
    """Return the effect that is promised for a minute."""
    lab = Lab(seed, differ=False)
    folder.mkdir()
    with tools_of(lab):
        options = doctor.Options(model=net(folder), store=folder / "store", runtime=sys.executable)
        noise = doctor.run(options, Watcher(machine=lab.machine)).result.noise
    assert noise is not None and not noise.busy
    (row,) = [row for row in noise.table if row.minutes == 1.0]
    assert row.smallest_effect_ratio is not None
    return row.smallest_effect_ratio


def reported(seed: int, folder: Path) -> float:
    """Return the minimum detectable effect of a comparison of equal sides in a minute."""
    lab = Lab(seed, differ=False)
    folder.mkdir()
    with tools_of(lab):
        options = compare.Options(
            a=net(folder),
            b_set=("intra=3",),
            budget=60.0,
            store=folder / "store",
            runtime=sys.executable,
            no_why=True,
        )
        comparison = compare.run(options, Watcher(machine=lab.machine)).result.comparison
    assert comparison is not None and comparison.smallest_effect_ratio is not None
    return comparison.smallest_effect_ratio


@pytest.mark.parametrize("seeds", [(1,), pytest.param(range(10), marks=pytest.mark.long)], ids=["one", "ten"])
def test_what_doctor_promises_is_what_compare_reports(seeds: Iterable[int], tmp_path: Path) -> None:
    promises = [promised(seed, tmp_path / f"doctor{seed}") for seed in seeds]
    reports = [reported(seed + 50, tmp_path / f"compare{seed}") for seed in seeds]
    ratios = [mine / its for mine, its in zip(promises, reports, strict=True)]
    assert abs(float(np.median(np.log(ratios)))) < math.log(1.5), ratios


def test_a_gate_promises_no_finer_change_than_the_comparison_shows(tmp_path: Path) -> None:
    lab = Lab(3, differ=False, weather=Weather(neighbour=3.0))
    with tools_of(lab):
        options = compare.Options(
            a=net(tmp_path),
            b_set=("intra=3",),
            budget=100.0,
            max_blocks=6,
            threshold="5%",
            store=tmp_path / "store",
            runtime=sys.executable,
            no_why=True,
        )
        result = compare.run(options, Watcher(machine=lab.machine)).result
    assert result.gate is not None and result.comparison is not None
    promised, seen = result.gate.provable_ratio, result.comparison.smallest_effect_ratio
    assert promised is not None and seen is not None and promised >= seen
