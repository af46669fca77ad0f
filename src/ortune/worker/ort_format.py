"""ONNX Runtime's own converter to ORT format. It needs the package onnx beside onnxruntime."""

from __future__ import annotations

import importlib
import os
import pathlib
import tempfile
from typing import Any, Dict

from .protocol import Stop

LEVEL = "ORT_CONVERT_ONNX_MODELS_TO_ORT_OPTIMIZATION_LEVEL"  # the converter has no argument for it


def convert(ort: Any, request: Dict[str, Any]) -> str:
    """Writes the model at a level and in a style."""
    params, libraries = request["params"], request["custom_ops"]
    if len(libraries) > 1:
        raise Stop(
            "unsupported",
            "the converter to ORT format takes one library of operators, not %d" % len(libraries),
        )
    try:
        converter = importlib.import_module("onnxruntime.tools.convert_onnx_models_to_ort")
    except ImportError as error:
        raise Stop(
            "unsupported",
            "the converter to ORT format needs the packages onnx and flatbuffers there: %s" % error,
        ) from error
    os.environ[LEVEL] = params["level"]
    style = {"fixed": "Fixed", "runtime": "Runtime"}[params["style"]]
    # Beside the output, for it lists the operators in a file of its own.
    with tempfile.TemporaryDirectory(dir=os.path.dirname(request["output"])) as folder:
        converter.convert_onnx_models_to_ort(
            pathlib.Path(request["model"]),
            output_dir=pathlib.Path(folder),
            optimization_styles=[converter.OptimizationStyle[style]],
            custom_op_library_path=pathlib.Path(libraries[0]) if libraries else None,
        )
        files = [name for name in os.listdir(folder) if name.endswith(".ort")]
        if len(files) != 1:
            raise Stop(
                "unsupported", "onnxruntime %s converted the model and wrote no file" % ort.__version__
            )
        os.replace(os.path.join(folder, files[0]), request["output"])
    return "Wrote ORT format as onnxruntime %s optimises it for the CPU at level %s, style %s." % (
        ort.__version__,
        params["level"],
        params["style"],
    )
