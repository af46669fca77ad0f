"""What executions take when nothing disturbs them: other programs move the mean, and not the nearness to the peak."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ortune.engines.profiling.nodes import NodeOrigins
from ortune.engines.profiling.result import result_of
from ortune.records import MachinePeak, ProfileResult
from ortune.trace import fast_end
from ortune.trace.attribution import attribute
from ortune.trace.ort_profile import read_profile
from trace_files import node, profile, run

PEAK = MachinePeak(
    cpu="A Processor", flops_per_s={1: 100e9}, int8_ops_per_s={}, bytes_per_s={1: 20e9}, cache_bytes=1 << 20
)
RUNS = 40
WORK = NodeOrigins(work={"conv": (80e6, 1e3), "product": (20e6, 1e3)})
"""800 us and 200 us of this machine at its peak."""


def profiled(path: Path, disturbed: float) -> ProfileResult:
    """Two nodes of 1000 us and 400 us, of which that share of executions is disturbed."""
    dice, events, now = random.Random(1), [], 0.0
    for _ in range(RUNS):
        start, now = now, now + 5
        for name, op, took in (("conv", "Conv", 1000), ("product", "MatMul", 400)):
            # Where another program has the CPU of a thread, its part is late and the others wait for it.
            extra = dice.uniform(500, 9000) if dice.random() < disturbed else 0
            events.append(node(name, op, now, took + extra, wait=round(40 + extra)))
            now += took + extra
        now += 5
        events.append(run(start, now - start))
    trace = read_profile(profile(path / "p.json", *events))
    return result_of("", trace, attribute(trace, range(trace.n_runs)), 0, WORK, PEAK)


@pytest.mark.parametrize("disturbed", [0.0, 0.3, 0.8])
def test_executions_that_are_disturbed_do_not_move_the_share_of_the_peak(
    tmp_path: Path, disturbed: float
) -> None:
    found = profiled(tmp_path, disturbed)
    assert found.headroom is not None
    assert found.headroom.kernels_ratio == pytest.approx(1000 / (1400 - 80), abs=0.001)
    assert found.headroom.parts["thread-wait"] == pytest.approx(80 / 1410, abs=0.001)
    assert found.headroom.parts["between-nodes"] == pytest.approx(10 / 1410, abs=0.001)
    assert {n.name: round(n.least_ns / (n.floor_ns or 1), 2) for n in found.nodes} == {
        "conv": 1.25,
        "product": 2.0,
    }
    assert found.fast_ns == pytest.approx(1410e3)
    # The rest is told as what it is.
    assert (found.wall_ns > 1.5 * 1410e3) == (disturbed > 0)
    assert found.wall_ns == pytest.approx(sum(c.ns for c in found.categories))


def of(*rows: tuple[int, int, int, float], shape: tuple[int, int], wait: float = 0.0) -> Any:
    """Fast ends of rows (node, run, start, own)."""
    columns = [np.array(each) for each in zip(*rows, strict=True)]
    own = columns[3].astype(np.float64)
    return fast_end.of_nodes(columns[0], columns[1], columns[2], own, wait * own, shape)


def test_executions_of_a_run_are_held_against_those_at_the_same_place_of_other_runs() -> None:
    # The second execution does three times the work of the first, in whatever order the file has them.
    rows = [(0, r, 10 * r + k, took) for r in range(3) for k, took in ((1, 30.0 + r), (0, 10.0 + r))]
    fast, wait = of(*rows, shape=(2, 3), wait=0.5)
    assert fast.tolist() == [40.0, 0.0] and wait.tolist() == [20.0, 0.0]


def test_what_only_some_runs_execute_counts_as_often() -> None:
    rows = [(0, 0, 0, 10.0), (0, 0, 1, 8.0), (0, 1, 0, 12.0)]
    fast, _ = of(*rows, shape=(1, 2))
    assert fast.tolist() == [10.0 + 8.0 / 2]


def test_the_fastest_twentieth_and_at_least_one() -> None:
    assert of(*((0, r, 0, float(1 + r)) for r in range(60)), shape=(1, 60))[0].tolist() == [2.0]
    assert fast_end.of_rows(np.array([[3.0, 1.0, 2.0]])).tolist() == [1.0]
    assert fast_end.of_rows(np.zeros((2, 0))).tolist() == [0.0, 0.0]
    empty = np.zeros(0, dtype=np.int64)
    assert fast_end.of_nodes(empty, empty, empty, np.zeros(0), np.zeros(0), (2, 1))[0].tolist() == [0.0, 0.0]
