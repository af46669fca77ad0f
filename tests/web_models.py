"""The example's models, and ONNX Runtime's converter as a user runs it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "ort-format-on-webgpu"


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
