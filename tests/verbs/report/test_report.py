"""``ortune report`` on real stores: told as it was, side by side, and from a bundle."""

from __future__ import annotations

import contextlib
import importlib
import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from stored_sessions import HEADER, command, keep, report_of, run

import golden
import golden_tune
import ortune
from dense import dense
from facts import facts
from ortune.api import verbs
from ortune.errors import UsageError
from ortune.records import BundleInfo, Envelope
from ortune.show import markdown
from ortune.show.stored_kind import stored_kind
from ortune.store.db import DATABASE, Store
from ortune.verbs._shared.groups import BudgetOptions
from ortune.verbs.report import words as report_words
from ortune.verbs.report.options import rate
from within import program


def test_a_real_session_is_told_again_exactly_with_its_date_and_machine(tmp_path: Path) -> None:
    a, b = dense(tmp_path / "a.onnx"), dense(tmp_path / "b.onnx", scale=2.0)
    store = tmp_path / "store"
    # Wrong outputs: nothing is timed, so it is quick.
    compared = command(store, "compare", str(a), str(b), "--json")
    document = json.loads(compared.stdout)
    assert compared.returncode == 1 and document["verdict"] == "wrong-output", compared.stderr
    done = run(store, "newest", "--json")
    report = json.loads(done.stdout)
    (session,) = report["result"]["sessions"]
    assert report["schema"] == "ortune/report/1" and done.stderr == ""
    assert session["document"] == document
    assert session["at"].startswith("20") and session["here"] is True
    assert session["host"] == document["host"] and session["id"] == document["result"]["session"]
    text = " ".join(run(store, session["id"]).stdout.split())
    facts(text, "outputs differ", "B's cannot be compared with A's", "nothing was timed")
    assert f"session {session['id']}; not measured now" in text
    assert "do not switch" in run(store, "--brief").stdout
    itself = f"ortune report {session['id']} "
    detailed = " ".join(run(store, session["id"], "-v").stdout.split())
    assert itself in text and itself not in detailed and "outputs differ" in detailed


def test_brief_in_every_format(tmp_path: Path) -> None:
    keep(tmp_path, golden_tune.tuned(), golden.diagnosed())
    for form in ("text", "markdown", "html"):
        out = tmp_path / form
        done = run(tmp_path, "--brief", "--load", "200/s", "--format", form, "--output", str(out))
        assert done.returncode == 0 and done.stdout == "", done.stderr
        assert "at 200 requests/s" in " ".join(out.read_text(encoding="utf-8").split())
    result = report_of(tmp_path, brief=True, load=200)
    assert result.brief is not None and result.brief.cpus is not None
    assert result.brief.cpus.today == pytest.approx(1.5 * 11e-3 * 200)


def test_list_is_newest_first_and_says_how_many_there_are(tmp_path: Path) -> None:
    ids = keep(tmp_path, golden_tune.tuned(), golden.compared(), golden.diagnosed())
    with sqlite3.connect(tmp_path / "ortune.sqlite") as db:
        times = dict(db.execute("SELECT id, at FROM session"))
    result = report_of(tmp_path, last=2)
    assert result.kind == "list" and result.n_stored == 3 and len(result.sessions) == 2
    everything = report_of(tmp_path).sessions
    assert {s.id for s in everything} == set(ids)
    assert [times[s.id] for s in everything] == sorted(times.values(), reverse=True)
    assert {s.verb: s.verdict for s in everything} == {"tune": "faster", "compare": "faster", "doctor": "ok"}
    text = run(tmp_path, "--last", "2").stdout
    assert "the newest 2 of 3; --last N shows more" in text


def test_beginning_of_an_id_is_enough_where_it_is_the_only_one(tmp_path: Path) -> None:
    one, two = keep(tmp_path, golden_tune.tuned(), golden.compared())
    tail = one.partition("-")[2]
    assert report_of(tmp_path, one[:-1] if one[:-1] != two[:-1] else one).sessions[0].id == one
    assert report_of(tmp_path, tail).sessions[0].id == one
    for wanted, what in (
        (one[:6], "2 sessions start with this id"),
        ("x", "no stored session or bundle"),
        ("", "is neither a session nor a bundle"),
    ):
        with pytest.raises(UsageError, match=what):
            report_of(tmp_path, wanted)


