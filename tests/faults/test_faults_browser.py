"""Trials in a browser that come to a bad end: data, never an exception, and no browser is left behind."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import numpy as np
import onnx
import psutil
import pytest
from box import Box, refused, save_model
from onnx import TensorProto, helper

import ortune
from chromium import Browser
from ortune import temporary
from ortune.errors import RuntimeNotFound
from ortune.inputs.feed_files import write_feeds
from ortune.knobs.web.web_build import default_of
from ortune.records import (
    Failed,
    FeedRef,
    Measured,
    Outcome,
    Plan,
    ProviderSpec,
    Runtime,
    TrialRequest,
    Value,
)
from ortune.targets.browser import setup
from ortune.targets.browser.devtools import DevTools
from ortune.targets.browser.page import _TOKEN, Page
from ortune.targets.browser.page_job import FILES
from ortune.targets.browser.server import PageServer
from ortune.targets.browser.setup import BrowserSetup
from ortune.targets.browser.site import Request
from ortune.targets.machine import Machine
from ortune.targets.process import Process
from ortune.targets.runner import run
from ortune.targets.task import Limits, Task
from ortune.targets.turns import Turns

try:
    PROGRAM, WEB = setup.program(BrowserSetup()), setup.ort_web(BrowserSetup())
except RuntimeNotFound as error:
    pytest.skip(f"NOTHING IN A BROWSER IS TESTED: {error.what}", allow_module_level=True)

PAGE_JS = Path(setup.__file__).with_name("page.js")
PATIENCE_S = 60.0
LONG_NS = 20_000_000_000
OPENED_S = 1.5


def members(folder: Path) -> list[psutil.Process]:
    """Processes of browsers whose profile lies in a folder, and that live."""
    found = []
    for each in psutil.process_iter(["cmdline", "status"]):
        alive = each.info["status"] != psutil.STATUS_ZOMBIE
        if alive and any(str(folder) in part for part in each.info["cmdline"] or ()):
            found.append(each)
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Where a trial is; nothing that runs in it may be left."""
    yield tmp_path
    deadline = time.monotonic() + PATIENCE_S
    while left := members(tmp_path):
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


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
    task = Task(
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


class Tabs:
    """Puts another tab before the page of the one trial that runs, and takes it away again."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.said: list[str] = []
        self.tools: DevTools | None = None
        self.at: dict[str, Callable[[], None]] = {}
        usual_show, usual_said = DevTools.show, Page._said

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
        monkeypatch.setattr(Page, "_said", said)

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
        Process.batch(page, runs, unmeasured)

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
    assert "while it loaded the model" in failed.what and failed.phase == "loading"


def test_a_first_run_in_a_hidden_page_is_no_figure(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run blocks the page, which hears only after it that it was hidden meanwhile: a run of seconds anywhere."""
    nodes = [helper.make_node("MatMul", [f"x{i}", "x0"], [f"x{i + 1}"]) for i in range(24)]
    sizes = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1024, 1024]) for name in ("x0", "x24")]
    graph = helper.make_graph(nodes, "g", sizes[:1], sizes[1:])
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7), folder / "m.onnx"
    )
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
    assert "while it ran for the first time" in failed.what and failed.phase == "running"


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


def script(folder: Path, text: str) -> Path:
    path = folder / "browser.sh"
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def dist(folder: Path, *, without: str) -> BrowserSetup:
    """A copy of onnxruntime-web's builds, but for some of their files; links that lead out of it are not served."""
    place = folder / "onnxruntime-web" / "dist"
    place.mkdir(parents=True)
    for file in WEB.dist.iterdir():
        if not file.match(without):
            shutil.copyfile(file, place / file.name)
    return BrowserSetup(ort_web=str(place.parent))


def test_a_webassembly_file_that_is_missing(folder: Path) -> None:
    failed = failure("load-error", folder, browser=dist(folder, without="*.wasm"))
    assert "onnxruntime-web has no file ort-wasm-simd-threaded" in failed.what


def test_a_build_that_is_missing(folder: Path) -> None:
    name = FILES[default_of("wasm")]
    failed = failure("load-error", folder, browser=dist(folder, without=name))
    assert name in failed.what
    # What Chromium says of it names the whole address.
    assert f"/…/ort/{name}" in failed.what and _TOKEN not in str(msgspec.json.encode(failed))


def test_the_build_is_named_by_the_file_that_was_loaded(folder: Path) -> None:
    outcome = trial(folder, settings={"web_build": "asyncify"})
    assert isinstance(outcome, Measured), outcome
    (found,) = outcome.done.read_back
    assert (found.level, found.ok, found.seen) == ("effect", True, "ort-wasm-simd-threaded.asyncify.wasm")


