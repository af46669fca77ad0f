"""A tuning as text, Markdown and workflow commands: the same facts, and no name acts as markup."""

from __future__ import annotations

import msgspec
import pytest

import golden
import golden_tune
from facts import facts
from golden_tune_parts import confirmed
from ortune.records import Envelope, Finding, Plan, RewriteSpec
from ortune.show import github, markdown
from ortune.verbs.tune import words as tune_words

KINDS = sorted(golden_tune.KINDS)


def shown(envelope: Envelope, width: int) -> str:
    """The page as plain text at that width, with what supports the answer."""
    return golden.printed(tune_words.document(envelope), width, whole=True)


def answer(envelope: Envelope, width: int) -> list[str]:
    """The lines that are shown where nothing more is asked for."""
    return golden.printed(tune_words.document(envelope), width).splitlines()


@pytest.mark.parametrize("width", [80, 100, 140])
@pytest.mark.parametrize("kind", KINDS)
def test_terminal_fits_its_width(kind: str, width: int) -> None:
    text = shown(golden_tune.KINDS[kind], width)
    assert golden.widest(tune_words.document(golden_tune.KINDS[kind]), width) <= width
    assert "…" not in text and "\x1b" not in text and "\u202e" not in text


@pytest.mark.parametrize("width", [80, 140])
def test_terminal_loses_nothing(width: int) -> None:
    flat = " ".join(shown(golden_tune.KINDS["mixed"], width).split())
    facts(flat, "p95", "-7.0 %", "-10.0 %", "-3.0 %", "+0.0 %", "-1.0 %", "+1.0 %")
    facts(flat, "intra_op_num_threads=2", "+7.2 %", "+5.0 %", "+9.0 %")
    facts(flat, "set_denormal_as_zero=1", "40 %")
    facts(flat, "163 trials", "20 s", "55 s", "40 s")
    for part in (
        "faster: 1.11x in p50 (95 % interval 1.09-1.13x, 16 fresh blocks), 11.0 ms -> 9.90 ms",
        "A/A check passed (p = 0.5)",
        "one block dropped",
        "THR001 threads exceed the cgroup quota (2 threads, quota 1.5) -> --set intra=1, or raise the quota",
        "the pod was throttled in 12 % of the periods",
        "allocator=jemalloc: crash: killed by SIGSEGV while loading",
        "int8 OpenVINO",
        "options.intra_op_num_threads = 2",
        "bundle /out/model.ortune",
        "report /out/model.ortune/report.html",
        "again ortune tune model.onnx --seed 0",
        "not tested: 1 for lack of time (--budget 360s is enough), 2 not possible or allowed here (-v lists them)",
        "-20.0 % or more",
    ):
        assert part in flat


def test_tables_hold_a_row_a_figure_and_only_one_row_is_confirmed() -> None:
    lines = [" ".join(line.split()) for line in shown(golden_tune.KINDS["with-current"], 140).splitlines()]
    for row in (
        "default current winner vs current 95 % interval",
        "p50 178 ms 12.1 ms 10.3 ms -14.5 % -17.4 % to -12.3 %",
        "p95 214 ms 14.5 ms 13.5 ms -7.0 % -10.0 % to -3.0 %",
        "p90 / p10 in a process 1.27 (1.20-1.30) 1.27 (1.20-1.30) 1.27 (1.20-1.30)",
        "fastest allow_spinning=0, intra_op_num_threads=2 10.3 ms 15.4 ms 260 MiB confirmed",
        "least memory enable_cpu_mem_arena=0 12.1 ms 18.0 ms not known not confirmed, 2 search blocks",
    ):
        assert row in lines


def test_code_can_be_pasted_as_it_stands() -> None:
    lines = [line.rstrip() for line in shown(golden_tune.KINDS["winner"], 100).splitlines()]
    code = golden_tune.CODE.strip().splitlines()
    start = lines.index(code[0])
    assert lines[start : start + len(code)] == code


def test_a_headline_that_the_session_holds_is_shown_as_it_is() -> None:
    envelope = golden_tune.tuned(headline="as it was said then")
    for text in (
        shown(envelope, 100),
        markdown.render(tune_words.document(envelope)),
        github.render(tune_words.document(envelope)),
    ):
        assert "as it was said then" in text and "faster" not in text.splitlines()[0]


def test_an_interrupted_run_says_so() -> None:
    stopped = msgspec.structs.replace(golden_tune.tuned(), status="interrupted")
    assert shown(stopped, 100).startswith("stopped early")
    assert "*stopped early" in markdown.render(tune_words.document(stopped))


@pytest.mark.parametrize("kind", KINDS)
def test_markdown_tables_are_tables(kind: str) -> None:
    text = markdown.render(tune_words.document(golden_tune.KINDS[kind]))
    assert text.startswith("### ortune tune: ")
    blocks = [b.splitlines() for b in text.split("\n\n") if b.startswith("| ")]
    assert blocks
    for lines in blocks:
        columns = {line.replace("\\|", "").count("|") for line in lines}
        assert len(columns) == 1


