"""``ortune soak app.workload``: the memory of a recorded application, whose steps are played repeatedly."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import msgspec
import onnx
import pytest

import ortune
from facts import facts
from onnx_text import model_of
from ortune import files
from ortune.errors import UsageError
from ortune.graph.model.open import open_model
from ortune.inputs.played import Script
from ortune.measuring.application_soak import without_times
from ortune.records import (
    Arrival,
    Envelope,
    PlayedStep,
    RecordedCalls,
    RecordedInput,
    RecordedModel,
    RecordedProcess,
    RecordedSession,
    RecordedWorkload,
    Recording,
)
from ortune.verbs.soak import judging, words
from ortune.verbs.soak.app import worst_of
from ortune.verbs.soak.result import SoakResult, SoakVerdict
from within import program

MS = 1_000_000


def _call(key: int, start: int, thread: int = 0) -> Arrival:
    return Arrival(key=key, start_ns=start * MS, took_ns=MS, thread=thread, active=1)


def _session(id: int, process: int, key: int, n: int, end_ms: int) -> RecordedSession:
    calls = RecordedCalls(key=key, count=1, inputs=(RecordedInput(name="x", shape=(n, 3)),))
    return RecordedSession(
        id=id, process=process, model=0, calls=(calls,), creation_ns=2 * MS, end_ns=end_ms * MS
    )


@pytest.fixture(scope="module")
def workload(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of two processes: one releases its first session before its last call, one calls from two threads."""
    folder = tmp_path_factory.mktemp("app")
    onnx.save(model_of("g (float[n,3] x) => (float[n,3] y) { y = Relu (x) }"), folder / "m.onnx")
    model = RecordedModel(
        path=str(folder / "m.onnx"),
        sha256=open_model(folder / "m.onnx").sha256,
        size_bytes=(folder / "m.onnx").stat().st_size,
    )
    recording = Recording(
        processes=(
            RecordedProcess(pid=1, arrivals=(_call(0, 5), _call(1, 15), _call(1, 17))),
            RecordedProcess(pid=2, arrivals=(_call(2, 5), _call(2, 6, thread=1))),
        ),
        sessions=(_session(1, 0, 0, 2, 8), _session(2, 0, 1, 4, 40), _session(1, 1, 2, 3, 40)),
        models=(model,),
    )
    files.write(folder / "app.workload", msgspec.json.encode(RecordedWorkload(cases=(), recording=recording)))
    return folder / "app.workload"


@pytest.fixture(scope="module")
def document(workload: Path) -> Envelope[SoakResult]:
    folder = workload.parent
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ORTUNE_LOCK", str(folder / "lock"))
        code, out, said = program(
            [
                "soak",
                str(workload),
                "--budget",
                "6s",
                "--json",
                "--store",
                str(folder / "store"),
            ]
        )
    assert code == 0, said
    return msgspec.json.decode(out, type=Envelope[SoakResult])


def test_each_process_plays_its_steps_with_new_values_and_keeps_the_sessions_that_were_kept(
    document: Envelope[SoakResult],
) -> None:
    result = document.result
    assert result.application is not None and result.fresh == ("x",) and not result.fixed
    rounds = result.application.rounds
    one, two = result.application.processes
    assert rounds > 4 and (one.calls, two.calls) == (3 * rounds, 2 * rounds)
    assert (one.sessions, two.sessions) == (rounds + 1, 1)
    assert {size.size: size.calls for size in one.sizes} == {
        "m.onnx x=2x3": rounds,
        "m.onnx x=4x3": 2 * rounds,
    }
    assert all(point.held_bytes > 5 << 20 for point in result.points)
    assert result.side.label == "app.workload" and result.verdict in (one.verdict, two.verdict)


def test_the_answer_has_a_row_for_each_process(document: Envelope[SoakResult]) -> None:
    table = words._processes(document.result)
    assert [row[0].text for row in table.rows] == ["1", "2"]
    facts(words.headline(document.result), "app.workload: ")


def test_of_two_processes_with_the_same_verdict_the_one_that_grows_more_is_tested(
    document: Envelope[SoakResult],
) -> None:
    application = document.result.application
    assert application is not None
    row = msgspec.structs.replace(application.processes[0], verdict="growing", first_bytes=100.0)
    grown = [msgspec.structs.replace(row, held_bytes=held) for held in (150.0, 900.0, 200.0)]
    flat = msgspec.structs.replace(row, verdict="flat", held_bytes=2000.0)
    assert worst_of([flat, *grown]) == 2


def test_the_end_of_a_program_is_not_played() -> None:
    steps = tuple(
        PlayedStep(thread=0, do=do, session=0, feed=0 if do == "call" else -1, at_ns=7)
        for do in ("create", "call", "close")
    )
    script = Script(process=0, sessions=(0,), before=frozenset(), feeds=(), steps=steps)
    played = without_times(script)
    assert [(step.do, step.at_ns) for step in played.steps] == [("create", 0), ("call", 0)]


def test_options_of_one_model_are_refused(workload: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="recording"):
        ortune.soak(workload, recreate=3, store=tmp_path)


@pytest.mark.long
def test_causes_are_tested_on_the_process_that_rises(workload: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All changes run for real; only that memory rises is assumed, which takes a leak."""
    monkeypatch.setattr(judging, "rises", lambda soaked: True)
    monkeypatch.setattr(judging, "RISES", get_args(SoakVerdict))
    result = ortune.soak(workload, budget="90s", store=workload.parent / "causes").result
    assert result.application is not None
    found = {each.change: each for each in result.experiments}
    assert not [each.failed for each in result.experiments if each.failed]
    assert all(each.calls > 0 for each in found.values())
    assert {
        "same-values",
        "trim",
        "no-arena",
        "arena-shrinkage",
        "no-pattern",
        "no-prepacking",
    } <= found.keys()
    worst = next(row for row in result.application.processes if row.verdict == result.verdict)
    assert ("kept-sessions" in found and "one-size" in found) == (worst.process == 1)
    if worst.process == 1:
        kept = [point for point in result.points if point.arm == "experiment-kept-sessions"]
        as_is = [point for point in result.points if point.arm.startswith("experiment-as-is")]
        assert kept[-1].sessions == 2 < as_is[-1].sessions
        assert found["one-size"].calls < max(point.calls for point in as_is)
    assert any("next to an unchanged one" in table.title for table in words._experiments(result))
    assert not words._untested(document_of(result))


def document_of(result: SoakResult) -> Envelope[SoakResult]:
    return Envelope(schema="ortune/soak/1", ortune="0", status="ok", result=result)


def test_a_rate_is_refused_with_the_command_that_has_one(workload: Path) -> None:
    for more in ((), ("--arrival", "constant")):
        code, _, said = program(["soak", str(workload), "--rate", "5/s", *more])
        assert code == 2
        facts(said, "--rate", "without pauses", "ortune soak MODEL --workload", "app.workload")