def test_a_build_that_is_another_one_by_that_name(folder: Path) -> None:
    """As in 1.22, where JSEP is what a page imports as onnxruntime-web/webgpu."""
    browser = dist(folder, without=FILES["asyncify"])
    shutil.copyfile(WEB.dist / FILES["jsep"], Path(browser.ort_web) / "dist" / FILES["asyncify"])
    failed = failure("not-applied", folder, browser=browser, settings={"web_build": "asyncify"})
    assert {"web_build", "ort-wasm-simd-threaded.jsep.wasm"} <= {*failed.what.replace(":", "").split()}
    for path in (Path(browser.ort_web) / "dist").glob("*.asyncify.wasm"):
        path.unlink()
    failed = failure("unsupported", folder, browser=browser, settings={"web_build": "asyncify"})
    assert "has no build asyncify" in failed.what


def first(monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Has the page run something before all else."""
    usual = Request.own

    def own(request: Request, name: str) -> None:
        if name != "page.js":
            usual(request, name)
            return
        request.answer(200, (script + PAGE_JS.read_text(encoding="utf-8")).encode(), "text/javascript")

    monkeypatch.setattr(Request, "own", own)


def test_the_gpu_that_is_told_is_the_one_that_is_asked_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first(
        monkeypatch,
        "GPU.prototype.requestAdapter = async (asked) => { throw new Error(JSON.stringify(asked ?? {})); };",
    )
    settings: dict[str, Value] = {"web_power_preference": "high-performance"}
    failed = failure("load-error", folder, provider="webgpu", settings=settings)
    assert failed.what == '{"powerPreference":"high-performance"}'


@pytest.mark.parametrize("location", ["cpu", "gpu-buffer"])
def test_the_queue_is_waited_for_where_outputs_stay_on_the_gpu(
    location: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first(
        monkeypatch,
        "GPUQueue.prototype.onSubmittedWorkDone = async () => { throw new Error('the queue was waited for'); };",
    )
    settings: dict[str, Value] = {"web_build": "jsep", "web_output_location": location}
    outcome = trial(folder, provider="webgpu", settings=settings)
    if isinstance(outcome, Failed) and "adapter" in outcome.what:
        pytest.skip(outcome.what)
    waited = isinstance(outcome, Failed) and "the queue was waited for" in outcome.what
    assert waited == (location == "gpu-buffer"), outcome


def test_a_webassembly_file_that_is_damaged(folder: Path) -> None:
    browser = dist(folder, without="*.wasm")
    for file in WEB.dist.glob("*.wasm"):
        with file.open("rb") as whole:
            (Path(browser.ort_web) / "dist" / file.name).write_bytes(whole.read(100_000))
    failure("load-error", folder, browser=browser)


@pytest.mark.parametrize("elements", [1_073_000_000, 1_200_000_000], ids=["no memory left", "beyond 32 bits"])
def test_more_than_webassembly_can_hold(folder: Path, elements: int) -> None:
    graph = helper.make_graph(
        [
            helper.make_node("ConstantOfShape", ["n"], ["big"]),
            helper.make_node("ReduceMax", ["big"], ["y"], keepdims=0),
        ],
        "g",
        [helper.make_tensor_value_info("n", TensorProto.INT64, [1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7)
    onnx.save(model, folder / "m.onnx")
    failure("out-of-memory", folder, feeds={"n": np.array([elements])})


def test_weights_beyond_what_a_page_can_fetch(folder: Path) -> None:
    weight = TensorProto(
        name="w", data_type=TensorProto.UINT8, dims=[2 << 30], data_location=TensorProto.EXTERNAL
    )
    weight.external_data.add(key="location", value="w.bin")
    graph = helper.make_graph(
        [helper.make_node("Gather", ["w", "i"], ["y"])],
        "g",
        [helper.make_tensor_value_info("i", TensorProto.INT64, [1])],
        [helper.make_tensor_value_info("y", TensorProto.UINT8, [1])],
        [weight],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7)
    onnx.save(model, folder / "m.onnx")
    with (folder / "w.bin").open("wb") as file:
        file.truncate(2 << 30)
    failed = failure("unsupported", folder, feeds={"i": np.array([0])})
    assert "w.bin has 2.0 GiB" in failed.what and "quantize the weights" in failed.what


def test_a_model_that_is_none(folder: Path) -> None:
    (folder / "m.onnx").write_bytes(b"\0" * 100)
    failure("load-error", folder)


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
from test_faults_browser import Meanwhile, pages, trial
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
    assert f"--{option.replace('_', '-')} /nowhere" in said and "pass" in said
    assert "--runtime" not in said
