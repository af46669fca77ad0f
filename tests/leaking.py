"""Models with an operator that keeps memory, of a library that is compiled here: ``leaking_ops.c``."""

from __future__ import annotations

import functools
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import onnx
import onnx.parser
import pytest

from onnx_text import saved

SOURCE = Path(__file__).with_name("leaking_ops.c")


@functools.cache
def library() -> Path:
    """The compiled operators; skips a test where no compiler is."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None or sys.platform != "linux":
        pytest.skip("no C compiler on this machine, or not Linux")
    target = Path(tempfile.mkdtemp(prefix="leaking-")) / "leaking.so"
    command = [compiler, "-shared", "-fPIC", "-O1", "-w", "-o", str(target), str(SOURCE)]
    subprocess.run(command, check=True, timeout=120)
    return target


def model(folder: Path, operator: str, shape: str = "16,64") -> Path:
    """Write a model whose input passes one of the operators."""
    text = f"""
        <ir_version: 8, opset_import: ["": 17, "leaking": 1]>
        g (float[{shape}] x) => (float[{shape}] y) {{ t = leaking.{operator} (x)  y = Relu (t) }}
    """
    return saved(folder / f"{operator.lower()}.onnx", onnx.parser.parse_model(text))
