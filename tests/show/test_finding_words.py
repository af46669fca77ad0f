"""Findings in words: evidence once, the command that measures a fix, severities on GitHub."""

from __future__ import annotations

import pytest

import golden
import golden_tune
from ortune.records import Finding, Plan, RewriteSpec
from ortune.show import finding_words as words
from ortune.show.document import Document
from ortune.verbs.compare import words as compare_words
from ortune.verbs.tune import words as tune_words

SWAP = Finding(code="ENV003", what="it swaps", evidence="3 GiB of swap", fix="free memory")


def test_a_finding_is_told_with_its_evidence_unless_that_is_said_already() -> None:
    assert SWAP.sentence() == "ENV003 it swaps (3 GiB of swap) -> free memory"
    assert SWAP.sentence(evidence=False) == "ENV003 it swaps -> free memory"
    twice = Finding(code="MSR010", what="latency depends on the input: 1-2 ms", evidence="1-2 ms")
    assert twice.sentence() == "MSR010 latency depends on the input: 1-2 ms"


@pytest.mark.parametrize(
    ("plan", "options"),
    [
        (Plan(settings={"intra_op_num_threads": 2}), "--b-set intra_op_num_threads=2"),
        (Plan(settings={"allow_spinning": False}), "--b-set allow_spinning=0"),
        (Plan(rewrites=(RewriteSpec(name="fold"),)), "--b-rewrite fold"),
        (
            Plan(rewrites=(RewriteSpec(name="fixed-dimensions", params={"a b": "1", "c": "2"}),)),
            "--b-rewrite 'fixed-dimensions:a b=1,c=2'",
        ),
    ],
)
def test_a_fix_that_is_a_plan_becomes_the_command_that_measures_it(plan: Plan, options: str) -> None:
    finding = Finding(code="GRA002", what="it is slow", fix="in words", plan=plan)
    (found, same) = words.measurable([finding, SWAP], ["my model.onnx", "--dim", "seq=8"])
    assert found.fix == f"ortune compare 'my model.onnx' --dim seq=8 {options}"
    assert same == SWAP


def test_only_what_is_about_the_measurement_is_a_caveat() -> None:
    drift = Finding(code="MSR003", what="runs drift")
    assert words.caveats([SWAP, drift]) == ["MSR003 runs drift"]


def test_a_job_is_told_how_severe_it_is() -> None:
    found = [Finding(code="ENV001", what="", severity=severity) for severity in ("error", "warning", "note")]
    assert [annotation.level for annotation in words.to_annotate(found)] == ["error", "warning", "notice"]


@pytest.mark.parametrize(
    ("what", "where", "told"),
    [
        ("one node takes 37 % of the run", ("/a", "/b", "/c", "/d"), " (/a, /b, /c and 1 more)"),
        ("control flow: 12 If (/a, /b, 10 more)", ("/a", "/b", "/c", "/d"), ""),
        ("repeats others: model.f...ic_buffer", ("model.feature.basic_buffer", "905"), ""),
        ("guessed sizes: ?=224", ("?",), ""),
        ("a name that is not there...", ("/a",), " (/a)"),
    ],
)
def test_places_are_told_once(what: str, where: tuple[str, ...], told: str) -> None:
    assert words.places(Finding(code="GRA003", what=what, where=where)) == told


CAUSE = Finding(code="GRA002", what="a weight is an input", plan=Plan(rewrites=(RewriteSpec(name="fold"),)))
LIMIT = Finding(code="MSR010", what="latency depends on the input", fix="give --inputs")
TOLD: dict[str, Document] = {
    "compare": compare_words.document(golden.compared(findings=(SWAP, LIMIT))),
    "compare without times": compare_words.document(golden.compared(findings=(SWAP, LIMIT), comparison=None)),
    "tune": tune_words.document(golden_tune.tuned(findings=(SWAP, LIMIT, CAUSE))),
}


@pytest.mark.parametrize("verb", TOLD)
def test_details_repeat_no_finding(verb: str) -> None:
    text = golden.printed(TOLD[verb], 140, whole=True)
    assert [text.count(finding.what) for finding in (SWAP, LIMIT)] == [1, 1]
    assert text.count("GRA002") == (verb == "tune")
