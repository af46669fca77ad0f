"""Processes that are soaked: real ones, with an operator that keeps memory in the ways that people report."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import leaking
from facts import facts
from ortune.inputs import feed_files
from ortune.records import (
    FeedRef,
    FreshInput,
    Plan,
    PodSize,
    ProviderSpec,
    Runtime,
    SoakDone,
    SoakPoint,
    TrialError,
    TrialRequest,
)
from ortune.stats.growth import Series
from ortune.stats.soak import Judged, SoakSeries, judge
from ortune.targets import worker
from ortune.targets.browser import soaking_page
from ortune.targets.machine import Machine
from ortune.targets.soak_runner import prepared
from ortune.targets.soaking import Soaking, SoakTask
from ortune.targets.task import TrialTask
from ortune.targets.turns import load
from targets_here import runtimes_here

FRESH = (FreshInput(name="x", kind="floats"),)


def started(folder: Path, operator: str, rows: tuple[int, ...] = (16,), **more: object) -> Soaking:
    """A process that has loaded a model with one of the operators."""
    model = leaking.model(folder, operator, "n,64")
    feeds = []
    for number in rows:
        place = folder / f"feed-{number}"
        feed_files.write_feeds(place, {"x": np.ones((number, 64), np.float32)})
        feeds.append(FeedRef(name=f"n={number}", path=str(place)))
    request = TrialRequest(model=str(model), feeds=tuple(feeds), custom_ops=(str(leaking.library()),))
    work = folder / "work"
    work.mkdir()
    task = TrialTask(plan=Plan(), runtime=runtimes_here()[0], request=request, folder=work, scratch=folder)
    pod = more.pop("pod", None)
    wanted = SoakTask(task=task, **{"fresh": FRESH, "seed": 3, **more})
    group: list[Soaking] = []
    process = prepared(wanted, Machine(pod), group)
    assert isinstance(process, Soaking)
    group.append(process)
    assert load(group, lambda: False)
    return process


def soaked(folder: Path, operator: str, *, turns: int = 56, calls: int = 150, **more: object) -> Soaking:
    """A process that has ended after some turns, the first one of one call."""
    process = started(folder, operator, **more)
    try:
        for number in range(turns):
            process.turn(calls if number else 1)
        process.conclude()
    finally:
        process.close()
    assert process.failure is None, process.failure
    return process


def judged(process: Soaking) -> Judged:
    points, done = process.points, process.done
    assert done is not None and done.idle_bytes is not None and done.trimmed_bytes is not None
    calls = np.array([point.calls for point in points], float)
    held = Series(calls=calls, held_bytes=np.array([point.held_bytes for point in points], float))
    used = Series(calls=calls, held_bytes=np.array([point.used_bytes for point in points], float))
    returned = done.idle_bytes - done.trimmed_bytes
    first = float(points[0].held_bytes or 0)
    return judge([SoakSeries(held=held, used=used, first_bytes=first, returned_bytes=returned)])


@pytest.mark.parametrize(
    ("operator", "verdict", "per_call"),
    [
        ("Copy", "flat", None),
        ("Leak", "growing", 1040),
        ("CacheByInput", "growing", 1040),
        ("LeakInChild", "growing", 1040),
        ("Fragment", "fragmented", None),
    ],
)
def test_the_verdict_is_that_of_the_operator(
    tmp_path: Path, operator: str, verdict: str, per_call: int | None
) -> None:
    process = soaked(tmp_path, operator)
    found = judged(process)
    assert found.verdict == verdict, found
    if per_call is not None:
        assert found.growth.low < 1.02 * per_call and found.growth.high > 0.98 * per_call, found
    children = process.points[-1].children_bytes
    assert (children > 4 << 20) == (operator == "LeakInChild")


def test_a_cache_by_input_does_not_grow_with_the_same_input(tmp_path: Path) -> None:
    assert judged(soaked(tmp_path, "CacheByInput", fresh=())).verdict == "flat"


def test_what_each_session_keeps_shows_when_sessions_are_created_again(tmp_path: Path) -> None:
    process = soaked(tmp_path, "KeepPerSession", recreate=10, calls=20)
    assert process.points[-1].sessions > 100
    found = judged(process)
    assert found.verdict == "growing"
    assert 10 * found.growth.low < 68 << 10 and 10 * found.growth.high > 64 << 10, found


def test_a_ratchet_is_bounded_and_its_size_is_known(tmp_path: Path) -> None:
    process = soaked(tmp_path, "Ratchet", rows=(16, 640, 64))
    assert judged(process).verdict == "bounded"
    assert process.done is not None
    steps = process.done.steps
    assert sum(step.calls for step in steps) == process.points[-1].calls
    assert steps[0].first_call == 1  # the smallest, whatever the seed
    assert max(steps, key=lambda step: step.bytes).case == 1
    assert steps[1].bytes > 4 << 20  # 32 buffers of 640 x 64 floats
    assert steps[1].last_step_call < 100


def test_the_memory_of_each_node_is_recorded(tmp_path: Path) -> None:
    process = started(tmp_path, "Ratchet", rows=(16, 640), nodes=True)
    try:
        process.turn(8)
        process.conclude()
        found = {node.name.partition("_")[0]: node for node in process.nodes}
    finally:
        process.close()
    assert found["Ratchet"].output_bytes >= 640 * 64 * 4 and set(found) == {"Ratchet", "Relu"}


def test_equal_seeds_make_equal_calls(tmp_path: Path) -> None:
    counts = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        done = soaked(tmp_path / name, "Copy", turns=3, calls=40, rows=(1, 2, 3)).done
        assert done is not None
        counts.append([step.calls for step in done.steps])
    assert counts[0] == counts[1] and len(set(counts[0])) > 1


def test_several_callers_and_times_of_calls(tmp_path: Path) -> None:
    process = started(tmp_path, "Leak")
    try:
        process.turn(40, tuple(number * 1_000_000 for number in range(40)))
        process.turn(5)
        process.conclude()
    finally:
        process.close()
    assert [point.calls for point in process.points] == [40, 45]
    assert process.points[0].active_ns > 39_000_000
    assert isinstance(process.end, SoakDone)


def test_values_that_a_model_refuses_are_kept(tmp_path: Path) -> None:
    from onnx_text import model_of, saved

    text = "g (int64[2] i, float[5] w) => (float[2] y) { y = Gather (w, i) }"
    model = saved(tmp_path / "gather.onnx", model_of(text))
    feed_files.write_feeds(tmp_path / "feed", {"i": np.array([0, 4]), "w": np.ones(5, np.float32)})
    request = TrialRequest(model=str(model), feeds=(FeedRef(name="only", path=str(tmp_path / "feed")),))
    (tmp_path / "work").mkdir()
    task = TrialTask(
        plan=Plan(), runtime=runtimes_here()[0], request=request, folder=tmp_path / "work", scratch=tmp_path
    )
    fresh = (FreshInput(name="i", kind="integers", low=0, high=900), FreshInput(name="w", kind="floats"))
    process = prepared(SoakTask(task=task, fresh=fresh, seed=0), Machine(), [])
    assert isinstance(process, Soaking)
    try:
        assert load([process], lambda: False)
        process.turn(20)
        process.conclude()
    finally:
        process.close()
    assert process.done is not None and process.done.fixed == ("i",)


def test_a_process_that_is_killed_at_its_limit_leaves_the_number_of_its_calls(tmp_path: Path) -> None:
    process = started(tmp_path, "Leak", pod=PodSize(memory_bytes=96 << 20))
    machine = process.machine
    try:
        while process.live and len(process.points) < 60:
            process.turn(5_000)
    finally:
        process.close()
        machine.close()
    assert process.failure is not None and process.failure.reason == "out-of-memory"
    assert process.counted is not None and process.counted[0] > 1_000
    assert process.points and isinstance(process.points[-1], SoakPoint)


def test_a_kill_by_the_kernel_in_the_soaks_own_group_names_the_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One call takes more than the limit, and ortune does not look in time."""
    monkeypatch.setattr(worker, "POLL_RUNNING_S", 60.0)
    process = started(tmp_path, "Ratchet", rows=(16, 20_000), pod=PodSize(memory_bytes=120 << 20))
    machine = process.machine
    try:
        if machine.pod is None or "by cgroup" not in machine.pod.how:
            pytest.skip("NOT TESTED HERE: no control group can be made")
        process.turn(1)
        process.turn(16)
    finally:
        process.close()
        machine.close()
    assert process.failure is not None and process.failure.reason == "out-of-memory", process.failure
    assert "killed at the container's memory limit of 120 MiB" in process.failure.what
    assert process.counted is not None and process.counted[0] > 1 and process.counted[1] == 1


def test_a_page_whose_memory_is_unknown_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soaking_page, "_SHOWN_S", 0.01)
    request = TrialRequest(model="m.onnx", feeds=())
    plan = Plan(providers=(ProviderSpec(name="wasm"),))
    runtime = Runtime(python="python")
    task = TrialTask(plan=plan, runtime=runtime, request=request, folder=tmp_path, scratch=tmp_path)
    page = soaking_page.SoakingPage(SoakTask(task=task, fresh=(), seed=0), (), Machine(), [])
    page._heap_bytes()
    page.follow(SoakPoint, 10.0)
    assert isinstance(page.end, TrialError)
    facts(page.end.what, "did not attach")
