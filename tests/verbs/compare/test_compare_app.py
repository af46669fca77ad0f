"""``ortune compare --app``: whole runs of a program without and with a bundle."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from onnxruntime import datasets

import ortune
from facts import facts
from ortune.bundle import digests
from ortune.bundle.app import SCHEMA
from ortune.errors import MeasurementError, UsageError
from ortune.recorder import whole_run
from ortune.recorder.whole_run import WholeRun
from ortune.stats import calibration

SIGMOID = Path(datasets.get_example("sigmoid.onnx"))
APP = """
import numpy as np
import onnxruntime as ort
from onnxruntime import datasets
for n in range(3):
    session = ort.InferenceSession(datasets.get_example("sigmoid.onnx"))
    session.run(None, {"x": np.full((3, 4, 5), n, np.float32)})
print("took 5.0 ms")
"""


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    path = tmp_path / "app.ortune"
    path.mkdir()
    entry = {
        "name": "sigmoid.onnx",
        "sha256": [hashlib.sha256(SIGMOID.read_bytes()).hexdigest()],
        "share": True,
    }
    (path / "ortune.json").write_text(json.dumps({"schema": SCHEMA, "sessions": [entry]}), encoding="utf-8")
    digests.write(path)
    return path


@pytest.fixture
def command(tmp_path: Path) -> str:
    (tmp_path / "app.py").write_text(APP, encoding="utf-8")
    return f"{sys.executable} {tmp_path / 'app.py'}"


def simulated(
    monkeypatch: pytest.MonkeyPatch,
    figures: Callable[[bool, int], tuple[float, float]],
    *,
    others: float = 0.0,
) -> None:
    """Give runs of the program times of their own; those that are recorded run for real."""
    real, count = whole_run.run, iter(range(10_000))

    def run(command: Any, environment: Any, scratch: Path, *, limit_s: float) -> WholeRun:
        if "ORTUNE_RECORD" in environment:
            return real(command, environment, scratch, limit_s=limit_s)
        wall_s, cpu_s = figures("ORTUNE_APPLY" in environment, next(count))
        return WholeRun(
            wall_ns=round(wall_s * 1e9),
            cpu_ns=round(cpu_s * 1e9),
            peak_bytes=100 << 20,
            code=0,
            output="took 5.0 ms",
        )

    monkeypatch.setattr(whole_run, "run", run)
    monkeypatch.setattr(whole_run.CpuShareMeter, "ratio", lambda self: others)


def jitter(number: int) -> float:
    """A little noise that is the same in every test."""
    return 1 + 0.01 * ((number * 7919) % 11 - 5) / 5


def compared(command: str, bundle: Path, **more: Any) -> Any:
    return ortune.compare(app=command, b_with=bundle, budget="60s", max_blocks=8, **more)


def test_a_quiet_machine_decides_by_time(monkeypatch: pytest.MonkeyPatch, command: str, bundle: Path) -> None:
    simulated(monkeypatch, lambda new, n: (jitter(n) * (0.5 if new else 1.0), jitter(n + 3)))
    answer = compared(command, bundle, app_metric=r"took ([\d.]+) ms")
    result = answer.result
    assert answer.verdict == "faster"
    assert result.app.basis == "wall"
    assert result.comparison.ratio == pytest.approx(0.5, rel=0.05)
    assert result.app.cpu.verdict != "faster"
    assert (result.outputs.ok, result.app.n_outputs) == (True, 3)
    assert (result.app.metric.base, result.app.metric.new) == (5.0, 5.0)
    facts(answer.summary(), "faster", "time of the whole program", "outputs", "3 calls")


@pytest.mark.parametrize("busy", ["others", "A/A check"])
def test_a_busy_machine_decides_by_cpu_time_and_says_so(
    busy: str, monkeypatch: pytest.MonkeyPatch, command: str, bundle: Path
) -> None:
    others = 0.6 if busy == "others" else 0.0
    simulated(monkeypatch, lambda new, n: (jitter(n), jitter(n) * (0.7 if new else 1.0)), others=others)
    if busy == "A/A check":
        real = calibration.identical_control
        calls = iter([False, True])  # of the time, of the CPU time
        monkeypatch.setattr(calibration, "identical_control", lambda d: replace(real(d), ok=next(calls)))
    answer = compared(command, bundle)
    assert (answer.verdict, answer.result.app.basis) == ("faster", "cpu")
    facts(answer.summary(), "less CPU time", "busy", "CPU time decides")


def test_short_runs_stop_at_the_most_blocks_of_the_test(
    monkeypatch: pytest.MonkeyPatch, command: str, bundle: Path
) -> None:
    simulated(monkeypatch, lambda new, n: (0.001 * jitter(n), 0.001 * jitter(n)))
    for most in (None, 50):
        result = ortune.compare(app=command, b_with=bundle, budget="30m", max_blocks=most).result
        assert result.comparison.n_blocks == 20


def test_no_difference_is_not_claimed(monkeypatch: pytest.MonkeyPatch, command: str, bundle: Path) -> None:
    simulated(monkeypatch, lambda new, n: (1 + 0.2 * jitter(n), jitter(n)))
    assert compared(command, bundle).verdict in ("inconclusive", "equivalent")


def test_what_cannot_be_compared_is_said(tmp_path: Path, command: str, bundle: Path) -> None:
    with pytest.raises(UsageError, match="without and with"):
        ortune.compare(app=command)
    with pytest.raises(UsageError, match="without and with"):
        ortune.compare(b_with=bundle)
    with pytest.raises(UsageError, match="without and with"):
        ortune.compare(str(SIGMOID), app=command, b_with=bundle)
    with pytest.raises(UsageError, match="pass a model"):
        ortune.compare()
    for option in ({"threshold": "5%"}, {"b_set": {"intra": 1}}, {"tolerance": 0.1}, {"trust_source": True}):
        with pytest.raises(UsageError, match="no effect on whole runs"):
            compared(command, bundle, **option)
    with pytest.raises(UsageError, match="cannot be started"):
        compared("/no/such/program", bundle)
    with pytest.raises(UsageError, match="group"):
        compared(command, bundle, app_metric="took")
    with pytest.raises(MeasurementError, match="exited with 3"):
        compared(f"{sys.executable} -c 'import sys; sys.exit(3)'", bundle)
    with pytest.raises(UsageError, match="no number"):
        compared(command, bundle, app_metric="never ([0-9]+)")


def test_a_real_run_has_its_times_and_the_memory_of_its_processes(tmp_path: Path) -> None:
    child = "import os; x = bytearray(os.urandom(1 << 20) * 60); import time; time.sleep(0.6); print(len(x))"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    done = whole_run.run([sys.executable, "-c", parent], {}, tmp_path, limit_s=60)
    assert done.code == 0
    assert done.output.strip() == str(60 << 20)
    assert done.peak_bytes > 60 << 20
    assert 0 < done.cpu_ns < done.wall_ns * 64
