"""What the command line reads of each verb by its name: its help, without its code being imported, and its words."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from ortune.api import verbs
from ortune.cli import main
from ortune.cli.verbs import command, options_of
from ortune.verbs._shared.spelling import option_fields
from within import program


@pytest.mark.parametrize("verb", sorted(verbs()))
def test_every_verb_has_its_help(verb: str) -> None:
    assert command(verb).__doc__
    assert callable(importlib.import_module(f"ortune.verbs.{verb}.words").document)


def test_what_verbs_can_be_asked_is_known_without_what_does_it() -> None:
    code = "import sys, ortune.cli.verbs as v; [v.short_help(name) for name in sys.argv[1:]]; print(*sys.modules)"
    words = [sys.executable, "-c", code, *verbs()]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    imported = {*done.stdout.split()}
    assert {f"ortune.verbs.{verb}.options" for verb in verbs()} <= imported
    heavy = {"numpy", "onnx", "onnx_ir", "msgspec", "psutil", "jinja2"}
    steps = {f"ortune.verbs.{verb}.{part}" for verb in verbs() for part in ("run", "words")}
    assert not imported & (heavy | steps)


@pytest.mark.parametrize("verb", sorted(verbs()))
def test_help_shows_every_word_that_is_written(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "400")  # a line an option
    main.register(verb)
    shown = " ".join(CliRunner().invoke(main.app, [verb, "--help"]).stdout.split())
    options = options_of(verb).Options
    said = [
        each.spelling.help
        for each in option_fields(options)
        if each.spelling and not getattr(each.spelling, "hidden", False)
    ]
    for text in [*(options.__doc__ or "").split("\n\n"), *said]:
        assert " ".join(text.split()) in shown


def test_help_is_a_word_too() -> None:
    assert program(["help", "bench"]) == program(["bench", "--help"])
    assert program(["help"]) == program(["--help"])
    code, _, said = program(["help", "benhc"])
    assert code == 2 and "benhc" in said


@pytest.mark.parametrize(
    ("option", "meant"),
    [("--model", ""), ("--modle", ""), ("--budgte", "--budget"), ("--treshold", "--threshold")],
)
def test_an_option_is_proposed_only_where_it_is_near(option: str, meant: str) -> None:
    code, out, said = program(["compare", "a.onnx", option, "3"])
    assert (code, out) == (2, "")
    assert f"unknown option {option}" in said and "ortune compare --help" in said
    assert (f"did you mean {meant}?" in said) if meant else ("did you mean" not in said)
