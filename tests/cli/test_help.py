"""What the command line reads of each verb by its name: its help, made without its code being run, and its words."""

from __future__ import annotations

import importlib

import pytest

from ortune.api import verbs
from ortune.cli.verbs import command


@pytest.mark.parametrize("verb", sorted(verbs()))
def test_every_verb_has_its_help(verb: str) -> None:
    found, real = command(verb, for_help=True), command(verb)
    assert found.__doc__ == real.__doc__ and found.__doc__
    assert list(found.__signature__.parameters) == list(real.__signature__.parameters)  # type: ignore[attr-defined]
    assert callable(importlib.import_module(f"ortune.report.{verb}_words").document)
