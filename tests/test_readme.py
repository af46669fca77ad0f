"""The README does what it says: every command and every Python block in it is run, in order."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from onnxruntime import datasets

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))

import make_recipes  # noqa: E402

# Two measurements at once are each other's noise: those that wait for a verdict run one after another.
pytestmark = pytest.mark.xdist_group("measuring")

README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(console|sh|python)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def steps() -> list[tuple[str, str, list[str]]]:
    """(kind, text, lines shown below) of every command and Python block, in the README's order."""
    found: list[tuple[str, str, list[str]]] = []
    for kind, body in BLOCK.findall(README):
        if kind == "python":
            found.append((kind, body, []))
            continue
        for line in body.splitlines():
            if kind == "sh" or line.startswith("$ "):
                found.append(("command", line.removeprefix("$ "), []))
            elif line.strip():
                found[-1][2].append(line)
    return [step for step in found if not step[1].startswith("make")]


def small(folder: Path) -> Path:
    """A folder beside what is shown, in which a model of one node bears the name of the large one."""
    found = folder / "small"
    found.mkdir(exist_ok=True)
    shutil.copy(datasets.get_example("sigmoid.onnx"), found / "squeezenet.onnx")
    return found


def run(kind: str, text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    # A newcomer's: an empty home, and no virtual environment that is active.
    (folder / "home").mkdir(exist_ok=True)
    environment = {
        **{n: v for n, v in os.environ.items() if n != "VIRTUAL_ENV" and not n.startswith("XDG_")},
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(folder / "home"),
    }
    installs = "pip install" in text
    if installs:  # the package is built, but nothing is installed
        text = f"{text.removeprefix('.venv/bin/')} --dry-run --no-deps --quiet"
    # As few blocks as make the same rows. What is not shown is no other for a smaller model.
    if text.startswith("ortune compare"):
        text += " --max-blocks 6"
    if kind == "python" or "--json" in text:
        folder = small(folder)
        text = f"{text} --no-why" if kind == "command" else text.replace("max_blocks=9", "max_blocks=6")
    words = [sys.executable, "-c", text] if kind == "python" else ["bash", "-c", text]
    where = ROOT if installs else folder
    for _ in range(3):
        done = subprocess.run(words, cwd=where, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 3:  # 3: the machine was too unquiet for any verdict just then
            break
    return done


def allowed(text: str) -> set[int]:
    """A gate may answer yes or no; all else must succeed."""
    return {0, 1} if "--threshold" in text else {0}


def test_the_readme_has_commands() -> None:
    commands = [text for kind, text, _ in steps() if kind == "command"]
    assert sum(text.startswith("ortune ") for text in commands) >= 3


def test_everything_in_the_readme_runs(tmp_path: Path) -> None:
    stated = {step.text: step for step in make_recipes.steps(README)}
    for kind, text, shown in steps():
        done = run(kind, text, tmp_path)
        assert done.returncode in allowed(text), f"{text}\n{done.stdout}\n{done.stderr}"
        if shown:
            lines = tuple(line.rstrip() for line in done.stdout.rstrip().splitlines())
            assert make_recipes.trouble(stated[text], replace(stated[text], shown=lines)) == []
    assert (tmp_path / "small" / "result.json").is_file()


def test_the_python_example_runs(tmp_path: Path) -> None:
    example = ROOT / "examples" / "compare_in_python.py"
    done = run("command", f"python '{example}' '{datasets.get_example('sigmoid.onnx')}' 12", tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.match(r"(faster|slower|equivalent|inconclusive): B takes \d", done.stdout)
