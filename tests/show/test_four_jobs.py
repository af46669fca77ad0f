"""Whoever has one of four jobs finds the answer in the first lines, and what is named next can be pasted."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer.core
import typer.main
from onnxruntime import datasets

import golden
import golden_answers
import golden_profile
import golden_tune
import ortune
from ortune.api import verbs
from ortune.cli import main
from ortune.records import Envelope
from ortune.show.stored_kind import stored_kind

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

import four_jobs
from four_jobs import FIRST, JOBS

# A session that is stopped before it has an answer says that first; names that are hostile are no models.
TUNED = [k for k in golden_tune.KINDS if "hostile" not in k]
PROFILED = [k for k in golden_profile.KINDS if "hostile" not in k and k not in ("bare", "difference")]


def told() -> Iterator[tuple[str, str, Envelope]]:
    """A job, whose document, and the document."""
    yield from (("make it faster", f"tune {kind}", golden_tune.KINDS[kind]) for kind in TUNED)
    yield "did my change make it slower", "compare", golden.compared(gate=None)
    yield "which of these three files", "compare", golden.compared(gate=None)
    yield from (("why is it slow", f"profile {kind}", golden_profile.KINDS[kind]) for kind in PROFILED)
    yield "why is it slow", "look", golden_answers.looked()


ALL = [pytest.param(*case, id=f"{case[0]}: {case[1]}") for case in told()]


def shown(envelope: Envelope) -> str:
    kind = stored_kind(envelope.schema.split("/")[1])
    assert kind is not None
    return golden.printed(kind.document(envelope), four_jobs.COLUMNS)


@pytest.mark.parametrize(("title", "name", "envelope"), ALL)
def test_the_answer_stands_in_the_first_lines(title: str, name: str, envelope: Envelope) -> None:
    line = four_jobs.answer_line(JOBS[title], shown(envelope))
    assert line is not None and line <= FIRST, shown(envelope)


@pytest.mark.parametrize(("title", "name", "envelope"), ALL)
def test_a_headline_has_two_lines_at_most(title: str, name: str, envelope: Envelope) -> None:
    if name == "look":
        pytest.skip("its headline is followed by what stands out, without an empty line")
    lines = shown(envelope).removeprefix("stopped early; partial results\n").splitlines()
    # A default that is wrong is named right after it.
    ends = [
        i for i, line in enumerate(lines) if not line or line.startswith("the default's outputs are wrong")
    ]
    assert ends[0] <= 2, lines[:5]


@pytest.mark.parametrize(("title", "name", "envelope"), ALL)
def test_what_is_named_next_is_understood(title: str, name: str, envelope: Envelope) -> None:
    for command in four_jobs.commands(shown(envelope)):
        _parse(command)


def _parse(command: str) -> None:
    """Reads a command line as the program does, and runs nothing."""
    main.register(*verbs())
    group = typer.main.get_command(main.app)
    assert isinstance(group, typer.core.TyperGroup)
    verb, *rest = main._with_look(shlex.split(command)[1:])
    group.commands[verb].make_context(verb, rest)


def test_what_a_stored_session_names_next_works(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = ortune.bench(datasets.get_example("sigmoid.onnx"), processes=3, runs=5, store=tmp_path / "a store")
    commands = four_jobs.commands(done.summary())
    assert [shlex.split(line)[1] for line in commands] == ["tune", "profile", "report"]
    again = shlex.split(commands[-1])
    assert main._run(again[1:]) == 0
    told = capsys.readouterr().out
    assert "not measured now" in told and "p50" in told and "again" in told