def test_a_model_stands_for_its_newest_session(tmp_path: Path) -> None:
    (tuned,) = keep(tmp_path, golden_tune.tuned())
    (doctor_id,) = keep(tmp_path, golden.diagnosed())
    with Store(tmp_path) as opened:
        log = opened.begin("compare", "compare key", {"a": "models/old.onnx", "b": "new.onnx"})
        log.add("result", golden.compared())
    assert report_of(tmp_path, "model.onnx").sessions[0].id == doctor_id
    assert report_of(tmp_path, "here/model.onnx", brief=True).sessions[0].id == tuned, (
        "a doctor decides nothing"
    )
    assert [s.id for s in report_of(tmp_path, "old.onnx", "new.onnx").sessions] == [log.id, log.id]
    for named, options in (("other.onnx", {}), ("model.ort", {"brief": True})):
        with pytest.raises(UsageError, match="of this model is stored"):
            report_of(tmp_path, named, **options)


@pytest.mark.parametrize(
    ("document", "verb"),
    [
        (golden_tune.tuned(), "tune"),
        (golden.compared(), "compare"),
        (golden.diagnosed(), "doctor"),
    ],
)
def test_each_verb_is_told_in_its_own_words(tmp_path: Path, document: Envelope, verb: str) -> None:
    keep(tmp_path, document)
    text = markdown.render(report_words.document(ortune.show("newest", store=tmp_path)))
    kind = stored_kind(verb)
    assert kind is not None
    assert text.endswith(markdown.render(kind.document(document)))
    assert "not measured now" in text


def is_kept(verb: str) -> bool:
    """Whether the sessions of a verb are stored, so that they can be shown again."""
    return issubclass(importlib.import_module(f"ortune.verbs.{verb}.options").Options, BudgetOptions)


@pytest.mark.parametrize("verb", [verb for verb in verbs() if is_kept(verb)])
def test_every_verb_whose_sessions_are_stored_has_its_document_and_its_result(verb: str) -> None:
    kind = stored_kind(verb)
    assert kind is not None
    assert kind.document.__module__ == f"ortune.verbs.{verb}.words"
    result = "bench" if verb == "serve" else verb  # a bench elsewhere
    assert kind.result.__name__ == f"{result.capitalize()}Result"


def test_page_of_a_tuning_says_first_that_it_is_stored(tmp_path: Path) -> None:
    from ortune.show.html import pages

    keep(tmp_path, golden_tune.tuned(), golden_tune.hostile("<main>"))
    envelopes = [ortune.show(s.id, store=tmp_path) for s in report_of(tmp_path).sessions]
    for envelope in envelopes:
        text = report_words.html(envelope)
        plain = pages.render(envelope.result.sessions[0].document)
        assert text.count("not measured now") == 1
        assert text.index("not measured now") < text.index('<section class="lead"')
        assert len(text) > len(plain)


def test_every_session_has_a_page_and_so_has_the_list(tmp_path: Path) -> None:
    keep(tmp_path, golden.compared(), golden.diagnosed())
    for words in (
        ["newest"],
        [report_of(tmp_path).sessions[-1].id],
        [],
        ["newest", report_of(tmp_path).sessions[-1].id],
    ):
        done = run(tmp_path, *words, "--format", "html")
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("<h1>") == 1
        assert ("not measured now" in done.stdout) == (len(words) == 1)


