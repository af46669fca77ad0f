"""Several sessions side by side: differences named, comparing forbidden where machines differ, never a claim."""

from __future__ import annotations

import msgspec
import pytest

import golden
import golden_tune
from ortune.records import Envelope, Plan
from ortune.show import markdown
from ortune.show.numbers import shorten_end
from ortune.verbs.bench.result import BenchResult
from ortune.verbs.look.result import LookResult
from ortune.verbs.report import several as history
from ortune.verbs.report import several_words, stored_words
from ortune.verbs.report import words as report_words
from ortune.verbs.report.result import ReportResult, StoredSession

MARK = "f" * 64


def stored(envelope: Envelope | None, number: int = 1, **changes: object) -> StoredSession:
    """The n-th session, with that document."""
    usual = StoredSession(
        id=f"2026010{number}-00000{number}",
        at=f"2026-01-0{number}T10:20:30.000+00:00",
        verb="tune",
        label="model.onnx",
        state="done" if envelope else "unfinished",
        host=envelope.host if envelope else golden.HOST,
        ortune="0.1.0",
        build="onnxruntime 1.31.1",
        document=envelope,
    )
    return msgspec.structs.replace(usual, **changes)


def names(found: object) -> dict[str, bool]:
    return {c.name: c.breaks for c in found.contrasts}  # type: ignore[attr-defined]


def shown(*sessions: StoredSession) -> tuple[str, str]:
    """The terminal's text and the Markdown."""
    result = ReportResult(kind="history", sessions=sessions, history=history.side_by_side(sessions))
    envelope = Envelope(schema="ortune/report/1", ortune="0.1.0", status="ok", result=result)
    document = report_words.document(envelope)
    return golden.printed(document, 400), markdown.render(document)


def test_equal_sessions_are_comparable_and_still_no_claim() -> None:
    both = stored(golden_tune.tuned(), 1), stored(golden_tune.tuned(), 2)
    found = history.side_by_side(both)
    assert found.comparable and found.contrasts == () and found.warnings == () and found.next_step == ""
    for text in shown(*both):
        assert several_words.NO_CLAIM in text
        assert several_words.NOT_COMPARABLE not in text


def test_another_machine_forbids_comparing() -> None:
    other = msgspec.structs.replace(golden.HOST, cpu="Another CPU", fingerprint=MARK)
    envelope = msgspec.structs.replace(golden_tune.tuned(), host=other)
    found = history.side_by_side([stored(golden_tune.tuned(), 1), stored(envelope, 2)])
    assert names(found) == {"machine": True}
    assert not found.comparable
    assert found.warnings == (f"machine differs: {several_words.NOT_COMPARABLE}",)
    same_words = msgspec.structs.replace(golden.HOST, fingerprint=MARK)
    envelope = msgspec.structs.replace(golden_tune.tuned(), host=same_words)
    assert not history.side_by_side([stored(golden_tune.tuned(), 1), stored(envelope, 2)]).comparable


def test_another_model_workload_or_runtime_forbids_comparing() -> None:
    side = golden_tune.usual().side
    model = msgspec.structs.replace(side, model=msgspec.structs.replace(side.model, sha256="cd" * 32))
    runtime = msgspec.structs.replace(
        side, runtime=msgspec.structs.replace(side.runtime, ort_version="1.30.0")
    )
    gap = golden_tune.workload()
    pages = [
        golden_tune.tuned(
            side=msgspec.structs.replace(
                side, runtime=msgspec.structs.replace(side.runtime, ort_web=web, ort_web_dist="/dist")
            )
        )
        for web in ("1.22.0", "1.30.0")
    ]
    (web,) = history.side_by_side([stored(each, i) for i, each in enumerate(pages)]).contrasts
    assert (web.name, web.values) == ("runtime", ("onnxruntime-web 1.22.0", "onnxruntime-web 1.30.0"))
    others = {
        "model": golden_tune.tuned(side=model),
        "runtime": golden_tune.tuned(side=runtime),
        "workload": msgspec.structs.replace(
            golden_tune.tuned(), workload=msgspec.structs.replace(gap, seed=gap.seed + 1)
        ),
        "figure": golden_tune.tuned(statistic="peak memory"),
    }
    for name, envelope in others.items():
        found = history.side_by_side([stored(golden_tune.tuned(), 1), stored(envelope, 2)])
        assert names(found) == {name: True}
        assert not found.comparable


def test_another_plan_is_named_with_the_command_that_compares() -> None:
    other = golden_tune.tuned(winner=Plan(settings={"intra_op_num_threads": 4}))
    found = history.side_by_side([stored(golden_tune.tuned(), 1), stored(other, 2)])
    assert names(found) == {"new plan": False}
    assert found.comparable
    assert found.next_step == (
        "ortune compare /models/model.onnx --a-set allow_spinning=0 --a-set intra_op_num_threads=2 "
        "--b-set intra_op_num_threads=4 --shape input_ids:1x128 --shape pixels:1x3x224x224 --gap 30ms"
    )
    assert all(found.next_step in text for text in shown(stored(golden_tune.tuned(), 1), stored(other, 2)))


