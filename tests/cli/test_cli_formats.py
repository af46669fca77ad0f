"""``--format``: what the help of a verb offers is what the verb takes."""

from __future__ import annotations

import re

import pytest
import typer.main
from typer.core import TyperGroup
from typer.testing import CliRunner

from ortune.api import verbs
from ortune.cli import main

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
