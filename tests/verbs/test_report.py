"""``ortune report`` on real stores: told as it was, cut off, foreign, damaged, and from a bundle."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
from test_compare import dense

import ortune
from facts import facts
from ortune.errors import UsageError
from ortune.options.report import rate
from ortune.records import (
    BundleInfo,
    CaseTimes,
    Envelope,
    Failed,
    Measured,
    Outcome,
    Plan,
    ReportResult,
    TrialDone,
)
from ortune.report import markdown, report_words
from ortune.report.answer import KINDS
from ortune.store.db import DATABASE, SessionLog, Store
from within import program

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "report"))

import golden
import golden_tune

HEADER = {"model": "model.onnx", "host": golden.HOST}


def keep(store: Path, *documents: Envelope, kind: str = "result") -> list[str]:
    """Stores each document as a session of its own; their ids."""
    ids = []
    with Store(store) as opened:
        for document in documents:
            verb = document.schema.split("/")[1]
            log = opened.begin(verb, f"{verb} key", HEADER)
            log.add("split", {"plans": 3})
            log.add(kind, document)
            ids.append(log.id)
    return ids


def told(store: Path, *names: str, **options: Any) -> ReportResult:
    envelope = ortune.report(*names, store=store, **options)
    assert isinstance(envelope.result, ReportResult)
    return envelope.result


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What a command line did, in the words of subprocess."""

    returncode: int
    stdout: str
    stderr: str


def command(store: Path, *words: str) -> Done:
    code, out, err = program([*words, "--store", str(store)])
    return Done(returncode=code, stdout=out, stderr=err)


def run(store: Path, *words: str) -> Done:
    return command(store, "report", *words)


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
    facts(text, "outputs differ", "B's outputs", "nothing was timed")
    assert f"session {session['id']}; not measured now" in text
    assert "do not switch" in run(store, "--brief").stdout


def test_brief_in_every_format(tmp_path: Path) -> None:
    keep(tmp_path, golden_tune.tuned(), golden.diagnosed())
    for form in ("text", "markdown", "html"):
        out = tmp_path / form
        done = run(tmp_path, "--brief", "--load", "200/s", "--format", form, "--output", str(out))
        assert done.returncode == 0 and done.stdout == "", done.stderr
        assert "at 200 requests/s" in " ".join(out.read_text(encoding="utf-8").split())
    result = told(tmp_path, brief=True, load=200)
    assert result.brief is not None and result.brief.cpus is not None
    assert result.brief.cpus.today == pytest.approx(1.5 * 11e-3 * 200)


def test_list_is_newest_first_and_says_how_many_there_are(tmp_path: Path) -> None:
    ids = keep(tmp_path, golden_tune.tuned(), golden.compared(), golden.diagnosed())
    with sqlite3.connect(tmp_path / "ortune.sqlite") as db:
        times = dict(db.execute("SELECT id, at FROM session"))
    result = told(tmp_path, last=2)
    assert result.kind == "list" and result.n_stored == 3 and len(result.sessions) == 2
    everything = told(tmp_path).sessions
    assert {s.id for s in everything} == set(ids)
    assert [times[s.id] for s in everything] == sorted(times.values(), reverse=True)
    assert {s.verb: s.verdict for s in everything} == {"tune": "faster", "compare": "faster", "doctor": "ok"}
    text = run(tmp_path, "--last", "2").stdout
    assert "the newest 2 of 3; --last N shows more" in text


def test_beginning_of_an_id_is_enough_where_it_is_the_only_one(tmp_path: Path) -> None:
    one, two = keep(tmp_path, golden_tune.tuned(), golden.compared())
    tail = one.partition("-")[2]
    assert told(tmp_path, one[:-1] if one[:-1] != two[:-1] else one).sessions[0].id == one
    assert told(tmp_path, tail).sessions[0].id == one
    for wanted, what in (
        (one[:6], "2 sessions start with this id"),
        ("x", "no stored session or bundle"),
        ("", "is neither a session nor a bundle"),
    ):
        with pytest.raises(UsageError, match=what):
            told(tmp_path, wanted)


def test_a_model_stands_for_its_newest_session(tmp_path: Path) -> None:
    (tuned,) = keep(tmp_path, golden_tune.tuned())
    (doctor_id,) = keep(tmp_path, golden.diagnosed())
    with Store(tmp_path) as opened:
        log = opened.begin("compare", "compare key", {"a": "models/old.onnx", "b": "new.onnx"})
        log.add("result", golden.compared())
    assert told(tmp_path, "model.onnx").sessions[0].id == doctor_id
    assert told(tmp_path, "here/model.onnx", brief=True).sessions[0].id == tuned, "a doctor decides nothing"
    assert [s.id for s in told(tmp_path, "old.onnx", "new.onnx").sessions] == [log.id, log.id]
    for named, options in (("other.onnx", {}), ("model.ort", {"brief": True})):
        with pytest.raises(UsageError, match="of this model is stored"):
            told(tmp_path, named, **options)


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
    text = markdown.render(report_words.document(ortune.report("newest", store=tmp_path)))
    assert text.endswith(markdown.render(KINDS[verb].document(document)))
    assert "not measured now" in text


