"""Causes of memory that rises: which changes are tried, and what their processes tell."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ortune.inputs.played import Script
from ortune.measuring.application_soak import PlayedArm
from ortune.measuring.executor import Arm
from ortune.measuring.soak_experiments import experiments, groups
from ortune.measuring.soaking import SoakArm, SoakedProcess
from ortune.records import Failed, Plan, Runtime, SoakChange, SoakPoint
from targets_here import runtimes_here

MIB = 1 << 20
CALLS = np.arange(1, 61) * 100


def soaked(held: np.ndarray, latency_ns: float = 1e6, failure: Failed | None = None) -> SoakedProcess:
    runtime: Runtime = runtimes_here()[0]
    arm = Arm(name="any", plan=Plan(), model=Path("m.onnx"), runtime=runtime, feeds=())
    points = [
        SoakPoint(
            calls=int(calls), held_bytes=int(each), latency_ns=int(latency_ns * (1 + 0.01 * (number % 3)))
        )
        for number, (calls, each) in enumerate(zip(CALLS, held, strict=True))
    ]
    return SoakedProcess(wanted=SoakArm(arm=arm, fresh=(), seed=0), points=points, failure=failure)


def of(*found: tuple[SoakChange, SoakedProcess], growing: bool = True):
    changes = [(change, None) for change, _ in found]
    return {each.change: each for each in experiments([each for _, each in found], changes, growing=growing)}


def test_the_change_that_removes_growth_is_the_cause() -> None:
    leak = 30 * MIB + CALLS * 1024
    found = of(
        ("as-is", soaked(leak)),
        ("same-values", soaked(np.full(60, 30 * MIB), 1.2e6)),
        ("no-arena", soaked(leak + 5 * MIB, 2e6)),
    )
    cause, other = found["same-values"], found["no-arena"]
    assert cause.flattens and cause.explained == pytest.approx(1)
    assert cause.latency_low <= 1.2 <= cause.latency_high
    assert not other.flattens and other.explained == pytest.approx(0, abs=0.01)


def test_a_level_is_compared_from_the_first_call_of_the_unchanged_model() -> None:
    """A change that holds as much from the first call on saves nothing."""
    ratchet = np.where(CALLS < 500, 30 * MIB, 60 * MIB)
    found = of(
        ("as-is", soaked(ratchet)),
        ("one-size", soaked(np.full(60, 60 * MIB))),
        ("no-arena", soaked(np.where(CALLS < 500, 30 * MIB, 33 * MIB))),
        growing=False,
    )
    assert not found["one-size"].flattens and found["one-size"].latency_ratio is None
    assert found["no-arena"].flattens and found["no-arena"].explained == pytest.approx(0.9)


def test_without_a_rise_next_to_it_no_change_is_a_cause() -> None:
    found = of(("as-is", soaked(np.full(60, 30 * MIB))), ("trim", soaked(np.full(60, 20 * MIB))))
    assert not found["trim"].flattens


def test_a_rise_as_two_processes_differ_by_has_no_cause() -> None:
    as_is = np.where(CALLS < 500, 40 * MIB, 42 * MIB)
    found = of(("as-is", soaked(as_is)), ("same-values", soaked(np.full(60, 40 * MIB))), growing=False)
    assert not found["same-values"].flattens


def test_a_change_that_fails_is_named_and_is_no_cause() -> None:
    failure = Failed(plan="p", reason="crash", what="killed by SIGSEGV", phase="loading")
    found = of(
        ("as-is", soaked(30 * MIB + CALLS * 1024)), ("allocator", soaked(np.full(60, MIB), failure=failure))
    )
    assert found["allocator"].failed == "killed by SIGSEGV" and not found["allocator"].flattens


@pytest.mark.parametrize(("most_alive", "sizes"), [(8, [6, 5]), (3, [3, 3, 3, 3, 2]), (2, [2] * 9)])
def test_each_group_has_the_unchanged_model_and_what_memory_holds(most_alive: int, sizes: list[int]) -> None:
    arm = soaked(CALLS).wanted
    changes: list[SoakChange] = ["as-is", "same-values", "one-size", "trim", "no-arena", "exact-arena"]
    changes += ["arena-shrinkage", "no-pattern", "no-prepacking", "one-thread"]
    parts = groups([(arm, change, None) for change in changes], most_alive)
    assert [len(part) for part in parts] == sizes
    assert all(part[0][1] == "as-is" for part in parts)
    assert len({part[0][0].arm.name for part in parts}) == len(parts)
    assert sorted(change for part in parts for _, change, _ in part[1:]) == sorted(changes[1:])


def test_the_changes_of_an_application_are_grouped_as_those_of_a_model() -> None:
    script = Script(process=0, sessions=(), before=frozenset(), feeds=(), steps=())
    arm = PlayedArm(name="experiment-as-is", number=0, script=script, seed=0)
    changes: list[SoakChange] = ["as-is", "trim", "same-values", "no-arena"]
    first, second = groups([(replace(arm, name=change), change, None) for change in changes], 3)
    assert [arm.name for arm, _, _ in first] == ["experiment-as-is-1", "trim", "no-arena"]
    assert [arm.name for arm, _, _ in second] == ["experiment-as-is-2", "same-values"]
