"""A browser elsewhere: a real Chromium that opens the address as a phone would, and nothing else is told to it."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urljoin

import numpy as np
import pytest

import ortune
from chromium import CHROMIUM, Browser, hardly_warm, web_modules
from onnx_text import model_of, saved
from ortune.errors import MeasurementError, OrtuneError, UsageError
from ortune.experiment.watcher import Watcher
from ortune.inputs.feed_files import write_feeds
from ortune.records import (
    BenchResult,
    CompareResult,
    Failed,
    FeedRef,
    Measured,
    Plan,
    ProviderSpec,
    Runtime,
    TrialRequest,
    TuneResult,
)
from ortune.targets.browser import certificate, page, remote
from ortune.targets.browser.remote import Ran, Remote, heat
from ortune.targets.browser.server import PageServer
from ortune.targets.browser.setup import BrowserSetup
from ortune.targets.browser.site import Request, Room, Site
from ortune.targets.machine import Machine
from ortune.targets.runner import run
from ortune.targets.task import Limits, Task
from ortune.targets.turns import Turns
from terminals import read_all


def net(path: Path) -> Path:
    """One product of matrices."""
    text = "g (float[4,16] x) => (float[4,16] y) { y = MatMul (x, w) }"
    return saved(path, model_of(text, weights={"w": np.eye(16, dtype=np.float32)}))


def inputs(folder: Path) -> str:
    """Real inputs: pages that ask whether invented ones are like them are left out."""
    np.savez(folder / "x.npz", x=np.ones((4, 16), np.float32))
    return str(folder / "x.npz")


class Phone:
    """Reads what is said, and opens the address that it finds there."""

    def __init__(self, profile: Path, *, leaves_at: str = "") -> None:
        self.said: list[str] = []
        self.profile, self.leaves_at = profile, leaves_at
        self.browser: Browser | None = None
        self.refused = 0

    def say(self, sentence: str) -> None:
        self.said.append(sentence)
        if self.leaves_at and self.leaves_at in sentence:
            threading.Timer(0.3, self.leave).start()
        found = re.search(r"(http://127\.0\.0\.1:\d+)/\S+/$", sentence)
        if found:
            try:
                urllib.request.urlopen(f"{found[1]}/model", timeout=10)
            except urllib.error.HTTPError as error:
                self.refused = error.code
            self.browser = Browser(found[0], self.profile)

    def leave(self) -> None:
        if self.browser is not None:
            self.browser.close()


@contextmanager
def phone(profile: Path, leaves_at: str = "") -> Iterator[Phone]:
    if CHROMIUM is None:
        pytest.skip("no Chromium is on this machine")
    made = Phone(profile, leaves_at=leaves_at)
    try:
        yield made
    finally:
        made.leave()


def trial(folder: Path, name: str, limits: Limits | None = None) -> Task:
    """A trial of the net in a page."""
    write_feeds(folder / "feeds", {"x": np.ones((4, 16), np.float32)})
    (folder / name).mkdir()
    request = TrialRequest(
        model=str(net(folder / "m.onnx")),
        feeds=(FeedRef(name="all", path=str(folder / "feeds")),),
        warmup_runs=0,
    )
    return Task(
        plan=Plan(providers=(ProviderSpec(name="wasm"),)),
        runtime=Runtime(python=""),
        request=request,
        folder=folder / name,
        scratch=folder,
        limits=limits or Limits(),
    )


def test_a_browser_that_opens_the_address_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hardly_warm(monkeypatch)
    with phone(tmp_path / "profile") as there:
        envelope = ortune.serve(
            net(tmp_path / "m.onnx"),
            inputs=inputs(tmp_path),
            ort_web=str(web_modules() / "onnxruntime-web"),
            processes=3,
            runs=5,
            budget=60,
            store=tmp_path / "st",
            watcher=Watcher(say=there.say),
        )
    result = envelope.result
    assert isinstance(result, BenchResult)
    assert there.refused == 403
    assert envelope.schema == "ortune/serve/1"
    assert result.rows[0].n_processes == 3 and result.rows[0].median_ns.value > 0
    assert result.rows[0].cpu_per_run_ns.value == 0 and result.rows[0].peak_bytes is None
    assert "Chromium" in envelope.host.cpu and envelope.host.machine == "browser"
    assert any("less than 2 min" in note for note in result.notes)
    assert result.reproduce.startswith("ortune serve ")
    token = next(s for s in there.said if "http://" in s).rstrip("/").rpartition("/")[2]
    kept = b"".join(p.read_bytes() for p in (tmp_path / "st").rglob("*") if p.is_file())
    assert token.encode() not in kept and token not in str(envelope)


def test_a_browser_that_goes_away_fails_its_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "AWAY_S", 1.0)  # where a trial is begun once more, nobody waits a minute
    with (
        phone(tmp_path / "profile", leaves_at="for the first time") as there,
        pytest.raises(OrtuneError, match="the browser went away"),
    ):
        ortune.serve(
            net(tmp_path / "m.onnx"),
            ort_web=str(web_modules() / "onnxruntime-web"),
            store=tmp_path / "st",
            watcher=Watcher(say=there.say, line=there.say),
        )


def test_a_browser_whose_network_was_gone_for_a_moment_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As behind a screen that was locked: every connection breaks while a page waits for its turn."""
    streams: list[socket.socket] = []
    cut: list[PageServer] = []
    tell, following = Remote._tell, PageServer._next

    def telling(there: Remote, request: Request, page: str) -> None:
        streams.append(request.connection)
        tell(there, request, page)

    def breaking(server: PageServer, request: Request, number: int) -> None:
        if number == 2 and server not in cut:  # it has loaded the model, and is warm
            cut.append(server)
            for each in (request.connection, streams[-1]):
                each.shutdown(socket.SHUT_RDWR)
        following(server, request, number)

    monkeypatch.setattr(Remote, "_tell", telling)
    monkeypatch.setattr(PageServer, "_next", breaking)
    monkeypatch.setattr(remote, "_AGAIN_MS", 100)
    events: list[str] = []
    show, take = Remote.show, PageServer._take

    def showing(there: Remote, url: str) -> None:
        events.append("shown")
        show(there, url)

    def taking(server: PageServer, path: str, body: bytes, request: Request) -> int:
        events.extend(["loaded"] if b'"loaded"' in body else [])
        return take(server, path, body, request)

    monkeypatch.setattr(Remote, "show", showing)
    monkeypatch.setattr(PageServer, "_take", taking)
    web = BrowserSetup(ort_web=str(web_modules() / "onnxruntime-web"))
    site = Site()
    with phone(tmp_path / "profile") as there:
        elsewhere = Remote(site, there.say)
        try:
            there.say(f"open {elsewhere.url}")
            assert elsewhere.wait(60, lambda: False)
            machine, turns = Machine(browser=web, remote=elsewhere), Turns(runs=5, unmeasured=0, rounds=2)
            both = run([trial(tmp_path, name) for name in "ab"], machine, turns)
            alone = run([trial(tmp_path, "c")], machine, turns)
        finally:
            elsewhere.close()
            site.close()
    assert len(cut) == 3 and len(streams) > 1
    assert events == ["shown", "loaded"] * 3  # each finds what the one before it has fetched
    for outcome in (*(both or ()), *(alone or ())):
        assert isinstance(outcome, Measured), outcome
        assert outcome.done.cases[0].turn_runs == (5, 5)


