"""What is tried on a recorded application, and what its blocks say."""

from __future__ import annotations

import numpy as np
import pytest

from ortune.records import AppRatio
from ortune.search import application as search
from ortune.search.application import ApplicationFacts


def seen(**more: object) -> ApplicationFacts:
    usual = {"cpus": 8, "processes": 1, "shareable": False, "pools": True, "arena_off": False}
    return ApplicationFacts(**{**usual, **more})  # type: ignore[arg-type]


def test_sharing_comes_before_pools_and_these_before_the_arena() -> None:
    found = search.stages(seen(shareable=True, arena_off=True))
    assert [sorted(stage[0]) for stage in found] == [
        ["share"], ["intra_op_num_threads"], ["enable_cpu_mem_arena"],
    ]  # fmt: skip
    # The number that ONNX Runtime would take is tried too: set explicitly, threads are not pinned.
    assert found[1] == [
        {"intra_op_num_threads": 1}, {"intra_op_num_threads": 8}, {"allow_spinning": False},
        {"intra_op_num_threads": 8, "allow_spinning": False},
    ]  # fmt: skip


def test_processes_share_the_cpus() -> None:
    (pools,) = search.stages(seen(processes=2))
    assert {"intra_op_num_threads": 4} in pools
    assert {"intra_op_num_threads": 4, "allow_spinning": False} in pools


def test_no_pool_is_shared_by_all_sessions_of_a_process() -> None:
    # Every session that keeps a pool of its own would then fail.
    tried = search.stages(seen(shareable=True, arena_off=True, many_shapes=True, processes=3))
    names = {name for stage in tried for change in stage for name in change}
    assert names == {
        "share", "intra_op_num_threads", "allow_spinning", "enable_cpu_mem_arena", "enable_mem_pattern"
    }  # fmt: skip


def test_what_cannot_help_is_not_tried() -> None:
    assert search.stages(seen(pools=False)) == []
    assert search.stages(seen(cpus=1)) == []


def test_a_ratio_is_of_the_same_block_and_has_an_interval_from_three_on() -> None:
    base = np.array([10.0, 20.0, 40.0, 10.0, 20.0, 40.0])
    halves = search.ratio_of(list(base / 2), list(base))
    assert (halves.value, halves.low, halves.high) == pytest.approx((0.5, 0.5, 0.5))
    assert search.ratio_of([1, 2], [2, 4]).high is None
    some = search.ratio_of([1, 1.1, 0.9], [2, 2, 2])
    assert some.low is not None and some.high is not None and some.low < 0.5 < some.high


def ratio(value: float, low: float, high: float, n: int = 6) -> AppRatio:
    return AppRatio(value=value, low=low, high=high, n_blocks=n)


EQUAL, LESS, MORE, WIDE = (
    ratio(1, 0.99, 1.01),
    ratio(0.5, 0.4, 0.6),
    ratio(1.2, 1.1, 1.3),
    ratio(0.9, 0.5, 1.6),
)


@pytest.mark.parametrize(
    ("cpu", "wall", "busy", "verdict"),
    [
        (LESS, WIDE, True, "faster"),
        (LESS, MORE, True, "not-shown"),
        (LESS, WIDE, False, "inconclusive"),
        (LESS, EQUAL, False, "faster"),
        (EQUAL, LESS, False, "faster"),
        (MORE, LESS, False, "not-shown"),
        (EQUAL, EQUAL, True, "not-shown"),
        (WIDE, LESS, True, "inconclusive"),
        (ratio(0.5, 0.4, 0.6, n=5), LESS, False, "inconclusive"),
        (AppRatio(value=0.5, n_blocks=6), LESS, True, "inconclusive"),
    ],
)
def test_on_a_busy_machine_cpu_time_decides_alone(
    cpu: AppRatio, wall: AppRatio, busy: bool, verdict: str
) -> None:
    assert search.judged(cpu, wall, busy=busy) == verdict


def test_recorded_settings_that_differ_from_themselves_are_seen() -> None:
    base = [1.0] * 12
    assert search.is_same([1.01, 0.99] * 6, base)
    assert not search.is_same([1.3] * 12, base)
