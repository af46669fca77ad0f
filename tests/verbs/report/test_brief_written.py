"""How a brief is written: a page, text and Markdown of the same facts, and a next step that can be typed."""

from __future__ import annotations

import re

import msgspec
import pytest

import golden
import golden_tune
from briefs import made, session
from ortune.printable import visible
from ortune.show import markdown
from ortune.verbs.report import brief_words
from ortune.verbs.report.brief_page import render
from pages import Page

KINDS = sorted(golden_tune.KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_page_is_one_whole_page_without_script_or_address(kind: str) -> None:
    envelope = golden_tune.KINDS[kind]
    text = render(made(envelope), session(envelope))
    seen = Page(text)
    assert seen.broken == [] and seen.open == []
    names = {name for name, _ in seen.elements}
    assert not names & {"script", "img", "link", "iframe", "a", "object", "form", "base"}
    assert all(not a.startswith("on") for _, attributes in seen.elements for a in attributes)
    assert "://" not in text and "url(" not in text and "@import" not in text
    assert "prefers-color-scheme: dark" in text and "size: A4" in text
    assert sum(a.get("role") == "img" for a in seen.named("svg")) <= 1 and len(seen.named("h1")) == 1
    for _, attributes in seen.elements:
        for key in ("x", "x1", "x2", "width"):
            value = str(attributes.get(key) or "0%")
            if value.endswith("%"):
                assert 0 <= float(value[:-1]) <= 100
    assert "not measured now" in seen.text and "ANOTHER machine" in seen.text
    assert "\x1b" not in text and "\u202e" not in text


@pytest.mark.parametrize("kind", KINDS)
def test_text_and_markdown_say_the_same(kind: str) -> None:
    envelope = golden_tune.KINDS[kind]
    found = made(envelope)
    text = golden.printed(brief_words.document(found, session(envelope)), 1000)
    page = markdown.render(brief_words.document(found, session(envelope))).replace("\\_", "_")
    assert found.answer in text and found.answer in page
    assert "\x1b" not in page and "\u202e" not in page
    for risk in found.risks:
        assert risk.name in text and risk.name in page


@pytest.mark.parametrize("width", [80, 140])
@pytest.mark.parametrize("kind", KINDS)
def test_text_fits_its_width_and_loses_nothing(kind: str, width: int) -> None:
    envelope = golden_tune.KINDS[kind]
    found = made(envelope)
    text = golden.printed(brief_words.document(found, session(envelope)), width)
    assert max(len(line) for line in text.splitlines()) <= width
    bare = "".join(text.split())
    for part in (found.answer, *found.next_steps, *(risk.what for risk in found.risks)):
        assert "".join(visible(part).split()) in bare, part


def test_next_step_can_be_typed() -> None:
    unproven = made(golden.compared(comparison=golden.comparison(verdict="inconclusive", guards=())))
    assert unproven.next_steps[0] == "keep the current configuration"
    same = golden.compared(
        base=golden.side("a.onnx"),
        new=golden.side("a.onnx", allow_spinning=False),
        comparison=golden.comparison(verdict="inconclusive", guards=()),
    )
    assert made(same).next_steps == ("keep the current configuration",)  # its inputs are not known
    known = msgspec.structs.replace(same, workload=golden_tune.workload())
    line = "ortune compare a.onnx --b-set allow_spinning=0 --shape input_ids:1x128 --shape pixels:1x3x224x224"
    assert f"{line} --gap 30ms --budget 10m" in made(known).next_steps[1]
    assert re.search(r"ship the bundle /out/model.ortune", made(golden_tune.tuned()).next_steps[0])


def test_next_step_compares_with_what_runs_today_under_the_same_load() -> None:
    named = msgspec.structs.replace(golden.RUNTIME, origin="--runtime", python="/opt/ort/bin/python")
    both = [golden.side("a.onnx", intra_op_num_threads=n) for n in (8, 2)]
    base, new = (msgspec.structs.replace(side, runtime=named) for side in both)
    work = msgspec.structs.replace(
        golden_tune.workload(("seq=16", "seq=128")), inputs_path="real.npz", callers=4, gap_ns=0, seed=7
    )
    envelope = golden.compared(
        base=base,
        new=new,
        comparison=golden.comparison(verdict="inconclusive", guards=(), statistic="peak memory"),
    )
    found = made(msgspec.structs.replace(envelope, workload=work))
    assert found.next_steps[1] == (
        "to find out: ortune compare a.onnx --a-set intra_op_num_threads=8 --b-set intra_op_num_threads=2 "
        "--runtime /opt/ort/bin/python --inputs real.npz --callers 4 --seed 7 --objective memory --budget 10m"
    )