@pytest.mark.parametrize("number", [0, 1])
def test_no_name_is_markup_in_markdown(number: int) -> None:
    text = markdown.render(tune_words.document(golden_tune.KINDS[f"hostile-{number}"]))
    outside = [line for line in text.splitlines() if not line.startswith("    ")]
    assert any("alert" in line for line in outside)
    for line in outside:
        assert "<" not in line.replace("\\<", "")


def test_annotations_are_one_for_the_answer_and_one_a_finding() -> None:
    lines = github.render(tune_words.document(golden_tune.KINDS["winner"])).splitlines()
    assert [line.split(" ")[0] for line in lines] == ["::notice", "::warning"]
    hostile = github.render(tune_words.document(golden_tune.KINDS["hostile-3"])).splitlines()
    assert len(hostile) == 2 and all(line.startswith("::") for line in hostile)


def test_what_stands_out_in_the_file_is_the_cause_with_its_prize_and_its_command() -> None:
    mended = Plan(rewrites=(RewriteSpec(name="initializers-out-of-inputs"),))
    alone = confirmed(0.8, 0.7, 0.9, phase="race", verdict="inconclusive")
    finding = Finding(code="GRA002", what="102 weights are inputs", plan=mended, verified=alone)
    flat = " ".join(" ".join(answer(golden_tune.tuned(findings=(finding,)), 140)).split())
    said = "102 weights are inputs -> initializers-out-of-inputs: alone -20.0 % (-30.0 % to -10.0 %) in the search"
    assert f"{said}; not part of the winner" in flat
    assert "next: ortune compare model.onnx --seed 0 --b-rewrite initializers-out-of-inputs" in flat
    once = msgspec.structs.replace(finding, verified=msgspec.structs.replace(alone, n_blocks=1))
    told = " ".join(" ".join(answer(golden_tune.tuned(findings=(once,)), 140)).split())
    facts(told, "measured alone in a single block", "nothing")
    assert "alone -20.0 %" not in told
    unmeasured = msgspec.structs.replace(finding, verified=None)
    told = " ".join(" ".join(answer(golden_tune.tuned(findings=(unmeasured,)), 140)).split())
    facts(told, "initializers-out-of-inputs", "not measured separately", "not part of the winner")
    inexact = msgspec.structs.replace(unmeasured, safety="behaviour")
    told = " ".join(" ".join(answer(golden_tune.tuned(findings=(inexact,)), 140)).split())
    facts(told, "not exact", "--allow behaviour")
    other = msgspec.structs.replace(finding, code="GRA016", what="2 scales could be folded")
    told = " ".join(" ".join(answer(golden_tune.tuned(findings=(finding, other)), 200)).split())
    assert "GRA002 102 weights are inputs; GRA016 2 scales could be folded -> init" in told
    assert told.count("alone -20.0 %") == 1, "one rewrite has one gain"
    shipped = golden_tune.tuned(findings=(finding,), winner=mended)
    assert "in the search; part of the winner" in " ".join(" ".join(answer(shipped, 140)).split())
    for nothing_shipped in (golden_tune.default_best(), golden_tune.exploratory()):
        for one in (finding, unmeasured):
            result = msgspec.structs.replace(nothing_shipped.result, findings=(one,))
            told = " ".join(
                " ".join(answer(msgspec.structs.replace(nothing_shipped, result=result), 140)).split()
            )
            assert "initializers-out-of-inputs: " in told and "of the winner" not in told


def test_the_leader_that_is_not_shipped_has_its_column() -> None:
    found = golden_tune.refused(confirmed(0.99, 0.97, 1.01))
    found = msgspec.structs.replace(found, figures=golden.figures(10.9e6))
    lines = [" ".join(line.split()) for line in answer(golden_tune.default_best(refused=found), 140)]
    assert "default leader vs default 95 % interval" in lines
    assert "p50 11.0 ms 10.9 ms -1.0 % -3.0 % to +1.0 %" in lines
    assert not [line for line in lines if line.startswith("to paste")], "what runs already needs no pasting"


def test_a_winner_from_a_wheel_of_its_own_is_named_with_that_wheel_first() -> None:
    envelope = golden_tune.elsewhere()
    plugged = msgspec.structs.replace(
        envelope.result.runtime,
        package="onnxruntime",
        ort_version="1.32.0",
        plugins={"OpenVINOExecutionProvider": "onnxruntime-ep-openvino 1.8.1"},
    )
    plan = msgspec.structs.replace(envelope.result.winner, settings={"openvino_precision": "f32"})
    result = msgspec.structs.replace(envelope.result, runtime=plugged, winner=plan)
    whole = " ".join(answer(msgspec.structs.replace(envelope, result=result), 200)[0].split())
    assert "with OpenVINO (onnxruntime-ep-openvino 1.8.1) and openvino_precision=f32" in whole
