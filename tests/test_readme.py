"""The README does what it says: every command and every Python block in it is run, in order.

But for the installation, which `make` has done for whoever runs the tests: what it asks for has to be there.

What commands claim is held by tests of their own; here each is understood, does its work on a model of one node within
a budget of seconds, and leaves what the next one needs.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from onnxruntime import datasets

ROOT = Path(__file__).resolve().parents[1]

README, PROJECT = ((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "pyproject.toml"))
BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
BUDGET_S = 1


def steps() -> list[tuple[str, str]]:
    """(kind, text) of every command and Python block, in the README's order."""
    found: list[tuple[str, str]] = []
    for kind, body in BLOCK.findall(README):
        found += [(kind, body)] if kind == "python" else [(kind, line) for line in body.splitlines() if line]
    return found


def quick(kind: str, text: str) -> str:
    """The same with seconds for all measuring, and an environment that nothing is installed into."""
    if kind == "python":
        return text.replace("max_blocks=9", f"budget={BUDGET_S}")
    if "-m venv" in text:
        return f"{text} --without-pip"
    if text.startswith("ortune"):
        return f"{text.partition(' #')[0].rstrip()} --budget {BUDGET_S}s"
    return text


def run(kind: str, text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    # A newcomer's: an empty home, and no virtual environment that is active.
    (folder / "home").mkdir(exist_ok=True)
    environment = {
        **{n: v for n, v in os.environ.items() if n != "VIRTUAL_ENV" and not n.startswith("XDG_")},
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(folder / "home"),
    }
    words = [sys.executable, "-c", text] if kind == "python" else ["bash", "-c", text]
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def allowed(text: str) -> set[int]:
    """A gate may answer yes or no, or that so few seconds answer nothing; all else must succeed."""
    return {0, 1, 3} if "--threshold" in text else {0}


def test_the_readme_is_short_and_has_commands() -> None:
    commands = [text for kind, text in steps() if kind == "sh"]
    assert sum(text.startswith("ortune ") for text in commands) >= 4
    assert len(README.splitlines()) < 110


def test_everything_in_the_readme_runs(tmp_path: Path) -> None:
    for kind, text in steps():
        if installs := re.fullmatch(r"\S+/pip install '\.\[(\w+)\]'", text):
            assert installs[1] in tomllib.loads(PROJECT)["project"]["optional-dependencies"]
            continue
        done = run(kind, quick(kind, text), tmp_path)
        assert done.returncode in allowed(text), f"{text}\n{done.stdout}\n{done.stderr}"
        if (tmp_path / "squeezenet.onnx").is_file():  # the next commands are as good on a smaller one
            shutil.copy(datasets.get_example("sigmoid.onnx"), tmp_path / "squeezenet.onnx")
    assert (tmp_path / "result.json").is_file()


def test_the_python_example_runs(tmp_path: Path) -> None:
    example = ROOT / "examples" / "compare_in_python.py"
    done = run("sh", f"python '{example}' '{datasets.get_example('sigmoid.onnx')}' {BUDGET_S}", tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.match(r"(faster|slower|equivalent|inconclusive): (B takes \d|nothing was timed)", done.stdout)
