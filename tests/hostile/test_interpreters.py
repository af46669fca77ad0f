"""No interpreter is started because it lies in the folder where ortune is called."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

import ortune
from hostile import commands
from ortune import launcher
from ortune.errors import RuntimeNotFound
from ortune.fleet import runtimes
from ortune.report.doctor_words import document
from ortune.report.markdown import render

pytestmark = pytest.mark.skipif(os.name == "nt", reason="shell scripts")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with an environment whose every program leaves ``mark`` beside the folder."""
    for name in ("python", "python3"):
        commands.script(tmp_path / "checkout" / ".venv" / "bin" / name, tmp_path / "mark")
    monkeypatch.chdir(tmp_path / "checkout")
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    return tmp_path


def test_doctor_names_it_and_starts_it_not(folder: Path) -> None:
    envelope = ortune.doctor(measure=False)
    assert not (folder / "mark").exists()
    assert envelope.result.not_started == ".venv"
    assert "--runtime .venv" in render(document(envelope))


def test_the_error_says_how_to_use_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(RuntimeNotFound) as caught:
        runtimes.find_runtime()
    assert caught.value.do.endswith("--runtime .venv")
    assert not (folder / "mark").exists()


def test_a_relative_folder_of_the_path_holds_no_command(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f".venv/bin{os.pathsep}{os.pathsep}.")
    assert launcher.program("python3") == ""
    assert runtimes.all_runtimes()[-1].origin == "ortune's own"
    assert not (folder / "mark").exists()


def test_one_that_is_named_is_used(folder: Path) -> None:
    assert runtimes.not_started([runtimes.probe(".venv")]) == ""
    assert (folder / "mark").exists()