@pytest.mark.parametrize("verb", sorted(KINDS))
def test_every_verb_that_is_told_has_its_document_and_its_result(verb: str) -> None:
    assert KINDS[verb].document.__module__ == f"ortune.report.{verb}_words"
    result = "bench" if verb == "serve" else verb  # a bench elsewhere
    assert KINDS[verb].result.__name__ == f"{result.capitalize()}Result"


def test_page_of_a_tuning_says_first_that_it_is_stored(tmp_path: Path) -> None:
    from ortune.report.html import pages

    keep(tmp_path, golden_tune.tuned(), golden_tune.hostile("<main>"))
    envelopes = [ortune.report(s.id, store=tmp_path) for s in told(tmp_path).sessions]
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
        [told(tmp_path).sessions[-1].id],
        [],
        ["newest", told(tmp_path).sessions[-1].id],
    ):
        done = run(tmp_path, *words, "--format", "html")
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("<h1>") == 1
        assert ("not measured now" in done.stdout) == (len(words) == 1)


def trial(latency_ns: int) -> TrialDone:
    times = CaseTimes(case="c", weight=1.0, latency_ns=(latency_ns,) * 9, first_ns=9_000_000)
    return TrialDone(
        load_ns=5_000_000, cases=(times,), cpu_ns=9 * latency_ns, wall_ns=9 * latency_ns, n_runs=9
    )


def journal(log: SessionLog, trials: list[tuple[str, Plan, Outcome]], *, block: bool = True) -> None:
    """Trials as a session writes them down, and the block that they make."""
    for arm, plan, outcome in trials:
        name = f"{log.seq}-{arm}"
        log.add("trial", {"trial": name, "arm": arm, "plan": plan})
        log.add("outcome", {"trial": name, "arm": arm, "plan_id": plan.id, "outcome": outcome})
    if block:
        log.add("block", {"index": 0, "phase": "race", "order": [arm for arm, _, _ in trials]})