def test_a_page_is_opened_once_the_one_before_it_has_loaded_or_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two pages that load the same files at once may wait for each other in the browser, for a minute."""
    for limit in ("HIDDEN_S", "AWAY_S"):
        monkeypatch.setattr(page, limit, 0.1)
    shown: list[tuple[str, float]] = []
    usual = Remote.show

    def showing(there: Remote, url: str) -> None:
        shown.append((url, time.monotonic()))
        usual(there, url)

    monkeypatch.setattr(Remote, "show", showing)
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / "ort.min.mjs").touch()
    site = Site()
    there = Remote(site, lambda sentence: None)
    try:
        assert hello(there, "a", "b") == 204
        with urllib.request.urlopen(f"{there.url}pages/{'a' * 32}/{'b' * 32}", timeout=10):
            machine = Machine(browser=BrowserSetup(ort_web=str(tmp_path)), remote=there)
            both = [trial(tmp_path, name, Limits(load_s=0.1, run_s=0.1)) for name in ("a", "b")]
            outcomes = run(both, machine)  # of which neither says anything
    finally:
        there.close()
        site.close()
    assert [outcome.reason for outcome in outcomes or () if isinstance(outcome, Failed)] == ["timeout"] * 2
    (first, first_s), (second, second_s) = shown
    assert first != second and second_s - first_s >= 0.3


def test_sides_take_turns_in_one_browser_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hardly_warm(monkeypatch)
    with phone(tmp_path / "profile") as there:
        envelope = ortune.compare(
            net(tmp_path / "m.onnx"),
            inputs=inputs(tmp_path),
            target="web-wasm",
            b_set=["web_proxy=1"],
            objective="main-thread",
            serve=True,
            ort_web=str(web_modules() / "onnxruntime-web"),
            budget=1,
            no_why=True,
            store=tmp_path / "st",
            watcher=Watcher(say=there.say),
        )
    result = envelope.result
    assert isinstance(result, CompareResult)
    assert envelope.host.machine == "browser" and "Chromium" in envelope.host.cpu
    assert result.outputs.ok and result.comparison is not None and not result.failures
    assert {(r.knob, r.ok) for r in result.read_back} == {("web_proxy", True)}
    # A proxy is there for what a blocked main thread costs, which is told in frames too.
    (told,) = [note for note in result.notes if "frames of 60 Hz lost" in note]
    assert re.search(r": A \d+\.\d, B \d+\.\d$", told)
    assert len([s for s in there.said if "http://" in s]) == 1  # one address for all of it
    assert len(ortune.report(result.session, store=tmp_path / "st").result.sessions) == 1


def test_tuning_begins_with_what_a_browser_elsewhere_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hardly_warm(monkeypatch)
    with phone(tmp_path / "profile") as there:
        envelope = ortune.tune(
            net(tmp_path / "m.onnx"),
            inputs=inputs(tmp_path),
            target="web-wasm",
            serve=True,
            ort_web=str(web_modules() / "onnxruntime-web"),
            budget=1,
            bundle=False,
            store=tmp_path / "st",
            watcher=Watcher(say=there.say),
        )
    result = envelope.result
    assert isinstance(result, TuneResult)
    assert envelope.host.machine == "browser"
    assert result.default == Plan(providers=(ProviderSpec(name="wasm"),))
    assert result.default_figures is not None and result.default_figures.latency_ns > 0
    assert "--serve" in result.reproduce


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({}, "cannot run the target cpu"),
        ({"target": "web-wasm", "a_target": "cpu"}, "cannot run the target cpu"),
        ({"target": "web-wasm", "objective": "memory"}, "memory"),
        ({"target": "web-wasm", "cpus": 1}, "CPU and memory limits"),
    ],
)
def test_what_is_not_compared_elsewhere(given: dict[str, object], what: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=what):
        ortune.compare(net(tmp_path / "m.onnx"), serve=True, store=tmp_path / "st", **given)  # type: ignore[arg-type]


@pytest.mark.parametrize("verb", [ortune.compare, ortune.tune], ids=["compare", "tune"])
def test_an_address_without_a_browser_elsewhere_is_refused(
    verb: Callable[..., object], tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="add --serve"):
        verb(net(tmp_path / "m.onnx"), address="192.168.1.20", store=tmp_path / "st")


@pytest.mark.parametrize("target", ["cpu", "web"])
def test_what_is_not_tuned_elsewhere(target: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot run the target"):
        ortune.tune(net(tmp_path / "m.onnx"), serve=True, target=target, store=tmp_path / "st")


def hello(remote: Remote, who: str, page: str) -> int:
    told = {"id": who * 32, "page": page * 32, "agent": "x", "secure": True, "isolated": True}
    asked = urllib.request.Request(f"{remote.url}hello", data=json.dumps(told).encode(), method="POST")
    try:
        with urllib.request.urlopen(asked, timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_who_only_previews_an_address_is_not_taken_for_the_browser() -> None:
    """Messengers open an address to show what it is, and are gone."""
    site = Site()
    there = Remote(site, lambda sentence: None)
    try:
        assert hello(there, "a", "b") == 204 and not there.wait(0.1, lambda: False)
        assert hello(there, "c", "d") == 204
        with urllib.request.urlopen(f"{there.url}pages/{'c' * 32}/{'d' * 32}", timeout=10):
            assert there.wait(10, lambda: False) and there.hello is not None and there.hello.id == "c" * 32
            assert hello(there, "e", "f") == 409
            assert hello(there, "c", "a") == 204  # loaded again
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"{there.url}pages/{'a' * 32}/{'b' * 32}", timeout=10)
    finally:
        there.close()
        site.close()


def test_each_onnxruntime_web_has_an_address_of_its_own_there(tmp_path: Path) -> None:
    """Else the browser would give one side what it keeps of the other's."""
    site = Site()
    there = Remote(site, lambda sentence: None)
    try:
        found = {}
        for version in ("1.22.0", "1.30.0"):
            dist = tmp_path / version / "dist"
            dist.mkdir(parents=True)
            (dist / "ort.mjs").write_text(version)
            found[version] = there.builds(dist)
            assert there.builds(dist) == found[version]
        for version, place in found.items():
            with urllib.request.urlopen(urljoin(there.url, f"{place}ort.mjs"), timeout=10) as answer:
                assert answer.read().decode() == version
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"{there.url}ort/ort.mjs", timeout=10)
    finally:
        there.close()
        site.close()


