"""No interpreter is started because it lies in the folder where ortune is called."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

import ortune
from hostile import commands
from ortune import launcher
from ortune.errors import RuntimeNotFound
from ortune.runtimes import made, runtimes
from ortune.runtimes.environment import clean_environment
from ortune.show.markdown import render
from ortune.targets import remote_process
from ortune.verbs.doctor.words import document

PACKAGE = Path(ortune.__file__).parent

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


def starts(tree: ast.AST) -> Iterator[list[ast.expr]]:
    """Every command line in a module's code that begins with an interpreter."""
    for node in ast.walk(tree):
        if isinstance(node, ast.List) and node.elts:
            first = ast.unparse(node.elts[0])
            if first in ("python", "sys.executable", "self.python") or first.endswith(".python"):
                yield node.elts


OWN_FOLDER = ("program", "str(write_sources(", "self._path(", "'-'")
"""Beginnings of what is started from a folder of ours: its folder is first on the path; and what probes begin with."""
IN_OWN_FOLDER = {
    "installing.py": {"[sys.executable, '-m', 'pip', '--python', python]"},
    "cluster_host.py": {"[sys.executable, *arguments]"},
    "libraries.py": {"[python, '-m', 'pip', 'install', *wheels]"},
}
"""Started with a working directory of ours, which is then first on the path; and text that users are shown."""


def test_no_interpreter_is_started_with_the_current_folder_on_its_path() -> None:
    found = 0
    for file in PACKAGE.rglob("*.py"):
        if file.parent.name in ("languages", "templates"):  # text of what users run
            continue
        for command in starts(ast.parse(file.read_text(encoding="utf-8"))):
            found += 1
            words = [ast.unparse(word) for word in command]
            apart = words[1] == "'-I'" or words[1].startswith(OWN_FOLDER) or words[1] == "*_CONSOLE"
            assert apart or f"[{', '.join(words)}]" in IN_OWN_FOLDER.get(file.name, set()), (file.name, words)
    assert found >= 8 and remote_process._CONSOLE[0] == "-I"


@pytest.mark.parametrize("variable", ["", ".", "{sep}", "{sep}/nowhere"])
def test_a_module_of_the_current_folder_is_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", variable.format(sep=os.pathsep))
    monkeypatch.setenv("LD_LIBRARY_PATH", variable.format(sep=os.pathsep))
    for name in ("onnxruntime", "numpy", "torch", "json", "importlib", "platform", "plugins"):
        Path(f"{name}.py").write_text("open('mark', 'w')\n")
    assert runtimes.probe(sys.executable).ort_version
    for name in ("PYTHONPATH", "LD_LIBRARY_PATH"):
        assert clean_environment()[name] in ("", "/nowhere")
    assert not Path("mark").exists()


def test_an_environment_is_tried_without_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a converter's environment is asked after it was installed, in a checkout with modules of those names."""
    monkeypatch.chdir(tmp_path)
    Path("onnx.py").write_text("open('mark', 'w')\n")
    recipe = SimpleNamespace(name="x", converter=SimpleNamespace(imports=("onnx", "numpy")))
    assert made._converter(recipe, Path(sys.prefix)).python_version  # type: ignore[arg-type]
    assert not Path("mark").exists()
