"""Profiles as sessions: stored whatever else fails, told again, set side by side, drawn as a page."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from profiled_chain import conv_chain

import ortune
from damaged_traces import GOLDEN
from facts import facts
from ortune.engines.profiling.deliver import STORED
from ortune.errors import Interrupted, UsageError
from ortune.measuring.watcher import Watcher
from ortune.records import Envelope, ProfileResult
from ortune.show import markdown
from ortune.step import Step
from ortune.store.db import Store
from ortune.verbs.profile import run as profile
from ortune.verbs.profile import words as profile_words
from ortune.verbs.report import words as report_words
from ortune.verbs.report.result import ReportResult


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models and two traces, the last of them against another."""
    folder = tmp_path_factory.mktemp("kept")
    place = folder / "store"
    plain = conv_chain(folder / "plain.onnx")
    ortune.profile(plain, set=["intra=1"], no_peak=True, store=place)
    ortune.profile(plain, set=["intra=1", "level=basic"], no_peak=True, store=place)
    ortune.profile(GOLDEN / "ort-1.31.1.json", store=place)
    ortune.profile(GOLDEN / "ort-1.15.1.json", against=GOLDEN / "ort-1.31.1.json", store=place)
    return place


def told(store: Path, *ids: str, timeline: bool = False) -> tuple[Envelope, ReportResult]:
    envelope = ortune.show(*ids, store=store, timeline=timeline)
    assert isinstance(envelope.result, ReportResult)
    return envelope, envelope.result


def test_every_profile_is_listed(store: Path) -> None:
    _, result = told(store)
    assert [s.verb for s in result.sessions] == ["profile"] * 4
    assert [Path(s.label).name for s in result.sessions] == [
        "ort-1.15.1.json", "ort-1.31.1.json", "plain.onnx", "plain.onnx",
    ]  # fmt: skip
    assert all(s.headline and not s.trouble and s.state == "done" for s in result.sessions)
    assert [s.here for s in result.sessions] == [None, None, True, True]
    assert all(s.timeline is None for s in result.sessions)


def test_a_session_is_told_as_it_was(store: Path) -> None:
    _, result = told(store)
    for session in result.sessions:
        envelope, again = told(store, session.id)
        document = again.sessions[0].document
        assert isinstance(document, Envelope) and isinstance(document.result, ProfileResult)
        assert document.result.session == session.id
        text = markdown.render(report_words.document(envelope))
        itself = f"    ortune report {session.id} --store {store} -v\n"
        shown = markdown.render(profile_words.document(document))
        assert itself in shown
        # Markdown has all details, so the report does not propose itself.
        shown = shown.replace(f"#### next\n\n{itself}\n", "").replace(itself, "")
        assert text.endswith(shown) and "not measured now" in text
        is_trace = document.result.side is None
        assert ("from a trace, " in text) == is_trace
        assert msgspec.json.decode(msgspec.json.encode(envelope))["result"]["sessions"][0]["document"]


