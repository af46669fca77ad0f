"""A framework's process: what the machine lacks is named as that, and is no fault of the source."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import made_runtimes
from ortune.inputs.feed_files import write_feeds
from ortune.records import (
    ExportSource,
    Failed,
    FeedRef,
    OpenSource,
    Plan,
    RunSource,
    Runtime,
    SourceExported,
    SourceOpened,
    SourceRan,
    SourceSide,
    TrialRequest,
)
from ortune.runtimes.converters import SKLEARN
from ortune.targets.machine import Machine
from ortune.targets.runner import run
from ortune.targets.source import SourceProcess, SourceProcessFailed
from ortune.targets.task import Limits, TrialTask
from ortune.targets.turns import ALONE

SOURCE = """
import os
import sys
import tempfile

import numpy as np
from sklearn.linear_model import LinearRegression


class Greedy(LinearRegression):
    def predict(self, rows):
        return np.zeros(1 << 50, np.float32)


def model():
    rows = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
    return LinearRegression().fit(rows, rows[:, 0])


def crashes():
    os.kill(os.getpid(), 11)


def unfitted():
    estimator = LinearRegression()
    estimator.n_features_in_ = -5
    return estimator


def frames():
    frame = sys._getframe()
    while frame is not None:
        yield frame
        frame = frame.f_back


class Endless(LinearRegression):
    def predict(self, rows):
        while True:
            pass


def endless():
    rows = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
    return Endless().fit(rows, rows[:, 0])


def talkative():
    link = next(f.f_locals["link"] for f in frames() if "link" in f.f_locals)
    while True:
        os.write(link._out, b"{}\\n")


def without_log():
    own = tempfile.gettempdir()
    os.remove(own + "/source.log")
    os.mkdir(own + "/source.log")
    os._exit(3)


def greedy():
    rows = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
    return Greedy().fit(rows, rows[:, 0])
