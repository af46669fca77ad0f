"""``--format`` and ``--report``: what the help of a verb offers is what the verb takes, and every verb has a page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer.main
from onnxruntime import datasets
from typer.core import TyperGroup
from typer.testing import CliRunner

from ortune.api import verbs
from ortune.cli import main
from pages import require_offline, require_readable, require_whole

main.register(*verbs())
COMMAND = typer.main.get_command(main.app)
assert isinstance(COMMAND, TyperGroup)
OFFERED = {
    name: option.help
    for name, verb in COMMAND.commands.items()
    for option in verb.params
    if option.name == "format"
}


@pytest.mark.parametrize("verb", sorted(OFFERED))
def test_the_help_offers_what_the_verb_takes(verb: str) -> None:
    main.register(verb)
    said = CliRunner().invoke(main.app, [verb, "model.onnx", "--format", "none"]).output
    refused = re.search(r"one of ([a-z, ]+)", said)
    assert refused, said
    assert set(re.findall(r"\w+", OFFERED[verb].replace(" or ", " "))) == set(refused[1].split(", "))


def test_every_verb_that_prints_a_document_has_formats() -> None:
    assert {"bench", "compare", "doctor", "lock", "look", "profile", "report", "tune"} <= OFFERED.keys()


def test_every_verb_has_a_page() -> None:
    assert [name for name in verbs() if "html" not in (OFFERED[name] or "")] == []
    flags = {
        name: {flag for each in verb.params for flag in each.opts} for name, verb in COMMAND.commands.items()
    }
    assert [name for name in verbs() if "--report" not in flags[name]] == []


MODEL = datasets.get_example("sigmoid.onnx")


@pytest.mark.parametrize(
    "words",
    [
        ["explain", "GRA002"],
        ["runtime"],
        ["doctor", "--no-measure"],
        ["check", MODEL],
        ["rewrite", MODEL],
        ["bisect", MODEL, "--b-set", "level=basic"],
        ["skeleton", MODEL],
        ["partition", MODEL],
    ],
    ids=lambda words: words[0],
)
def test_a_verb_that_keeps_nothing_writes_its_page_beside_its_answer(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main._run([*words, "--report", "page.html"]) in (0, 1)
    assert capsys.readouterr().out.strip()
    text = Path("page.html").read_text(encoding="utf-8")
    require_whole(text)
    require_offline(text)
    require_readable(text)


def test_a_page_without_a_folder_is_refused_before_anything_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main._run(["skeleton", MODEL, "--report", "none/page.html"]) == 2
    assert "none: no such folder" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("form", ["json", "text", "html"])
def test_what_goes_to_a_file_leaves_its_answer_and_its_place_in_the_log(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main._run(["partition", MODEL, "--format", form, "--output", "answer"]) == 0
    written = capsys.readouterr()
    assert written.out == "" and Path("answer").read_text(encoding="utf-8")
    *_, answer, place = written.err.splitlines()
    assert "NNAPI" in answer
    assert place == "written to answer"
