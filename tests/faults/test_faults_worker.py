"""Trials that come to a bad end: data, never an exception, and no process is left behind."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import numpy as np
import pytest

from box import Box, refused, save_model
from onnx_text import model_of, saved
from ortune import platform
from ortune.inputs.feed_files import write_feeds
from ortune.records import (
    PROTOCOL_VERSION,
    Applied,
    Failed,
    FeedRef,
    Measured,
    Outcome,
    Plan,
    Runtime,
    TrialRequest,
)
from ortune.targets.machine import Machine
from ortune.targets.runner import run
from ortune.targets.task import Limits, TrialTask
from ortune.targets.turns import Turns


def test_a_worker_that_crashes_in_the_pilot(box: Box) -> None:
    running = box.start("compare", "m.onnx", "m.onnx", "--gap", "100ms", "--json")
    # The first trial only looks, and untimed runs at other levels of the optimiser follow it.
    running.until(lambda: len(box.events("trial")) == 2 and box.workers())
    os.kill(running.until(box.workers)[0], signal.SIGSEGV)
    error = refused(running.wait(), 3, "crash")
    assert "SIGSEGV" in error["what"]
    assert "m.onnx" in error["where"]
    assert box.events("outcome")[-1]["outcome"]["reason"] == "crash"


class Trial:
    """One model, its feeds and the worker, in a folder."""

    def __init__(self, folder: Path, feeds: dict[str, np.ndarray]) -> None:
        self.folder = folder
        self.model = folder / "m.onnx"
        write_feeds(folder / "feeds", feeds)

    def run(
        self, *, python: str = sys.executable, limits: Limits | None = None, runs: int = 3, **asked: object
    ) -> Outcome:
        plan = Plan(providers=asked.pop("providers", ()))  # type: ignore[arg-type]
        request = TrialRequest(
            model=str(self.model),
            feeds=(FeedRef(name="default", path=str(self.folder / "feeds")),),
            **{"warmup_ns": 0, **asked},  # type: ignore[arg-type]
        )
        task = TrialTask(
            plan=plan,
            runtime=Runtime(python=python),
            request=request,
            folder=self.folder,
            scratch=self.folder,
            limits=limits or Limits(),
        )
        found = run([task], Machine(), Turns(runs=runs, unmeasured=0, rounds=1))
        assert found is not None
        return found[0]

    def fails(self, reason: str, **how: object) -> Failed:
        outcome = self.run(**how)  # type: ignore[arg-type]
        assert isinstance(outcome, Failed), outcome
        assert outcome.reason == reason, outcome
        return outcome


@pytest.fixture
def trial(tmp_path: Path) -> Trial:
    save_model(tmp_path / "m.onnx")
    return Trial(tmp_path, {"x": np.zeros((1, 64), dtype=np.float32)})


def constant_of_shape(folder: Path, elements: int) -> Trial:
    """A model that fills as many floats as its input says."""
    text = "g (int64[1] n) => (float y) { big = ConstantOfShape (n)  y = ReduceMax <keepdims = 0> (big) }"
    saved(folder / "m.onnx", model_of(text, 13, ir_version=7))
    return Trial(folder, {"n": np.array([elements])})


def test_a_trial_that_works(trial: Trial) -> None:
    assert isinstance(trial.run(), Measured)


def test_too_long_a_run(trial: Trial) -> None:
    failed = trial.fails("timeout", gap_ns=20_000_000_000, limits=Limits(run_s=0.3))
    assert failed.phase == "running"


def test_an_interpreter_that_hangs(trial: Trial) -> None:
    hangs = trial.folder / "hangs"
    hangs.write_text("#!/bin/sh\nsleep 60 &\nwait\n")
    hangs.chmod(0o755)
    failed = trial.fails("timeout", python=str(hangs), limits=Limits(load_s=0.3))
    assert failed.phase == "starting"


def test_a_worker_that_never_stops_talking(trial: Trial) -> None:
    talks = trial.folder / "talks"
    said = f'{{"message":"ready","version":{PROTOCOL_VERSION}}}\n{{"message":"loaded","load_ns":1}}\n'
    text = f'import sys\nsys.stdout.write({said!r})\nwhile True: print(\'{{"message":"turn-over"}}\', flush=True)\n'
    (trial.folder / "talks.py").write_text(text)
    talks.write_text(f"#!/bin/sh\nexec {sys.executable} {trial.folder / 'talks.py'}\n")
    talks.chmod(0o755)
    failed = trial.fails("timeout", python=str(talks), limits=Limits(run_s=0.5))
    assert failed.phase == "running"


def test_an_interpreter_that_closes_its_stdout_and_goes_on(
    trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ortune.targets.worker._GONE_S", 0.2)
    closes = trial.folder / "closes"
    closes.write_text("#!/bin/sh\nexec >&-\nexec sleep 60\n")
    closes.chmod(0o755)
    assert "closed its stdout" in trial.fails("protocol", python=str(closes)).what


def test_an_interpreter_that_is_gone(trial: Trial) -> None:
    assert "cannot start" in trial.fails("no-runtime", python="/nonexistent/python").what


def test_memory_beyond_the_limit_ends_the_trial(tmp_path: Path) -> None:
    left = platform.memory_left_bytes()
    if left is None or left < 4 << 30:
        pytest.skip("needs 4 GiB of free memory")
    trial = constant_of_shape(tmp_path, (3 << 29) // 4)  # 1.5 GiB
    limits = Limits(memory_share=float(1 << 29) / left)
    assert "GiB allowed" in trial.fails("out-of-memory", runs=100, limits=limits).what


def test_memory_that_cannot_be_had(tmp_path: Path) -> None:
    trial = constant_of_shape(tmp_path, 1 << 48)
    assert "llocat" in trial.fails("out-of-memory").what


def test_a_key_that_this_onnxruntime_does_not_know(trial: Trial) -> None:
    setting = Applied(knob="invented", channel="session_config", key="session.no_such_key", value="1")
    assert "session.no_such_key" in trial.fails("unknown-key", applied=(setting,)).what


def test_a_session_option_that_there_is_not(trial: Trial) -> None:
    setting = Applied(knob="invented", channel="session_option", key="no_such_option", value=1)
    assert "no_such_option" in trial.fails("unknown-key", applied=(setting,)).what


def test_a_value_that_onnxruntime_refuses(trial: Trial) -> None:
    setting = Applied(
        knob="graph_optimization_level",
        channel="session_option",
        key="graph_optimization_level",
        value="ORT_NO_SUCH_LEVEL",
    )
    trial.fails("not-applied", applied=(setting,))


def test_a_provider_that_this_build_lacks(trial: Trial) -> None:
    from ortune.records import ProviderSpec

    trial.fails("not-applied", providers=(ProviderSpec(name="CUDAExecutionProvider"),))


def test_a_request_in_another_version(trial: Trial) -> None:
    assert "version" in trial.fails("protocol", version=99).what


def test_inputs_of_the_wrong_shape(trial: Trial) -> None:
    write_feeds(trial.folder / "feeds", {"x": np.zeros((1, 7), dtype=np.float32)})
    failed = trial.fails("input-error")
    assert failed.phase == "running"


def test_a_binding_of_inputs_that_numpy_lacks_is_not_passed_over(tmp_path: Path) -> None:
    """Called as usual, it would pass for a way of calling that changes nothing."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    text = "g (bfloat16[4] x) => (float[4] y) { y = Cast <to = 1> (x) }"
    saved(tmp_path / "m.onnx", model_of(text, 13))
    trial = Trial(tmp_path, {"x": np.ones(4, dtype=ml_dtypes.bfloat16)})
    if isinstance(plain := trial.run(), Failed) and plain.reason == "unsupported":
        pytest.skip(plain.what)
    setting = Applied(knob="call_style", channel="call_style", key="call_style", value="io_binding")
    assert "io_binding" in trial.fails("unsupported", applied=(setting,)).what