def test_a_page_has_the_timeline_that_was_kept(store: Path) -> None:
    _, result = told(store)
    newest, oldest = result.sessions[0].id, result.sessions[-1].id
    envelope, found = told(store, oldest, timeline=True)
    assert found.sessions[0].timeline is not None
    assert sum(track.count for track in found.sessions[0].timeline.tracks) <= STORED
    text = report_words.html(envelope)
    assert "The last run, " in text and "not measured now" in text
    facts(report_words.html(told(store, oldest)[0]), "timeline", "not kept")
    command = [sys.executable, "-m", "ortune", "report", newest, "--store", str(store), "--format", "html"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "The last run, " in done.stdout and 'id="difference"' in done.stdout


def test_a_session_without_a_timeline_says_so(store: Path, tmp_path: Path) -> None:
    _, result = told(store, "newest")
    with Store(tmp_path) as other:
        other.begin("profile", "key", {"model": "m.onnx"}).add("result", result.sessions[0].document)
    text = report_words.html(told(tmp_path, "newest", timeline=True)[0])
    facts(text, "timeline", "not kept")
    assert "The last run, " not in text


def test_several_stand_side_by_side_with_where_their_time_goes(store: Path) -> None:
    _, result = told(store)
    two = [s.id for s in result.sessions if s.label == "plain.onnx"]
    envelope, found = told(store, *two)
    assert found.history is not None and found.history.comparable
    assert {c.name for c in found.history.contrasts} == {"base plan"}
    text = markdown.render(report_words.document(envelope))
    for part in ("| where the time goes |", "| computing, in kernels |", "| the run |", "| Conv |"):
        assert part in text, part
    _, mixed = told(store, *(s.id for s in result.sessions))
    assert mixed.history is not None and not mixed.history.comparable


def test_an_interrupted_profile_goes_on_and_runs_no_process_twice(tmp_path: Path, few_runs: None) -> None:
    plain, store = conv_chain(tmp_path / "plain.onnx"), tmp_path / "store"
    asked = {"subject": plain, "b_set": ("level=basic",), "processes": 3, "no_peak": True, "store": store}

    def stops(step: Step) -> None:
        if step.what == "profiling, process 3 of 3":
            raise Interrupted("stopped")

    with pytest.raises(Interrupted):
        profile.run(profile.Options(**asked), Watcher(step=stops))
    lines: list[str] = []
    chrome = tmp_path / "chrome.json"
    again = profile.Options(**asked, resume="newest", export=(f"chrome={chrome}",))
    result = profile.run(again, Watcher(step=lambda step: lines.append(step.text))).result
    with Store(store) as kept:
        (head,) = kept.sessions()
        kinds = Counter(event.kind for event in kept.events(head.id))
    assert {kind: n for kind, n in kinds.items() if kind.startswith("processes")} == {
        "processes-0": 1, "processes-1": 1, "processes-2": 1,
    }  # fmt: skip
    assert kinds["resumed"] == 1 and kinds["outcome"] == 2, "both sides ran for the first time, once"
    assert result.against is not None and result.against.a_processes == 3
    assert any(note.startswith("resumed ") for note in result.notes)
    assert chrome.exists()
    # One that ended tells the same again, and needs no machine for it: what was kept is what is told.
    once_more = profile.run(replace(again, resume=head.id), Watcher()).result
    assert msgspec.structs.replace(once_more, elapsed_s=0.0, notes=()) == msgspec.structs.replace(
        result, elapsed_s=0.0, notes=()
    )


def test_a_file_that_cannot_be_written_loses_nothing(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the page cannot be written") as raised:
        ortune.profile(GOLDEN / "ort-1.31.1.json", store=tmp_path / "store", report="/dev/full")
    _, result = told(tmp_path / "store", "newest")
    assert f"ortune report {result.sessions[0].id}" in raised.value.do
    document = result.sessions[0].document
    assert isinstance(document, Envelope) and document.result.wall_ns > 0 and document.result.exports == {}
    with pytest.raises(UsageError, match="cannot be written"):
        ortune.profile(GOLDEN / "ort-1.31.1.json", store=tmp_path / "s", export=["csv=/dev/full"])
    assert told(tmp_path / "s", "newest")[1].sessions[0].state == "done"


def test_a_kept_trace_and_the_page_are_named(tmp_path: Path) -> None:
    envelope = ortune.profile(
        GOLDEN / "loop-1.31.1.json",
        store=tmp_path / "s",
        keep=tmp_path / "again.json",
        report=tmp_path / "p.html",
    )
    assert isinstance(envelope.result, ProfileResult)
    assert envelope.result.trace.path == str(tmp_path / "again.json")
    assert json.loads((tmp_path / "again.json").read_text())
    assert envelope.result.exports == {"report": str(tmp_path / "p.html")}
    stored = told(tmp_path / "s", "newest")[1].sessions[0].document
    assert isinstance(stored, Envelope) and stored.result == envelope.result
