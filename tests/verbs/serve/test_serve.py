"""A browser elsewhere: a real Chromium that opens the address as a phone would, and nothing else is told to it."""

from __future__ import annotations

import re
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from served_pages import hello, inputs, net, phone

import ortune
from chromium import hardly_warm, web_modules
from ortune.errors import MeasurementError, OrtuneError, UsageError
from ortune.inputs.feed_files import write_feeds
from ortune.measuring.watcher import Watcher
from ortune.records import Failed, FeedRef, Measured, Plan, ProviderSpec, Runtime, TrialRequest
from ortune.targets.browser import page, remote
from ortune.targets.browser.remote import CaseRun, Remote, heat
from ortune.targets.browser.server import PageServer
from ortune.targets.browser.setup import BrowserSetup
from ortune.targets.browser.site import Request, Site
from ortune.targets.machine import Machine
from ortune.targets.runner import run
from ortune.targets.task import Limits, TrialTask
from ortune.targets.turns import Turns
from ortune.verbs.bench.result import BenchResult
from ortune.verbs.compare.result import CompareResult
from ortune.verbs.tune.result import TuneResult


def trial(folder: Path, name: str, limits: Limits | None = None) -> TrialTask:
    """A trial of the net in a page."""
    write_feeds(folder / "feeds", {"x": np.ones((4, 16), np.float32)})
    (folder / name).mkdir()
    request = TrialRequest(
        model=str(net(folder / "m.onnx")),
        feeds=(FeedRef(name="all", path=str(folder / "feeds")),),
        warmup_runs=0,
    )
    return TrialTask(
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
        pytest.raises(OrtuneError, match="the browser disconnected, and did not open"),
    ):
        ortune.serve(
            net(tmp_path / "m.onnx"),
            ort_web=str(web_modules() / "onnxruntime-web"),
            store=tmp_path / "st",
            watcher=Watcher(say=there.say, step=lambda step: there.say(step.text)),
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
            budget=60,
            max_blocks=1,
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
    (told,) = [note for note in result.notes if "dropped frames per run at 60 Hz" in note]
    assert re.search(r": A \d+\.\d, B \d+\.\d$", told)
    assert len([s for s in there.said if "http://" in s]) == 1  # one address for all of it
    assert len(ortune.show(result.session, store=tmp_path / "st").result.sessions) == 1


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
    model = net(tmp_path / "m.onnx")
    with pytest.raises(UsageError, match=what):
        ortune.compare(model, model, serve=True, store=tmp_path / "st", **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(("verb", "sides"), [(ortune.compare, 2), (ortune.tune, 1)], ids=["compare", "tune"])
def test_an_address_without_a_browser_elsewhere_is_refused(
    verb: Callable[..., object], sides: int, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="add serve=True"):
        verb(*[net(tmp_path / "m.onnx")] * sides, address="192.168.1.20", store=tmp_path / "st")


@pytest.mark.parametrize("target", ["cpu", "web"])
def test_what_is_not_tuned_elsewhere(target: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot run the target"):
        ortune.tune(net(tmp_path / "m.onnx"), serve=True, target=target, store=tmp_path / "st")


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


def test_heat_is_the_last_minute_against_the_first() -> None:
    def ran(plan: str, start_s: float, ms: int) -> CaseRun:
        return CaseRun(plan=plan, case="c", start_s=start_s, end_s=start_s + 10, latency_ns=[ms * 10**6] * 3)

    # The slow plan ran late: that alone is no heat.
    both = [ran("a", 0, 10), ran("b", 20, 100), ran("b", 130, 120), ran("b", 150, 120), ran("a", 170, 12)]
    assert heat(both) == pytest.approx(1.2)
    assert heat(both[:2]) is None
    assert heat([]) is None
