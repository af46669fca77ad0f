"""A trial in a browser whose end a test decides, and the processes of that browser."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil
import pytest

from box import save_model
from ortune.errors import RuntimeNotFound
from ortune.inputs.feed_files import write_feeds
from ortune.records import Failed, FeedRef, Outcome, Plan, ProviderSpec, Runtime, TrialRequest, Value
from ortune.targets.browser import setup
from ortune.targets.browser.setup import BrowserSetup
from ortune.targets.machine import Machine
from ortune.targets.runner import run
from ortune.targets.task import Limits, TrialTask
from ortune.targets.turns import Turns

try:
    PROGRAM, WEB = setup.program(BrowserSetup()), setup.ort_web(BrowserSetup())
except RuntimeNotFound as error:
    pytest.skip(f"NOTHING IN A BROWSER IS TESTED: {error.what}", allow_module_level=True)

PATIENCE_S = 60.0
LONG_NS = 20_000_000_000


def members(folder: Path) -> list[psutil.Process]:
    """Processes of browsers whose profile lies in a folder, and that live."""
    found = []
    for each in psutil.process_iter(["cmdline", "status"]):
        alive = each.info["status"] != psutil.STATUS_ZOMBIE
        if alive and any(str(folder) in part for part in each.info["cmdline"] or ()):
            found.append(each)
    return found


def trial(
    folder: Path,
    *,
    provider: str = "wasm",
    browser: BrowserSetup | None = None,
    limits: Limits | None = None,
    gap_ns: int = 0,
    feeds: dict[str, np.ndarray] | None = None,
    settings: dict[str, Value] | None = None,
) -> Outcome:
    if not (folder / "m.onnx").exists():
        save_model(folder / "m.onnx")
    write_feeds(folder / "feeds", feeds or {"x": np.zeros((1, 64), dtype=np.float32)})
    request = TrialRequest(
        model=str(folder / "m.onnx"), feeds=(FeedRef(name="default", path=str(folder / "feeds")),),
        warmup_runs=0, warmup_ns=0, gap_ns=gap_ns,
    )  # fmt: skip
    task = TrialTask(
        plan=Plan(settings=settings or {}, providers=(ProviderSpec(name=provider),)),
        runtime=Runtime(python=sys.executable), request=request,
        folder=folder, scratch=folder, limits=limits or Limits(),
    )  # fmt: skip
    found = run([task], Machine(browser=browser), Turns(runs=2, unmeasured=0, rounds=1))
    assert found is not None
    return found[0]


def failure(reason: str, folder: Path, **how: object) -> Failed:
    outcome = trial(folder, **how)  # type: ignore[arg-type]
    assert isinstance(outcome, Failed), outcome
    assert outcome.reason == reason, outcome
    return outcome


class Meanwhile:
    """Does something to the browser of a trial again and again, until the trial is over."""

    def __init__(self, folder: Path, what: Callable[[list[psutil.Process]], None]) -> None:
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._repeat, args=(folder, what), daemon=True)

    def _repeat(self, folder: Path, what: Callable[[list[psutil.Process]], None]) -> None:
        while not self._over.wait(0.05):
            what(members(folder))

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


def arguments(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:  # it has ended
        return ["--type=ended"]


def pages(found: list[psutil.Process]) -> list[psutil.Process]:
    return [each for each in found if "--type=renderer" in arguments(each)]


def script(folder: Path, text: str) -> Path:
    path = folder / "browser.sh"
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
    return path