def test_a_store_is_read_while_another_writes_it(tmp_path: Path) -> None:
    """And so where nothing can be written at all: reading takes no lock that a reader does not need."""
    (session,) = keep(tmp_path, golden_tune.tuned())
    with contextlib.closing(sqlite3.connect(tmp_path / DATABASE, isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        assert report_of(tmp_path, session).sessions[0].id == session
    place = bundle(tmp_path, golden_tune.tuned())
    for version, said in ((9, "written by a newer ortune"), (1, "move the folder away")):
        other = tmp_path / f"version-{version}"
        keep(other, golden_tune.tuned())
        with contextlib.closing(sqlite3.connect(other / DATABASE)) as writer:
            writer.execute(f"PRAGMA user_version = {version}")
        before = (other / DATABASE).read_bytes()
        done = run(other)
        assert done.returncode == 2 and said in done.stderr
        assert (other / DATABASE).read_bytes() == before
        assert report_of(other, str(place)).sessions[0].bundle is not None


def test_several_stand_side_by_side(tmp_path: Path) -> None:
    other = msgspec.structs.replace(golden.HOST, cpu="Another CPU", fingerprint="f" * 64)
    ids = keep(tmp_path, golden_tune.tuned(), msgspec.structs.replace(golden_tune.tuned(), host=other))
    result = report_of(tmp_path, *ids)
    assert result.kind == "history" and result.history is not None
    assert [s.id for s in result.sessions] == ids
    assert not result.history.comparable
    done = run(tmp_path, *ids)
    facts(done.stdout, "machine differs", "not be compared")


def bundle(folder: Path, document: Envelope, model: str = "model.onnx") -> Path:
    """The least of a bundle: its index and its model."""
    result, place = document.result, folder / "model.ortune"
    place.mkdir()
    (place / model).write_bytes(b"")
    info = BundleInfo(
        schema="ortune/bundle/1",
        model=model,
        sha256=result.side.model.sha256,
        plan=result.winner,
        host=document.host,
        proof=result.against_default,
        ort_version="1.31.1",
        session=result.session,
    )
    (place / "ortune.json").write_bytes(msgspec.json.encode(info))
    return place


def test_the_line_that_tunes_a_bundle_anew_runs_nothing_of_its_names(tmp_path: Path) -> None:
    place = bundle(tmp_path, golden_tune.tuned(), "a.onnx; touch b")
    code, _, err = program(["tune", str(place)])
    assert code == 2
    line = next(part for part in " ".join(err.split()).split("or ortune tune ")[1:])
    assert line.startswith("'") and "a.onnx; touch b' to start over" in line


def test_a_bundle_that_names_no_session_is_told_by_itself(tmp_path: Path) -> None:
    made = golden_tune.tuned(session="")  # nothing was stored
    place = bundle(tmp_path, made)
    alone = report_of(tmp_path / "none", str(place)).sessions[0]
    assert alone.id == "" and alone.at == "" and alone.document is None
    assert alone.headline.startswith("faster: 1.11x in p50 (95 % interval 1.09-1.13x, 16 fresh blocks); with")
    facts(alone.trouble, "not in", "store")
    text = run(tmp_path / "none", str(place)).stdout
    assert "the bundle does not" in " ".join(text.split())
    assert run(tmp_path / "none", str(place), "--brief").returncode == 2
    keep(tmp_path / "store", made)
    assert report_of(tmp_path / "store", str(place)).sessions[0].id == ""


def test_looking_makes_no_store(tmp_path: Path) -> None:
    done = run(tmp_path / "none")
    assert done.returncode == 2 and "nothing is stored" in done.stderr
    assert not (tmp_path / "none").exists()


def test_doctor_keeps_its_document_for_telling_it_again(tmp_path: Path) -> None:
    document = golden.diagnosed()
    with Store(tmp_path) as store:
        log = store.begin("doctor", "doctor key", HEADER)
        log.add("result", document.result.noise)
        assert "not stored" in report_of(tmp_path).sessions[0].trouble
        log.add("document", document)
    assert report_of(tmp_path, log.id).sessions[0].document == document


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("--load", "200/s"), "--load works only with a brief"),
        (("a", "b", "--brief"), "a brief needs exactly one session"),
        (("--brief", "--load", "many"), "'many' is not a request rate"),
        (("--format", "sarif"), "this command does not support the format"),
    ],
)
def test_what_cannot_be_asked_is_refused(tmp_path: Path, words: tuple[str, ...], what: str) -> None:
    done = run(tmp_path, *words)
    assert done.returncode == 2 and what in done.stderr


@pytest.mark.parametrize(
    ("text", "per_s"),
    [("200/s", 200), ("200", 200), (50, 50), ("12000/min", 200), ("7200 / h", 2), ("8.64e6/d", 100)],
)
def test_load_is_read_as_people_write_it(text: str | int, per_s: float) -> None:
    assert rate(text) == pytest.approx(per_s)


@pytest.mark.parametrize("text", ["0", "-1", "1e99/s", "200/w", "", "nan", "inf"])
def test_no_load_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        rate(text)


def test_the_verb_can_be_called_when_its_folder_is_imported_too() -> None:
    code = (
        "import ortune, ortune.show.escape\n"
        "from ortune import report\n"
        "print(callable(ortune.show), callable(report))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True"]
