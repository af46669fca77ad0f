"""The example on ORT format and WebGPU prints what its page shows."""

from __future__ import annotations

import contextlib
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from within import program

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "ort-format-on-webgpu"
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def steps() -> list[tuple[str, str]]:
    """The commands of the page, each with the output that it shows."""
    found = []
    for block in BLOCK.findall((EXAMPLE / "README.md").read_text(encoding="utf-8")):
        for part in block.split("$ ")[1:]:
            command, _, shown = part.partition("\n")
            found.append((command, shown.strip()))
    return found


def said(command: str, folder: Path) -> str:
    words = shlex.split(command)
    if words[0] == "ortune":
        with contextlib.chdir(folder):
            code, text, problem = program(words[1:])
        assert code in (0, 1), f"{command}: {problem}"
    else:
        text = subprocess.run(
            [sys.executable, *words[1:]], cwd=folder, capture_output=True, text=True, check=True
        ).stdout
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def counts(text: str) -> str:
    """Without what grows with every rule, and differs with every release of ONNX Runtime or every CPU."""
    return re.sub(r"\(\d+ rules\)|onnxruntime [\d.]+|[\d,]+ -> [\d,]+|\S+e-\d+|\d+ dB", "#", text)


def test_it_prints_what_the_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    shutil.copy(EXAMPLE / "make_models.py", tmp_path)
    for command, shown in steps():
        assert counts(said(command, tmp_path)) == counts(shown), command
    assert {p.name for p in tmp_path.glob("*.ort")} == {"convnet.ort", "mlp.ort", "convnet-basic.ort"}
