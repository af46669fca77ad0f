"""Small programs that use ONNX Runtime, and their recordings."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

from ortune.recorder import program
from ortune.records import Recording

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


def written(folder: Path, body: str, *, head: str = HEAD) -> Path:
    """Write a program, whose names are those of ``HEAD``."""
    path = folder / "app.py"
    path.write_text(head + textwrap.dedent(body), encoding="utf-8")
    return path


def recorded(
    command: Sequence[str | Path], *, variables: Mapping[str, str] | None = None, limit_s: float = 120.0
) -> Recording:
    """Run a command with the recorder in it."""
    return program.record(
        list(map(str, command)), duration_s=limit_s, given={**os.environ, **(variables or {})}
    )


def run(folder: Path, body: str, *words: str, variables: Mapping[str, str] | None = None) -> Recording:
    """Record a program under the interpreter of the tests."""
    return recorded([sys.executable, written(folder, body), *words], variables=variables)


def counts(recording: Recording) -> list[tuple[int, int]]:
    """The process and the calls of each session."""
    return [(session.process, session.n_calls) for session in recording.sessions]
