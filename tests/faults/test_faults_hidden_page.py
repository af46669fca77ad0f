"""A page that is hidden while it is timed: a turn is taken again, and a load or a first run is no figure."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from browser_trials import PATIENCE_S, failure, trial

from facts import facts
from onnx_text import model_of
from ortune.records import Measured, Value
from ortune.targets.browser.devtools import DevTools
from ortune.targets.browser.page import Page
from ortune.targets.browser.server import PageServer
from ortune.targets.browser.site import Request
from ortune.targets.process import ProcessRunner
from ortune.targets.task import Limits


class Tabs:
    """Puts another tab before the page of the one trial that runs, and takes it away again."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.said: list[str] = []
        self.tools: DevTools | None = None
        self.at: dict[str, Callable[[], None]] = {}
        usual_show, usual_said = DevTools.show, Page._take_message

        def show(tools: DevTools, url: str, limit_s: float) -> None:
            self.tools = tools
            usual_show(tools, url, limit_s)

        def said(page: Page, line: bytes | None) -> None:
            usual_said(page, line)
            message = json.loads(line or b"{}").get("message", "")
            self.said.append(message)
            if message in self.at:
                self.at.pop(message)()

        monkeypatch.setattr(DevTools, "show", show)
        monkeypatch.setattr(Page, "_take_message", said)

    def hide(self) -> None:
        assert self.tools is not None
        self.tools._call("Target.createTarget", "", PATIENCE_S, {"url": "about:blank"})

    def show_again(self) -> None:
        assert self.tools is not None
        self.tools._call("Target.activateTarget", "", PATIENCE_S, {"targetId": self.tools._target})


def test_a_turn_in_a_hidden_page_is_taken_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tabs = Tabs(monkeypatch)

    def batch(page: Page, runs: int, unmeasured: int) -> None:
        threading.Timer(0.3, tabs.hide).start()  # in the pause between its two runs
        threading.Timer(1.3, tabs.show_again).start()
        ProcessRunner.batch(page, runs, unmeasured)

    monkeypatch.setattr(Page, "batch", batch)
    outcome = trial(folder, gap_ns=500_000_000)
    assert isinstance(outcome, Measured), outcome
    assert outcome.done.page is not None and outcome.done.page.repeated_turns == 1
    assert outcome.done.n_runs == 2 and outcome.done.cases[0].turn_runs == (2,)
    assert outcome.done.wall_ns < 1_900_000_000  # of the turn that counts alone


def test_a_page_that_stays_hidden(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tabs = Tabs(monkeypatch)
    tabs.at["loaded"] = tabs.hide
    failed = failure("hidden", folder, limits=Limits(run_s=2))
    assert "hidden for 1 s" in failed.what and failed.phase == "running"


def test_a_load_in_a_hidden_page_is_no_figure(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tabs, usual = Tabs(monkeypatch), PageServer._file

    def file(server: PageServer, request: Request, path: Path, *, keeps: str = "no-store") -> None:
        if path.suffix == ".wasm":  # a session that is created fetches it
            tabs.hide()
            tabs.show_again()
        usual(server, request, path, keeps=keeps)

    monkeypatch.setattr(PageServer, "_file", file)
    failed = failure("hidden", folder)
    assert failed.phase == "loading"
    facts(failed.what, "while it loaded")


def test_a_first_run_in_a_hidden_page_is_no_figure(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run blocks the page, which hears only after it that it was hidden meanwhile: a run of seconds anywhere."""
    products = " ".join(f"x{i + 1} = MatMul (x{i}, x0)" for i in range(24))
    graph = f"g (float[1024,1024] x0) => (float[1024,1024] x24) {{ {products} }}"
    onnx.save(model_of(graph, 13, ir_version=7), folder / "m.onnx")
    tabs, usual = Tabs(monkeypatch), PageServer.get

    def hide() -> None:
        tabs.hide()
        tabs.show_again()

    def get(server: PageServer, path: str, request: Request) -> None:
        usual(server, path, request)
        if path == "feed/0/0":
            threading.Timer(0.5, hide).start()

    monkeypatch.setattr(PageServer, "get", get)
    one: dict[str, Value] = {"web_threads": 1}  # however many CPUs there are
    failed = failure("hidden", folder, feeds={"x0": np.zeros((1024, 1024), dtype=np.float32)}, settings=one)
    assert failed.phase == "running"
    facts(failed.what, "while it ran")
