"""Taking turns: the schedule with fake runners, and that real ones sleep while others work."""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import psutil
import pytest
from onnx import TensorProto, helper

from onnx_text import assemble
from ortune import platform
from ortune.inputs.feed_files import write_feeds
from ortune.platform import SensorSnapshot
from ortune.records import (
    PROTOCOL_VERSION,
    Failed,
    FeedRef,
    Measured,
    Outcome,
    Plan,
    Runtime,
    TrialRequest,
)
from ortune.targets.machine import Machine
from ortune.targets.process import ProcessRunner
from ortune.targets.runner import run
from ortune.targets.task import Limits, TrialTask
from ortune.targets.turns import Turns, load, take_turns
from ortune.targets.worker import POLL_RUNNING_S, POLL_TIMED_S


class Fake:
    """A runner that writes down what it is told."""

    held_bytes = 0

    def __init__(self, name: str, told: list[tuple[str, str]], *, polls: int = 1, fails_at: str = "") -> None:
        self.name, self.told, self.polls, self.fails_at = name, told, polls, fails_at
        self.live = True

    def _step(self, what: str) -> None:
        if self.live:
            self.told.append((what, self.name))
            self.live = what != self.fails_at

    def start(self) -> None:
        self._step("start")

    def loaded(self) -> bool:
        self.polls -= 1
        return self.polls <= 0 or not self.live

    def warm(self) -> None:
        self._step("warm")

    def batch(self, runs: int, unmeasured: int) -> None:
        self._step(f"run {runs} after {unmeasured}")

    def finish(self) -> None:
        self._step("finish")

    def close(self) -> None:
        self.live = False

    def outcome(self, before: SensorSnapshot, after: SensorSnapshot) -> Outcome:
        return Failed(plan=self.name, reason="crash", what=f"nothing is here, from {before} to {after}")


TURNS = Turns(runs=8, unmeasured=2, rounds=5)


def taken(
    *fakes: tuple[str, dict[str, object]], stop_after: int = 10**6
) -> tuple[bool, list[tuple[str, str]]]:
    told: list[tuple[str, str]] = []
    runners = [Fake(name, told, **how) for name, how in fakes]  # type: ignore[arg-type]
    stop = lambda: len(told) >= stop_after  # noqa: E731
    ended = load(runners, stop) and take_turns(runners, TURNS, random.Random(3), stop)
    return ended, told


def test_all_load_at_once_and_then_one_works_at_a_time_in_fresh_order() -> None:
    ended, told = taken(("a", {}), ("b", {"polls": 4}), ("c", {}))
    assert ended
    assert [what for what, _ in told[:6]] == ["start"] * 3 + ["warm"] * 3
    assert [what for what, _ in told[-3:]] == ["finish"] * 3
    turns = [name for what, name in told if what == "run 8 after 2"]
    rounds = [tuple(turns[i : i + 3]) for i in range(0, 15, 3)]
    assert all(set(each) == {"a", "b", "c"} for each in rounds)
    assert len(set(rounds)) > 1


def test_a_runner_that_fails_leaves_the_turns_to_the_others() -> None:
    ended, told = taken(("a", {}), ("b", {"fails_at": "warm"}), ("c", {"fails_at": "start"}))
    assert ended
    assert Counter(name for what, name in told if what.startswith("run")) == {"a": 5}
    assert [name for what, name in told if what == "finish"] == ["a"]


@pytest.mark.parametrize("after", [3, 5, 9])
def test_a_stop_is_heard_before_the_next_turn(after: int) -> None:
    ended, told = taken(("a", {}), ("b", {}), ("c", {}), stop_after=after)
    assert not ended
    assert len(told) == after