"""


@pytest.fixture(scope="module")
def framework() -> str:
    """Its interpreter: where it is not there yet, one process waits until it is made."""
    return made_runtimes.require(SKLEARN.name).runtime.python


@pytest.fixture
def python(framework: str, tmp_path: Path) -> str:
    (tmp_path / "fitted.py").write_text(SOURCE)
    write_feeds(tmp_path / "feeds", {"X": np.ones((2, 3), np.float32)})
    return framework


def fill(disk: Path) -> None:
    (disk / "ballast").write_bytes(bytes(1 << 20))


def opened(process: SourceProcess, folder: Path, function: str) -> SourceOpened:
    request = OpenSource(
        kind="fitted",
        source=f"fitted:{function}",
        factory=True,
        folder=str(folder),
        example=str(process.folder / "x"),
        fence=None,  # its outputs go to a small disk
    )
    return process.ask(request, SourceOpened)


def test_a_full_disk_is_no_exporter_that_failed(python: str, tmp_path: Path, small_disk: Path) -> None:
    request = ExportSource(exporter="skl2onnx", dynamic={}, opset=0, output=str(small_disk / "m.onnx"))
    fill(small_disk)
    with SourceProcess(python, tmp_path / "process", "fitted:model") as process:
        opened(process, tmp_path, "model")
        with pytest.raises(SourceProcessFailed, match="No space left") as error:
            process.ask(request, SourceExported)
        assert error.value.reason == "disk-full" and "TMPDIR" in error.value.do
        # It goes on once there is room.
        (small_disk / "ballast").unlink()
        process.ask(request, SourceExported)
    assert (small_disk / "m.onnx").stat().st_size > 0


def test_a_source_that_needs_more_memory_than_there_is_says_so(python: str, tmp_path: Path) -> None:
    request = RunSource(
        feeds=(FeedRef(name="", path=str(tmp_path / "feeds")),), inputs={}, output=str(tmp_path / "outputs")
    )
    with SourceProcess(python, tmp_path / "process", "fitted:greedy") as process:
        opened(process, tmp_path, "greedy")
        with pytest.raises(SourceProcessFailed, match="Unable to allocate") as error:
            process.ask(request, SourceRan)
    assert error.value.reason == "out-of-memory" and "memory" in error.value.do


@pytest.mark.parametrize(
    ("function", "reason", "what"),
    [
        ("model", "disk-full", "No space left|requested and"),
        ("greedy", "out-of-memory", "Unable to allocate"),
        ("absent", "unsupported", "has no attribute 'absent'"),
    ],
)
def test_a_trial_of_a_source_fails_for_the_reasons_of_any_trial(
    function: str, reason: str, what: str, python: str, tmp_path: Path, small_disk: Path
) -> None:
    fill(small_disk)
    side = SourceSide(
        framework="scikit-learn",
        kind="fitted",
        source=f"fitted:{function}",
        factory=True,
        folder=str(tmp_path),
    )
    request = TrialRequest(
        model="fitted.py",
        feeds=(FeedRef(name="", path=str(tmp_path / "feeds")),),
        warmup_runs=0,
        outputs_path=str(small_disk / "outputs"),
    )
    runtime = Runtime(python=python, name=SKLEARN.name, source=side)
    task = TrialTask(plan=Plan(), runtime=runtime, request=request, folder=tmp_path, scratch=tmp_path)
    outcomes = run([task], Machine(), ALONE)
    assert outcomes is not None and isinstance(outcomes[0], Failed)
    assert outcomes[0].reason == reason
    assert re.search(what, outcomes[0].what)


def test_one_that_talks_without_an_answer_is_held_to_its_limits(python: str, tmp_path: Path) -> None:
    limits = Limits(load_s=1.0)
    with (
        SourceProcess(python, tmp_path / "own", "fitted", limits) as process,
        pytest.raises(SourceProcessFailed, match="opening the source took more than 1 s"),
    ):
        opened(process, tmp_path, "talkative")


def test_a_run_that_does_not_end_has_a_limit_of_its_own(python: str, tmp_path: Path) -> None:
    request = RunSource(
        feeds=(FeedRef(name="", path=str(tmp_path / "feeds")),), inputs={}, output=str(tmp_path / "outputs")
    )
    with SourceProcess(python, tmp_path / "own", "fitted:endless", Limits(run_s=1.0)) as process:
        opened(process, tmp_path, "endless")
        with pytest.raises(SourceProcessFailed, match="running the source took more than 1 s") as error:
            process.ask(request, SourceRan)
    assert error.value.reason == "timeout" and "loops" in error.value.do


def test_one_that_put_a_folder_in_place_of_its_log_has_ended(python: str, tmp_path: Path) -> None:
    with (
        SourceProcess(python, tmp_path / "own", "fitted") as process,
        pytest.raises(SourceProcessFailed, match="its process ended"),
    ):
        opened(process, tmp_path, "without_log")


def test_a_crash_of_a_library_is_said_to_be_one(python: str, tmp_path: Path) -> None:
    """Boosters with children out of range end XGBoost and LightGBM so."""
    with (
        SourceProcess(python, tmp_path / "own", "fitted") as process,
        pytest.raises(SourceProcessFailed, match="ended by SIGSEGV, a crash of the framework") as error,
    ):
        opened(process, tmp_path, "crashes")
    assert error.value.reason == "crash"


def test_a_negative_number_of_columns_is_no_fitted_estimator(python: str, tmp_path: Path) -> None:
    with (
        SourceProcess(python, tmp_path / "own", "fitted") as process,
        pytest.raises(SourceProcessFailed, match="not fitted"),
    ):
        opened(process, tmp_path, "unfitted")


def test_what_it_wrote_is_copied_out_of_its_reach(python: str, tmp_path: Path) -> None:
    with SourceProcess(python, tmp_path / "own", "fitted") as process:
        folder = process.folder / "exported"
        folder.mkdir()
        with (folder / "a.onnx").open("wb") as kept:
            kept.write(b"checked")
            kept.flush()
            process.copy_out(folder, tmp_path / "taken")
            kept.write(b" and changed")
        process.copy_out(process.folder / "nothing", tmp_path / "empty")
    assert (tmp_path / "taken" / "a.onnx").read_bytes() == b"checked"
    assert not folder.exists()
    assert not list((tmp_path / "empty").iterdir())
