"""Small programs that use ONNX Runtime, and their recordings."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import pytest

from ortune.recorder import applying, program
from ortune.records import AppliedRun, Recording, SessionChange

HEAD = """
import os, sys
import numpy as np
import onnxruntime as ort
from onnxruntime import InferenceSession, datasets

MODEL = datasets.get_example("sigmoid.onnx")
X = {"x": np.ones((3, 4, 5), np.float32)}

def opened(threads=1):
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    return InferenceSession(MODEL, options)
"""

LONG = "import time; time.sleep(0.3)\n"
"""The end of a program that is found from outside alone: it lives longer than the time between two looks."""

ENVIRONMENTS = Path(__file__).resolve().parents[2] / ".cache" / "recorder"


def python_with(packages: Sequence[str], name: str, base: str | Path = sys.executable) -> str:
    """An interpreter with packages, in an environment that is made once and kept; without them the test is skipped."""
    folder = ENVIRONMENTS / name
    own = folder / "bin" / "python"
    if not (folder / "made").exists():
        subprocess.run([base, "-m", "venv", "--clear", folder], check=True)
        done = subprocess.run([own, "-m", "pip", "install", "-q", *packages], capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"NOT TESTED, {name} could not be installed: {done.stderr[-200:]}")
        (folder / "made").touch()
    return str(own)


def written(folder: Path, body: str, *, head: str = HEAD) -> Path:
    """Write a program, whose names are those of ``HEAD``."""
    path = folder / "app.py"
    path.write_text(head + textwrap.dedent(body), encoding="utf-8")
    return path


def recorded(
    command: Sequence[str | Path],
    *,
    variables: Mapping[str, str] | None = None,
    limit_s: float = 120.0,
    with_inputs: int = 0,
) -> Recording:
    """Run a command with the recorder in it."""
    given = {**os.environ, **(variables or {})}
    return program.record(list(map(str, command)), duration_s=limit_s, with_inputs=with_inputs, given=given)


def run(folder: Path, body: str, *words: str, variables: Mapping[str, str] | None = None) -> Recording:
    """Record a program under the interpreter of the tests."""
    return recorded([sys.executable, written(folder, body), *words], variables=variables)


def counts(recording: Recording) -> list[tuple[int, int]]:
    """The process and the calls of each session."""
    return [(session.process, session.n_calls) for session in recording.sessions]


def change(model: Path | bytes, **fields: object) -> SessionChange:
    """Return a change for a model, by its content."""
    data = model if isinstance(model, bytes) else model.read_bytes()
    changed = {"sha256": [hashlib.sha256(data).hexdigest()], "sizes": [len(data)], "name": "model", **fields}
    return msgspec.convert(changed, SessionChange)


def applied(
    command: Sequence[str | Path],
    *changes: SessionChange,
    folder: Path,
    variables: Mapping[str, str] | None = None,
) -> tuple[AppliedRun, str, str]:
    """Run a command with changed sessions, and return the run with what the program printed on its two streams."""
    printed = folder / "printed"
    shell = f'exec "$0" "$@" > {printed} 2> {printed}.err'
    done = applying.apply(
        ["/bin/sh", "-c", shell, *map(str, command)],
        changes,
        variables={},
        given={**os.environ, **(variables or {})},
    )
    return done, printed.read_text(encoding="utf-8"), Path(f"{printed}.err").read_text(encoding="utf-8")
