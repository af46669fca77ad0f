"""A real browser, told what to do through its pipe."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from ortune import targets, temporary
from ortune.errors import RuntimeNotFound
from ortune.records import Runtime
from ortune.targets.browser import setup
from ortune.targets.browser.devtools import DevTools
from ortune.targets.browser.devtools_messages import DevToolsError, PageEvent
from ortune.targets.browser.offers import refused

PATIENCE_S = 60.0
try:
    PROGRAM = setup.program(setup.BrowserSetup())
except RuntimeNotFound as error:
    pytest.skip(f"NOTHING IN A BROWSER IS TESTED: {error.what}", allow_module_level=True)


class Browser:
    """A browser whose events wait to be read."""

    def __init__(self, folder: Path) -> None:
        self.events: queue.Queue[PageEvent] = queue.Queue()
        self.folder = folder
        flags = setup.flags((), headful=False, profile=folder / "browser")
        with (folder / "log").open("wb") as log:
            self.tools = DevTools(
                PROGRAM, flags, environment=setup.environment(folder), folder=folder, log=log,
                happened=self.events.put,
            )  # fmt: skip

    def close(self) -> None:
        self.tools.close()
        temporary.remove_sockets(self.folder)

    def until(self, kind: str, text: str = "") -> PageEvent:
        while True:
            event = self.events.get(timeout=PATIENCE_S)
            if event.kind == kind and text in event.text:
                return event


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    made = Browser(tmp_path_factory.mktemp("devtools"))
    try:
        made.tools.open("data:text/html,<title>a page</title>", before="globalThis.early = 3")
        yield made
    finally:
        made.close()


def test_javascript_has_a_value(browser: Browser) -> None:
    assert browser.tools.evaluate("Promise.resolve([document.title, early])") == ["a page", 3]
    with pytest.raises(DevToolsError, match="no such thing"):
        browser.tools.evaluate("throw new Error('no such thing')")
    with pytest.raises(DevToolsError, match=r"no answer within 0 s"):
        browser.tools.evaluate("new Promise(() => {})", 0.2)
    with pytest.raises(DevToolsError, match=r"No.Such"):
        browser.tools.call("No.Such")


def test_what_a_page_and_its_workers_say_is_heard(browser: Browser) -> None:
    browser.tools.evaluate("console.warn('to and', {a: 1}, 2)")
    said = browser.until("console", "to and")
    assert (said.level, said.text, said.worker) == ("warning", "to and Object 2", False)
    inside = "new Blob(['console.log(7, 8)'], {type: 'text/javascript'})"
    browser.tools.evaluate(f"void new Worker(URL.createObjectURL({inside}))")
    assert browser.until("console", "7 8").worker
    browser.tools.evaluate("void setTimeout(() => { throw new Error('nobody caught it') })")
    assert "nobody caught it" in browser.until("exception").text


def test_what_a_page_asks_where_nobody_sees_it_is_answered(browser: Browser) -> None:
    assert browser.tools.evaluate("confirm('really?')") is False
    assert browser.until("log", "really?").level == "warning"
    browser.tools.navigate("data:text/html,<title>asks</title><script>alert('a cookie?')</script>")
    assert browser.tools.evaluate("document.title") == "asks"


def test_a_page_that_crashes_and_a_browser_that_is_killed_are_told(tmp_path: Path) -> None:
    browser = Browser(tmp_path)
    try:
        with pytest.raises(DevToolsError):
            browser.tools.open("http://127.0.0.1:1/")
        browser.tools.open("data:text/html,a")
        with pytest.raises(DevToolsError, match="ended"):
            browser.tools.call("Page.crash")
        browser.until("crash")
        os.killpg(browser.tools.child.pid, signal.SIGKILL)
        browser.until("gone")
        with pytest.raises(DevToolsError, match="ended"):
            browser.tools.evaluate("1")
    finally:
        browser.close()


def test_nothing_of_it_is_left_when_ortune_is_killed(tmp_path: Path) -> None:
    text = f"""
import os, signal, sys
from pathlib import Path
sys.path[:0] = {[str(Path(__file__).parent), *sys.path]!r}
from test_devtools import Browser
browser = Browser(Path({str(tmp_path)!r}))
browser.tools.open("data:text/html,a")
browser.tools.child.sleep(True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    deadline = time.monotonic() + PATIENCE_S
    while left := users_of(tmp_path):
        assert time.monotonic() < deadline, left
        time.sleep(0.05)
    temporary.remove_sockets(tmp_path)


def users_of(folder: Path) -> list[str]:
    """Processes that live and name a folder in their arguments."""
    found = []
    for each in psutil.process_iter(["name", "cmdline", "status"]):
        alive = each.info["status"] != psutil.STATUS_ZOMBIE
        if alive and any(str(folder) in part for part in each.info["cmdline"] or ()):
            found.append(each.info["name"])
    return found


def test_what_a_browser_refuses_is_told_in_its_words(tmp_path: Path) -> None:
    """A browser that answers at all, whatever this one has; and one that ends at once."""
    assert set(refused(PROGRAM)) == {"webgl", "webgpu", "webnn"}
    ends = tmp_path / "browser.sh"
    ends.write_text("#!/bin/sh\nexit 3\n", encoding="utf-8")
    ends.chmod(0o755)
    assert all("ended" in why for why in refused(str(ends)).values())


@pytest.mark.parametrize("headful", [False, True])
def test_the_browser_that_the_user_chose_is_asked_as_its_trials_will_start_it(
    headful: bool, tmp_path: Path
) -> None:
    asked = tmp_path / "asked"
    chosen = tmp_path / "browser.sh"
    chosen.write_text(f'#!/bin/sh\necho "$@" >> {asked}\nexit 3\n', encoding="utf-8")
    chosen.chmod(0o755)
    browser = setup.BrowserSetup(browser=str(chosen), headful=headful)
    found = targets.find("web-webgpu").discover(Runtime(python=""), browser)
    assert not found.usable and "ended" in found.why
    assert ("--headless=new" in asked.read_text(encoding="utf-8")) is not headful


def test_a_browser_named_from_here_is_found_wherever_it_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "browser.sh").write_text("#!/bin/sh\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert setup.program(setup.BrowserSetup(browser="./browser.sh")) == str(tmp_path / "browser.sh")
