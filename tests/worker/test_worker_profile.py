"""A profiled trial: the file is there, and holds every run of the process."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from onnx_text import model_of, saved
from ortune.inputs.feed_files import write_feeds
from ortune.records import FeedRef, Measured, Plan, Runtime, TrialRequest
from ortune.targets.machine import Machine
from ortune.targets.runner import run
from ortune.targets.task import TrialTask
from ortune.targets.turns import ALONE, Turns
from ortune.trace.ort_profile import read_profile


def trial(folder: Path, *, profile: bool, runs: int = 5) -> Measured:
    saved(folder / "m.onnx", model_of("g (float[4] x) => (float[4] y) { [relu] y = Relu (x) }"))
    write_feeds(folder / "feeds", {"x": np.ones(4, np.float32)})
    request = TrialRequest(
        model=str(folder / "m.onnx"),
        feeds=(FeedRef(name="", path=str(folder / "feeds")),),
        warmup_runs=3 if runs else 0,
        warmup_ns=0,
        warmup_cap_ns=0,
        profile_path=str(folder / "profile") if profile else "",
    )
    runtime = Runtime(python=sys.executable)
    task = TrialTask(plan=Plan(), runtime=runtime, request=request, folder=folder, scratch=folder)
    found = run([task], Machine(), Turns(runs=runs, unmeasured=0, rounds=1) if runs else ALONE)
    assert found is not None
    (outcome,) = found
    assert isinstance(outcome, Measured), outcome
    return outcome


def test_the_profile_holds_the_first_run_the_warm_up_and_the_timed_runs(tmp_path: Path) -> None:
    done = trial(tmp_path, profile=True).done
    trace = read_profile(Path(done.profile))
    assert trace.complete
    assert trace.n_runs == 1 + done.cases[0].warmup_runs + done.n_runs
    assert set(trace.name) == {"relu"}


def test_no_run_is_timed_where_none_is_asked_for(tmp_path: Path) -> None:
    """Loaded and run once: a model that needs a minute a run must not need four."""
    done = trial(tmp_path, profile=True, runs=0).done
    assert (done.n_runs, done.cases[0].latency_ns, done.cases[0].warmup_runs) == (0, (), 0)
    assert done.cases[0].first_ns > 0
    assert read_profile(Path(done.profile)).n_runs == 1


def test_as_many_runs_are_timed_as_asked_for(tmp_path: Path) -> None:
    assert trial(tmp_path, profile=False, runs=1).done.n_runs == 1


def test_no_profile_unless_asked_for(tmp_path: Path) -> None:
    assert trial(tmp_path, profile=False).done.profile == ""
    assert not list(tmp_path.glob("*.json"))
