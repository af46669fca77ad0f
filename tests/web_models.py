"""Models for browsers: a small one of four nodes, those of the example, and ONNX Runtime's own converter."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from onnx_text import assemble
from ortune import targets
from ortune.records import Runtime

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "ort-format-on-webgpu"
RNG = np.random.default_rng(3)


def _made(name: str, place: Path) -> Path:
    if not (place.parent / name).exists():
        subprocess.run(
            [sys.executable, EXAMPLE / "make_models.py", "--onnx-only"],
            cwd=place.parent,
            check=True,
            timeout=60,
        )
    shutil.copyfile(place.parent / name, place)
    return place


def convolutions(place: Path) -> Path:
    """Convolutions with a residual connection."""
    return _made("convnet.onnx", place)


def products(place: Path) -> Path:
    """Three layers of Gemm and an activation."""
    return _made("mlp.onnx", place)


def convert(models: Path, level: str, *options: str) -> list[Path]:
    """A model, or all of a folder, into ORT format, by the converter's own command line."""
    folder = models.parent / f"converted-{level}"
    command = [sys.executable, "-m", "onnxruntime.tools.convert_onnx_models_to_ort", str(models)]
    command += ["--optimization_style", "Fixed", "--output_dir", str(folder), *options]
    variables = {**os.environ, "ORT_CONVERT_ONNX_MODELS_TO_ORT_OPTIMIZATION_LEVEL": level}
    subprocess.run(command, env=variables, check=True, timeout=120, capture_output=True)
    return sorted(folder.glob("*.ort"))


def web_net(path: Path) -> Path:
    """Mul, Relu, Shrink (which WebGPU has no kernel for), Add: software compiles shaders of more for seconds."""
    weights = [RNG.standard_normal((8, 16, 16)).astype(np.float32) for _ in range(2)]
    nodes = [
        helper.make_node("Mul", ["x", "w0"], ["a"], name="first"),
        helper.make_node("Relu", ["a"], ["b"], name="act"),
        helper.make_node("Shrink", ["b"], ["c"], name="shrink", lambd=0.1),
        helper.make_node("Add", ["c", "w1"], ["y"], name="last"),
    ]
    onnx.save(
        assemble(
            nodes,
            "float[1,8,16,16] x",
            "float[1,8,16,16] y",
            [numpy_helper.from_array(w, f"w{i}") for i, w in enumerate(weights)],
            opset=13,
        ),
        path,
    )
    return path


def web_inputs(folder: Path) -> str:
    """Real inputs, so that no page asks what invented ones would take; a tuning does."""
    np.savez(folder / "x.npz", x=RNG.standard_normal((1, 8, 16, 16)).astype(np.float32))
    return str(folder / "x.npz")


def needs(name: str) -> None:
    """Skips the test where this machine has no such target."""
    report = targets.find(name).discover(Runtime(python=""))
    if not report.usable:
        pytest.skip(f"NOT TESTED HERE: {name}: {report.why}")
