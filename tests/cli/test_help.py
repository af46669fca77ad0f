"""Help of a verb is made without its code being run, so that it comes at once: each must have what that reads."""

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
    assert importlib.import_module(f"ortune.verbs.{verb}").STOPPING is not None
