"""Files in ORT format as the command writes them, and what they compute."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime as ort

from within import program


def converted(model: Path, *words: str, code: int = 0) -> tuple[str, str]:
    """What the command wrote to stdout and to stderr."""
    done, text, said = program(["convert", str(model), "--to", "ort", *words])
    assert done == code, said
    return text, said


def ran(path: Path) -> np.ndarray:
    """The output of a file for the one input of ``mobile_models.mnist``."""
    feeds = {"Input3": np.random.default_rng(0).standard_normal((1, 1, 28, 28), dtype=np.float32)}
    found: np.ndarray = ort.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, feeds)[0]
    return found