def test_no_token_is_told_where_a_file_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a browser says of it names the whole address, which lets in who has it."""
    tokens: list[str] = []
    usual = Site.open

    def opened(site: Site, room: Room, token: str = "") -> str:
        url = usual(site, room, token)
        tokens.append(url.rstrip("/").rpartition("/")[2])
        return url

    monkeypatch.setattr(Site, "open", opened)
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / "ort.other.mjs").touch()
    with phone(tmp_path / "profile") as there, pytest.raises(OrtuneError, match="has no file") as caught:
        ortune.serve(
            net(tmp_path / "m.onnx"),
            ort_web=str(tmp_path),
            store=tmp_path / "st",
            watcher=Watcher(say=there.say),
        )
    assert len(tokens) >= 2 and "/…/ort/" in str(caught.value)
    told = [s for s in there.said if not s.startswith("open this on the other device")]
    kept = b"".join(p.read_bytes() for p in (tmp_path / "st").rglob("*") if p.is_file())
    assert kept
    for token in tokens:
        assert token.encode() not in kept and token not in f"{caught.value} {told}"


@pytest.mark.parametrize(
    ("environment", "tty", "drawn"), [({}, True, True), ({"NO_COLOR": "1"}, True, False), ({}, False, False)]
)
def test_a_code_to_scan_is_drawn_in_a_terminal_with_colours_alone(
    environment: dict[str, str], tty: bool, drawn: bool, tmp_path: Path
) -> None:
    pytest.importorskip("segno")
    pty = pytest.importorskip("pty")
    command = [
        sys.executable,
        "-m",
        "ortune",
        "serve",
        str(net(tmp_path / "m.onnx")),
        "--open-within",
        "300ms",
    ]
    kept = {
        name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "CI")
    }
    env = {**kept, "COLUMNS": "120", "TERM": "xterm-256color", "XDG_DATA_HOME": str(tmp_path), **environment}
    outer, inner = pty.openpty()
    with (tmp_path / "err").open("wb") as plain:
        process = subprocess.Popen(
            command, env=env, stdout=subprocess.DEVNULL, stderr=inner if tty else plain, close_fds=True
        )
    os.close(inner)
    printed = read_all(outer)
    assert process.wait(timeout=60) == 3
    said = printed if tty else (tmp_path / "err").read_bytes()
    assert b"http://127.0.0.1:" in said
    assert ("▀".encode() in said) is drawn


def test_a_port_that_is_taken_is_told(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(UsageError, match="cannot listen"):
            ortune.serve(net(tmp_path / "m.onnx"), port=taken.getsockname()[1])


def test_nobody_comes(tmp_path: Path) -> None:
    with pytest.raises(MeasurementError, match="no browser connected"):
        ortune.serve(net(tmp_path / "m.onnx"), open_within="300ms", store=tmp_path / "st")


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"address": "0.0.0.0"}, "every address"),
        ({"address": "phone"}, "IPv4"),
        ({"cert": "c.pem"}, "needs a key"),
        ({"cert": "c.pem", "key": "k.pem"}, "cannot be used"),
        ({"target": "cpu"}, "not in a browser"),
    ],
)
def test_what_cannot_be_served(given: dict[str, str], what: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=what):
        ortune.serve(net(tmp_path / "m.onnx"), **given)  # type: ignore[arg-type]


def test_beyond_127_0_0_1_it_is_https(tmp_path: Path) -> None:
    """127.0.0.2 with a certificate of one's own stands for an address of a network."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl is on this machine")
    cert, key = tmp_path / "c.pem", tmp_path / "k.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    command += [
        "-subj",
        "/CN=x",
        "-addext",
        "subjectAltName=IP:127.0.0.2",
        "-keyout",
        str(key),
        "-out",
        str(cert),
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=30)
    seen: list[tuple[int, str]] = []

    def asks(sentence: str) -> None:
        found = re.search(r"https://(127\.0\.0\.2):(\d+)(/\S+/)$", sentence)
        if found:
            trusting = ssl.create_default_context(cafile=str(cert))
            asked = http.client.HTTPSConnection(found[1], int(found[2]), context=trusting, timeout=10)
            asked.request("GET", found[3])
            answer = asked.getresponse()
            seen.append((answer.status, answer.headers["Referrer-Policy"]))
            asked.close()

    with pytest.raises(MeasurementError, match="no browser connected"):
        ortune.serve(
            net(tmp_path / "m.onnx"),
            address="127.0.0.2",
            cert=str(cert),
            key=str(key),
            open_within="300ms",
            watcher=Watcher(say=asks),
        )
    assert seen == [(200, "no-referrer")]


def test_a_certificate_is_made_where_the_user_has_none(tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl is on this machine")
    cert, key = certificate.create("127.0.0.2", tmp_path)
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert, key)
    assert key.stat().st_mode & 0o077 == 0


def test_heat_is_the_last_minute_against_the_first() -> None:
    def ran(plan: str, start_s: float, ms: int) -> Ran:
        return Ran(plan=plan, case="c", start_s=start_s, end_s=start_s + 10, latency_ns=[ms * 10**6] * 3)

    # The slow plan ran late: that alone is no heat.
    both = [ran("a", 0, 10), ran("b", 20, 100), ran("b", 130, 120), ran("b", 150, 120), ran("a", 170, 12)]
    assert heat(both) == pytest.approx(1.2)
    assert heat(both[:2]) is None
    assert heat([]) is None
