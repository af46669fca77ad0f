"""A page that is none of ours, from a browser that is none: what it says is data, within limits, and ends its trial."""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from box import save_model
from ortune.inputs.feed_files import write_feeds
from ortune.records import Failed, FeedRef, Measured, Outcome, Plan, ProviderSpec, Runtime, TrialRequest
from ortune.targets.browser.setup import BrowserSetup
from ortune.targets.machine import Machine
from ortune.targets.runner import run
from ortune.targets.task import Limits, TrialTask
from ortune.targets.turns import Turns

pytestmark = pytest.mark.skipif(
    os.name != "posix", reason="a browser is driven through a pipe on POSIX alone"
)
Y = {"case": 0, "index": 0, "name": "y", "onnx_type": "float", "dims": [1, 64]}
DONE = {
    "message": "done", "load_ns": 1, "cpu_ns": 0, "wall_ns": 9, "n_runs": 2, "ort_version": "1.30.0",
    "cases": [{"case": "default", "weight": 1, "latency_ns": [4, 5], "first_ns": 1, "turn_runs": [2]}],
    "profile": "/etc/passwd", "n_callers": 0,
}  # fmt: skip


def trial(folder: Path, *, limits: Limits | None = None, **says: Any) -> Outcome:
    save_model(folder / "m.onnx")
    write_feeds(folder / "feeds", {"x": np.zeros((1, 64), dtype=np.float32)})
    (folder / "says.json").write_text(json.dumps({"outputs": [(Y, 256)], "last": DONE} | says))
    (folder / "dist").mkdir()
    (folder / "dist" / "ort.min.mjs").touch()
    browser = folder / "browser.sh"
    hostile = shlex.join(
        [sys.executable, str(Path(__file__).with_name("lying_browser.py")), str(folder / "says.json")]
    )
    browser.write_text(f'#!/bin/sh\nexec {hostile} "$@"\n')
    browser.chmod(0o755)
    request = TrialRequest(
        model=str(folder / "m.onnx"), feeds=(FeedRef(name="default", path=str(folder / "feeds")),), warmup_runs=0,
        warmup_ns=0, outputs_path=str(folder / "outputs"),
    )  # fmt: skip
    task = TrialTask(
        plan=Plan(providers=(ProviderSpec(name="wasm"),)), runtime=Runtime(python=sys.executable), request=request,
        folder=folder, scratch=folder, limits=limits or Limits(load_s=30, run_s=30),
    )  # fmt: skip
    machine = Machine(browser=BrowserSetup(browser=str(browser), ort_web=str(folder)))
    found = run([task], machine, Turns(runs=2, unmeasured=0, rounds=1))
    assert found is not None
    return found[0]


def test_what_a_page_cannot_know_is_not_taken_from_it(tmp_path: Path) -> None:
    outcome = trial(tmp_path)
    assert isinstance(outcome, Measured), outcome
    assert outcome.done.profile == "" and outcome.done.n_callers == 1
    assert np.load(tmp_path / "outputs" / "default" / "0.npy").shape == (1, 64)


def test_an_output_that_is_sent_again_is_taken_once(tmp_path: Path) -> None:
    """As by a page whose network was gone before it was told that the first was kept."""
    outcome = trial(tmp_path, again=True)
    assert isinstance(outcome, Measured), outcome


@pytest.mark.parametrize(
    ("outputs", "says"),
    [
        ([(Y | {"index": 7}, 256)], "which the model does not have"),
        ([(Y | {"name": "z"}, 256)], "which the model does not have"),
        ([(Y | {"onnx_type": "int64"}, 512)], "as 'int64', expected float"),
        ([(Y | {"dims": [1, 65]}, 256)], "do not match their description"),
        ([(Y | {"dims": [1, 1 << 29]}, (1 << 31) - 4)], "more than its 268435456"),
        ([(Y, 256), (Y, 256)], "twice"),
        ([], "0 of 1 outputs"),
    ],
)  # fmt: skip
def test_outputs_that_are_not_the_models(
    outputs: list[tuple[dict[str, Any], int]], says: str, tmp_path: Path
) -> None:
    outcome = trial(tmp_path, outputs=outputs)
    assert isinstance(outcome, Failed) and outcome.reason == "protocol", outcome
    assert says in outcome.what


@pytest.mark.parametrize(
    ("last", "reason"),
    [
        ({"message": "error", "reason": "run-error", "what": "x" * 1_000_000}, "run-error"),
        ({"message": "error", "reason": "whatever", "what": "x"}, "protocol"),
        (DONE | {"n_runs": 1 << 70}, "protocol"),
        (DONE | {"about": {"agent": [1]}}, "protocol"),
        ({"message": "done", "cases": "[" * 10_000}, "protocol"),
    ],
    ids=["long words", "no reason", "a large number", "no agent", "no cases"],
)
def test_a_report_that_is_none(last: dict[str, Any], reason: str, tmp_path: Path) -> None:
    outcome = trial(tmp_path, last=last)
    assert isinstance(outcome, Failed) and outcome.reason == reason, outcome
    assert len(outcome.what) <= 2000


def test_a_page_that_never_stops_talking_is_held_to_its_limits(tmp_path: Path) -> None:
    outcome = trial(tmp_path, endlessly=True, limits=Limits(load_s=30, run_s=1))
    assert isinstance(outcome, Failed), outcome
    assert (outcome.reason, outcome.phase) == ("timeout", "running")