def test_two_models_with_one_plan_are_two(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        log = store.begin("compare", "key", {"a": "a.onnx", "b": "b.onnx", "host": golden.HOST})
        for times in ((2_000_000, 8_000_000), (4_000_000, 6_000_000)):
            arms = zip(("base", "new"), times, strict=True)
            journal(log, [(arm, Plan(), Measured(plan="a", done=trial(t))) for arm, t in arms])
    (session,) = told(tmp_path, "newest").sessions
    assert [(s.name, s.figures.latency_ns) for s in session.so_far if s.figures] == [("A", 3e6), ("B", 7e6)]
    text = " ".join(run(tmp_path, "newest").stdout.split())
    assert "4 trials of 2 configurations measured" in text
    assert "A: default 2 3.00 ms" in text and "B: default 2 7.00 ms" in text


def test_a_store_is_read_while_another_writes_it(tmp_path: Path) -> None:
    """And so where nothing can be written at all: reading takes no lock that a reader does not need."""
    (session,) = keep(tmp_path, golden_tune.tuned())
    with contextlib.closing(sqlite3.connect(tmp_path / DATABASE, isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        assert told(tmp_path, session).sessions[0].id == session
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
        assert told(other, str(place)).sessions[0].bundle is not None


def test_an_interrupted_session_tells_what_was_measured(tmp_path: Path) -> None:
    fast = Plan(settings={"intra_op_num_threads": 1})
    with Store(tmp_path) as store:
        log = store.begin("tune", "tune key", HEADER)
        # Before the first block the pilot's trials, among them one fed with zeros.
        journal(log, [("base", Plan(), Measured(plan="a", done=trial(9_000_000)))], block=False)
        journal(log, [("kinds", Plan(), Measured(plan="a", done=trial(9_000_000)))], block=False)
        outcomes: list[tuple[str, Plan, Outcome]] = [
            ("base", Plan(), Measured(plan="a", done=trial(2_000_000))),
            ("identical", Plan(), Measured(plan="a", done=trial(9_000_000))),
            ("spike", Plan(), Measured(plan="a", done=trial(9_000_000))),
            ("p1", fast, Measured(plan="b", done=trial(1_000_000))),
            ("p1", fast, Failed(plan="b", reason="crash", what="killed")),
            ("base", Plan(), Measured(plan="a", done=trial(4_000_000))),
        ]
        journal(log, outcomes[:4])
        journal(log, outcomes[4:])
        # Cut in the middle of a block.
        journal(log, [("base", Plan(), Measured(plan="a", done=trial(9_000_000)))], block=False)
        log.add("trial", {"trial": "cut", "arm": "base", "plan": Plan()})
    (session,) = told(tmp_path, "newest").sessions
    assert session.state == "unfinished" and session.document is None
    default, other = session.so_far
    assert default.figures is not None and other.figures is not None
    assert (default.plan, default.figures.n_trials, default.figures.latency_ns) == (Plan(), 2, 3e6)
    assert (other.plan, other.figures.n_trials, other.n_failed) == (fast, 1, 1)
    text = " ".join(run(tmp_path, "newest").stdout.split())
    for part in ("there is no verdict", "1, 1 failed", "one observation", "3.00 ms"):
        assert part in text
    assert "9.00 ms" not in text
    assert run(tmp_path, "newest", "--brief").returncode == 2


def test_foreign_and_damaged_sessions_are_one_line_and_the_rest_goes_on(tmp_path: Path) -> None:
    newer = msgspec.structs.replace(golden_tune.tuned(), schema="ortune/tune/2", ortune="9.9.9")
    good, future, unknown, shape, broken = keep(
        tmp_path,
        golden_tune.tuned(),
        newer,
        Envelope(schema="ortune/dream/1", ortune="0.1.0", status="ok", result={"x": 1}),
        Envelope(schema="ortune/tune/1", ortune="0.1.0", status="ok", result={"side": 3}),
        golden_tune.tuned(notes=("a long note" * 9000,)),
    )
    for blob in (tmp_path / "blobs").rglob("*"):
        if blob.is_file():
            blob.write_bytes(b"not compressed")
    by_id = {s.id: s for s in told(tmp_path).sessions}
    assert by_id[good].state == "done" and by_id[good].headline
    assert "format 'ortune/tune/2', written by ortune 9.9.9" in by_id[future].trouble
    assert by_id[unknown].document.result == {"x": 1}
    assert "cannot be read" in by_id[shape].trouble and by_id[broken].trouble
    done = run(tmp_path)
    assert done.returncode == 0 and "Traceback" not in done.stderr
    assert all(i in done.stdout for i in by_id)
    pair = told(tmp_path, good, future)
    assert pair.kind == "told" and pair.sessions[0].id == good and future in pair.troubles[0]
    assert "available only as JSON" in run(tmp_path, unknown).stdout
    with pytest.raises(UsageError, match="cannot read"):
        told(tmp_path, future)


def test_several_stand_side_by_side(tmp_path: Path) -> None:
    other = msgspec.structs.replace(golden.HOST, cpu="Another CPU", fingerprint="f" * 64)
    ids = keep(tmp_path, golden_tune.tuned(), msgspec.structs.replace(golden_tune.tuned(), host=other))
    result = told(tmp_path, *ids)
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
    alone = told(tmp_path / "none", str(place)).sessions[0]
    assert alone.id == "" and alone.at == "" and alone.document is None
    assert alone.headline.startswith("faster: 1.11x in p50 (95 % interval 1.09-1.13x, 16 fresh blocks); with")
    facts(alone.trouble, "not in", "store")
    text = run(tmp_path / "none", str(place)).stdout
    assert "the bundle does not" in " ".join(text.split())
    assert run(tmp_path / "none", str(place), "--brief").returncode == 2
    keep(tmp_path / "store", made)
    assert told(tmp_path / "store", str(place)).sessions[0].id == ""


def test_looking_makes_no_store(tmp_path: Path) -> None:
    done = run(tmp_path / "none")
    assert done.returncode == 2 and "nothing is stored" in done.stderr
    assert not (tmp_path / "none").exists()


def test_a_file_that_is_no_store_is_named(tmp_path: Path) -> None:
    (tmp_path / DATABASE).write_text("this is no database at all, only words " * 9)
    done = run(tmp_path)
    assert done.returncode == 2 and str(tmp_path) in done.stderr and "Traceback" not in done.stderr


def test_doctor_keeps_its_document_for_telling_it_again(tmp_path: Path) -> None:
    document = golden.diagnosed()
    with Store(tmp_path) as store:
        log = store.begin("doctor", "doctor key", HEADER)
        log.add("result", document.result.noise)
        assert "not stored" in told(tmp_path).sessions[0].trouble
        log.add("document", document)
    assert told(tmp_path, log.id).sessions[0].document == document


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("--load", "200/s"), "--load works only with a brief"),
        (("a", "b", "--brief"), "a brief needs exactly one session"),
        (("--brief", "--load", "many"), "'many' is not a number of requests"),
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
        "import ortune, ortune.report.escape\n"
        "from ortune import report\n"
        "print(callable(ortune.report), callable(report))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True"]