def task(folder: Path, name: str, *, wait: float = 0.0, python: str = sys.executable) -> TrialTask:
    where = folder / name
    where.mkdir()
    request = TrialRequest(
        model=str(folder / "m.onnx"),
        feeds=(FeedRef(name="", path=str(folder / "feeds")),),
        warmup_ns=0,
        warmup_cap_ns=0,
        wait_ratio=wait,
    )
    return TrialTask(
        plan=Plan(), runtime=Runtime(python=python), request=request, folder=where, scratch=folder
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model whose threads go on spinning after each run."""
    rng = np.random.default_rng(0)
    weight = helper.make_tensor("w", TensorProto.FLOAT, [256, 256], rng.random(256 * 256, np.float32))
    onnx.save(
        assemble(
            [helper.make_node("MatMul", ["x", "w"], ["y"])], "float[256,256] x", "float[256,256] y", [weight]
        ),
        tmp_path / "m.onnx",
    )
    write_feeds(tmp_path / "feeds", {"x": np.ones((256, 256), np.float32)})
    return tmp_path


def test_processes_take_turns_and_the_waiting_ones_sleep(folder: Path) -> None:
    rounds, stopped = 6, []

    def look() -> bool:
        """Asked before each turn: whether all who wait for theirs are stopped, however late a busy machine does it."""
        children = {child: " ".join(child.cmdline()) for child in psutil.Process().children()}
        # What workers of other tests are forks of is a child, too.
        workers = [
            child for child, said in children.items() if "ortune-worker" in said and "warm_start" not in said
        ]
        until = time.monotonic() + 1.0
        while not (all_are := all(worker.status() == psutil.STATUS_STOPPED for worker in workers)):
            if time.monotonic() > until:  # they load the model
                break
        stopped.append(len(workers) == 2 and all_are)
        return False

    tasks = [task(folder, "a"), task(folder, "b", wait=0.5)]
    found = run(tasks, Machine(), Turns(runs=40, unmeasured=5, rounds=rounds), stop=look)
    assert found is not None
    assert all(stopped[-2 * rounds :])
    for outcome in found:
        assert isinstance(outcome, Measured), outcome
        case = outcome.done.cases[0]
        assert case.turn_runs == (40,) * rounds
        assert len(case.latency_ns) == outcome.done.n_runs == 40 * rounds
        assert 0 < outcome.done.waiting_cpu_ns < outcome.done.waiting_ns
    assert [bool(o.done.cases[0].waits_ns) for o in found if isinstance(o, Measured)] == [False, True]


def test_limits_are_looked_at_less_often_while_runs_are_timed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look takes a CPU from the runs, which shows in their p99."""
    waited: dict[str, set[float]] = {}

    def listen(self: ProcessRunner, until: Any) -> Any:
        waited.setdefault(self.told, set()).add(self._poll_s())
        return heard(self, until)

    def told(self: ProcessRunner, command: Any, *until: Any) -> None:
        self.told = type(command).__name__
        turn(self, command, *until)

    heard, turn = ProcessRunner._listen, ProcessRunner._turn
    monkeypatch.setattr(ProcessRunner, "told", "start", raising=False)
    monkeypatch.setattr(ProcessRunner, "_listen", listen)
    monkeypatch.setattr(ProcessRunner, "_turn", told)
    found = run([task(folder, "one")], Machine(), Turns(runs=2, unmeasured=0, rounds=1))
    assert found and isinstance(found[0], Measured)
    assert waited["Warm"] == waited["Finish"] == {POLL_RUNNING_S}
    assert waited["Batch"] == {POLL_TIMED_S} and POLL_TIMED_S >= 1.0 > POLL_RUNNING_S


def test_a_process_that_dies_costs_the_others_nothing(folder: Path) -> None:
    tasks = [task(folder, "a"), task(folder, "b", python="/bin/false")]
    found = run(tasks, Machine(), Turns(runs=4, unmeasured=0, rounds=2))
    assert found is not None
    good, bad = found
    assert isinstance(good, Measured) and good.done.n_runs == 8
    assert isinstance(bad, Failed) and bad.reason == "crash"


def test_a_stop_leaves_no_process_behind(folder: Path) -> None:
    asked: list[int] = []

    def stop() -> bool:
        asked.append(1)
        return len(asked) > 8

    assert run([task(folder, "a"), task(folder, "b")], Machine(), TURNS, stop=stop) is None


def script(folder: Path, name: str, text: str) -> str:
    path = folder / f"{name}.sh"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_what_is_cut_off_does_not_work_on_beside_the_others(folder: Path) -> None:
    said = f"""echo $$ > {folder}/pid
echo '{{"message":"ready","version":{PROTOCOL_VERSION}}}'
echo '{{"message":"loaded","load_ns":1}}'
while :; do :; done"""
    hangs = replace(task(folder, "b", python=script(folder, "hangs", said)), limits=Limits(run_s=0.2))
    working: list[bool] = []

    def stop() -> bool:
        pid = folder / "pid"
        working.append(pid.exists() and Path(f"/proc/{pid.read_text().strip()}").exists())
        return False

    found = run([task(folder, "a"), hangs], Machine(), Turns(runs=4, unmeasured=0, rounds=2), stop=stop)
    assert found is not None
    good, bad = found
    assert isinstance(good, Measured) and good.done.n_runs == 8
    assert isinstance(bad, Failed) and bad.reason == "timeout"
    assert working[-2:] == [False, False], "while the other had its turns"


def test_of_several_that_load_at_once_the_largest_is_ended(folder: Path) -> None:
    left = platform.memory_left_bytes()
    if left is None or left < 1 << 30:
        pytest.skip("needs 1 GiB of free memory")
    grows = "import time; x = []\nwhile True: x.append(b'x' * (8 << 20)); time.sleep(0.01)"
    (folder / "grows.py").write_text(grows)
    hog = script(folder, "hog", f"exec {sys.executable} {folder}/grows.py")
    idle = script(folder, "idle", "exec sleep 60")
    share = float(300 << 20) / left
    tasks = [
        replace(task(folder, name, python=idle), limits=Limits(load_s=0.4, memory_share=share))
        for name in "abcd"
    ]
    tasks.append(replace(task(folder, "e", python=hog), limits=Limits(memory_share=share)))
    found = run(tasks, Machine(), TURNS)
    assert found is not None
    assert [each.reason for each in found if isinstance(each, Failed)] == ["timeout"] * 4 + ["out-of-memory"]
