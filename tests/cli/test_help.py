"""What the command line reads of each verb by its name: its help, made without its code being run, and its words."""

from __future__ import annotations

import importlib

import pytest
from typer.testing import CliRunner

from ortune.api import verbs
from ortune.cli import main
from ortune.cli.verbs import command
from ortune.verbs._options import option_fields


@pytest.mark.parametrize("verb", sorted(verbs()))
def test_every_verb_has_its_help(verb: str) -> None:
    found, real = command(verb, for_help=True), command(verb)
    assert found.__doc__ == real.__doc__ and found.__doc__
    assert list(found.__signature__.parameters) == list(real.__signature__.parameters)  # type: ignore[attr-defined]
    assert callable(importlib.import_module(f"ortune.report.{verb}_words").document)


@pytest.mark.parametrize("verb", sorted(verbs()))
def test_help_shows_every_word_that_is_written(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "400")  # a line an option
    main.register(verb)
    shown = " ".join(CliRunner().invoke(main.app, [verb, "--help"]).stdout.split())
    options = importlib.import_module(f"ortune.verbs.{verb}").Options
    said = [
        each.spelling.help
        for each in option_fields(options)
        if each.spelling and not getattr(each.spelling, "hidden", False)
    ]
    for text in [*(options.__doc__ or "").split("\n\n"), *said]:
        assert " ".join(text.split()) in shown