def test_no_command_is_given_that_would_compare_something_else() -> None:
    """Other inputs, another figure or a pod: no one line measures what both sessions did."""
    other = golden_tune.tuned(winner=Plan(settings={"intra_op_num_threads": 4}))
    work = golden_tune.workload()
    moved = msgspec.structs.replace(other, workload=msgspec.structs.replace(work, callers=4))
    in_a_pod = golden_tune.tuned(
        winner=Plan(settings={"intra_op_num_threads": 4}),
        notes=("in an emulated container: 2 CPUs by cgroup",),
    )
    memory = golden_tune.tuned(winner=Plan(settings={"intra_op_num_threads": 4}), statistic="peak memory")
    for envelope in (moved, in_a_pod, memory):
        both = stored(golden_tune.tuned(), 1), stored(envelope, 2)
        assert history.side_by_side(both).next_step == ""


def test_a_runtime_is_named_with_its_package_whatever_the_verb() -> None:
    side = golden.side("m.onnx")
    gpu = msgspec.structs.replace(golden.RUNTIME, package="onnxruntime-gpu")
    bench = Envelope(
        schema="ortune/bench/1",
        ortune="0.1.0",
        status="ok",
        result=BenchResult(
            side=msgspec.structs.replace(side, runtime=gpu), rows=(), processes=(), load="one caller"
        ),
    )
    look = Envelope(
        schema="ortune/look/2",
        ortune="0.1.0",
        status="ok",
        result=LookResult(model=side.model, parameters=0, parameter_bytes=0, runtime=golden.RUNTIME),
    )
    found = history.side_by_side([stored(bench, 1), stored(look, 2)])
    (runtime,) = [c for c in found.contrasts if c.name == "runtime"]
    assert runtime.values == ("onnxruntime-gpu 1.31.1", "onnxruntime 1.31.1")


def test_what_is_not_known_is_said_and_makes_no_difference_of_its_own() -> None:
    found = history.side_by_side([stored(golden_tune.tuned(), 1), stored(None, 2)])
    assert found.contrasts == ()
    assert not found.comparable
    assert "20260102-000002" in found.warnings[0]


def test_each_session_has_its_own_answer_with_date_and_interval() -> None:
    text, page = shown(
        stored(golden_tune.tuned(), 1), stored(golden_tune.default_best(), 2), stored(golden.compared(), 3)
    )
    for part in (
        "2026-01-01 10:20",
        "2026-01-03 10:20",
        "-10.0 % (-11.5 % to -8.3 %), faster",
        "no better configuration found",
    ):
        assert part in text and part in page
    assert "11.0 ms [9.90 ms-12.1 ms]" in text


def test_race_data_is_marked() -> None:
    race = msgspec.structs.replace(golden_tune.usual().against_default, phase="race")
    rows = history.rows([stored(golden_tune.tuned(against_default=race))])
    assert rows[0][-1].endswith("faster, not confirmed")


def page(result: ReportResult, width: int) -> str:
    envelope = Envelope(schema="ortune/report/1", ortune="0.1.0", status="ok", result=result)
    return golden.printed(report_words.document(envelope), width)


LONG = "models/" + "a-very-long-name-" * 6 + "of-a-model.onnx"
SESSIONS = (
    stored(golden_tune.tuned(), 1, label=LONG),
    stored(golden_tune.default_best(), 2),
    stored(golden.compared(), 3, verb="compare"),
    stored(None, 4, label=LONG),
)


@pytest.mark.parametrize("width", [80, 140])
def test_the_list_fits_its_width_and_loses_nothing(width: int) -> None:
    text = page(ReportResult(kind="list", sessions=SESSIONS, n_stored=9), width)
    assert max(len(line) for line in text.splitlines()) <= width
    bare = "".join(text.split())
    for session in SESSIONS:
        assert session.id in text
        assert "".join(session.label.split()) in bare
        summary = shorten_end(stored_words.summary(session))
        assert "".join(summary.split()) in bare
    assert "the newest 4 of 9" in text


@pytest.mark.parametrize("width", [80, 140])
@pytest.mark.parametrize("session", SESSIONS, ids=lambda s: s.verb + s.id[7])
def test_a_session_told_again_fits_its_width(session: StoredSession, width: int) -> None:
    text = page(ReportResult(kind="told", sessions=(session,)), width)
    assert max(len(line) for line in text.splitlines()) <= width
    bare = "".join(text.split())
    assert "".join(stored_words.provenance(session).split()) in bare
    if session.document is None:
        assert LONG in bare


@pytest.mark.parametrize("width", [80, 140])
@pytest.mark.parametrize("count", [2, 4])
def test_sessions_side_by_side_fit_the_width_and_lose_nothing(count: int, width: int) -> None:
    sessions = SESSIONS[-count:]
    result = ReportResult(kind="history", sessions=sessions, history=history.side_by_side(sessions))
    text = page(result, width)
    assert max(len(line) for line in text.splitlines()) <= width
    assert "…" not in text
    assert result.history is not None
    bare = "".join(text.split())
    for warning in result.history.warnings:
        assert "".join(warning.split()) in bare
    for contrast in result.history.contrasts:
        for value in contrast.values:
            assert "".join(value.split()) in bare
    for row in history.rows(sessions):
        assert all(cell in text for cell in row[:2])


@pytest.mark.parametrize("number", range(len(golden_tune.HOSTILE)))
def test_names_do_nothing(number: int) -> None:
    envelope = golden_tune.KINDS[f"hostile-{number}"]
    name = golden_tune.HOSTILE[number]
    text, page = shown(stored(envelope, 1, label=name, id=name), stored(golden_tune.tuned(), 2))
    for shown_text in (text, page):
        assert "\x1b" not in shown_text and "\u202e" not in shown_text
    assert "<script" not in page.replace("\\<", "")
