"""Browsers and pages that end, hang or are stopped: data, never an exception, and no browser is left behind."""

from __future__ import annotations

import contextlib
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from browser_trials import (
    LONG_NS,
    PATIENCE_S,
    PROGRAM,
    WEB,
    Meanwhile,
    arguments,
    failure,
    members,
    pages,
    script,
    trial,
)

import ortune
from box import Box, refused, save_model
from chromium import Browser
from ortune import temporary
from ortune.catalogue.computed.web_build import default_of
from ortune.errors import RuntimeNotFound
from ortune.records import Measured
from ortune.targets.browser.page_job import FILES
from ortune.targets.browser.setup import BrowserSetup
from ortune.targets.browser.site import Request
from ortune.targets.task import Limits

OPENED_S = 1.5


def kill(process: psutil.Process) -> None:
    with contextlib.suppress(psutil.Error):
        process.kill()


def kill_first(found: list[psutil.Process]) -> None:
    """Kills the browser itself, which has no kind, once it has a page."""
    for each in found if pages(found) else ():
        if not any("--type" in part for part in arguments(each)):
            kill(each)


def crash_page(found: list[psutil.Process]) -> None:
    """Kills the processes of pages, as the system does when memory is short, once they show what they were opened for.

    Without its process before that, Chromium gives the opening up and says nothing, and the page stays empty.
    """
    for each in pages(found):
        if time.time() - each.create_time() > OPENED_S:
            kill(each)


def test_a_network_that_is_gone_in_the_middle_of_a_body(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the page asks for comes half at first; it is asked for again, and no message is lost or obeyed twice.

    onnxruntime-web itself fetches its WebAssembly once more, and gives up.
    """
    cut: list[str] = []
    usual = Request.begin

    def begin(
        request: Request, status: int, kind: str, size: int | None = None, *, keeps: str = "no-store"
    ) -> None:
        usual(request, status, kind, size, keeps=keeps)
        name = request.path.split("/", 2)[2]
        times = 2 if name.endswith(".wasm") else 1
        if not size or cut.count(name) == times or name in ("", "page.js", "favicon.ico"):
            return
        cut.append(name)

        def half(data: bytes) -> int:
            request.connection.sendall(data[: size // 2])
            request.connection.shutdown(socket.SHUT_RDWR)
            raise ConnectionResetError

        monkeypatch.setattr(request.wfile, "write", half)

    monkeypatch.setattr(Request, "begin", begin)
    outcome = trial(folder)
    assert isinstance(outcome, Measured), outcome
    assert set(cut) >= {"next/0", "model", "feed/0/0", "next/1", "next/2", "cpu", "next/3"}
    assert f"ort/{FILES[default_of('wasm')]}" in cut
    assert len([name for name in cut if re.fullmatch(r"ort/ort-wasm\S*\.wasm", name)]) == 2
    assert outcome.done.n_runs == 2 and outcome.done.cases[0].turn_runs == (2,)
    assert outcome.done.page is not None and outcome.done.page.repeated_turns == 0


def test_a_browser_that_is_killed(folder: Path) -> None:
    with Meanwhile(folder, kill_first):
        assert "SIGKILL" in failure("crash", folder, gap_ns=LONG_NS).what


def test_a_page_that_crashes(folder: Path) -> None:
    with Meanwhile(folder, crash_page):
        assert "page" in failure("crash", folder, gap_ns=LONG_NS).what


def test_too_long_a_run(folder: Path) -> None:
    assert failure("timeout", folder, gap_ns=LONG_NS, limits=Limits(run_s=0.3)).phase == "running"


def test_a_browser_that_hangs(folder: Path) -> None:
    hangs = script(folder, "sleep 600; exit")
    browser = BrowserSetup(browser=str(hangs))
    assert failure("timeout", folder, browser=browser, limits=Limits(load_s=1)).phase == "starting"


def test_a_browser_that_ends_at_once(folder: Path) -> None:
    browser = BrowserSetup(browser=str(script(folder, "exit 21")))
    assert "exit code 21" in failure("crash", folder, browser=browser).what


def test_no_adapter(folder: Path) -> None:
    """A browser that is not told to give its software adapter has none here."""
    lacking = 'for a; do shift; case "$a" in --enable-unsafe-webgpu) ;; *) set -- "$@" "$a";; esac; done; exec {} "$@"'
    browser = BrowserSetup(browser=str(script(folder, lacking.format(shlex.quote(PROGRAM)))))
    outcome = trial(folder, provider="webgpu", browser=browser)
    if isinstance(outcome, Measured):
        pytest.skip("this machine has a GPU")
    assert outcome.reason == "load-error"
    assert "adapter" in outcome.what


@pytest.mark.parametrize(
    "number",
    [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)],
    ids=lambda number: number.name,
)
def test_stopped_in_a_browsers_trial(box: Box, number: signal.Signals) -> None:
    long = (
        "compare",
        "m.onnx",
        "--target",
        "web-wasm",
        "--b-set",
        "web_threads=1",
        "--budget",
        "10m",
        "--json",
    )
    running = box.start(*long, "--gap", "100ms", "--ort-web", str(WEB.dist.parent))
    running.until(lambda: box.events("outcome") and pages(members(box.folder)))
    running.signal(number)
    refused(running.wait(), 130, "interrupted")
    assert members(box.folder) == []
    assert list((box.folder / "tmp").iterdir()) == []
    assert len(box.events("trial")) >= len(box.events("outcome")) >= 1


def test_stopped_before_a_browser_elsewhere_has_told_anything(box: Box) -> None:
    """Who stopped then waited until all was tried that comes before the first figure."""
    running = box.start("serve", "m.onnx", "--json", "--ort-web", str(WEB.dist.parent))
    said = box.folder / "0.err"
    running.until(lambda: said.exists() and re.search(r"http://\S+/\n", said.read_text()) is not None)
    (url,) = re.findall(r"http://\S+/(?=\n)", said.read_text())
    phone = Browser(url, box.folder / "profile")
    try:
        running.until(lambda: "logical processors" in said.read_text())
        running.signal(signal.SIGINT)
        done = running.wait()
    finally:
        phone.close()
    refused(done, 130, "interrupted")
    assert "stopped before anything" in done.err and "stopping after" not in done.err


def test_ortune_that_is_killed_leaves_no_browser(folder: Path) -> None:
    text = f"""
import os, signal, sys
from pathlib import Path
sys.path[:0] = {[str(Path(__file__).parent), *sys.path]!r}
from browser_trials import Meanwhile, pages, trial
def kill(found):
    if pages(found):
        os.killpg(os.getpgid(found[0].pid), signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGKILL)
with Meanwhile(Path.cwd(), kill):
    trial(Path.cwd(), gap_ns={LONG_NS})
"""
    command = [sys.executable, "-c", text]
    done = subprocess.run(command, cwd=folder, capture_output=True, check=False, timeout=PATIENCE_S)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    temporary.remove_sockets(folder)


@pytest.mark.parametrize("option", ["ort_web", "browser"])
def test_what_is_not_there_is_named_with_what_helps(option: str, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    save_model(path)
    with pytest.raises(RuntimeNotFound) as refused:
        ortune.bench(path, target="web-wasm", budget="3s", store=tmp_path / "store", **{option: "/nowhere"})
    said = str(refused.value)
    assert f"{option}='/nowhere" in said and "pass" in said
    assert "--runtime" not in said
