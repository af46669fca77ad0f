"""Conversion to ORT format by ONNX Runtime's own converter; requires the packages onnx and onnxruntime."""

from __future__ import annotations

import importlib
import os
import pathlib
import tempfile
from typing import Any, Dict, List

from .protocol import Stop

LEVEL = "ORT_CONVERT_ONNX_MODELS_TO_ORT_OPTIMIZATION_LEVEL"  # the converter has no argument for the level
CONFIG = ".config"
"""Suffix of the list of needed operators, after the model's name."""
BLOCKS = "NchwcTransformer"
"""The optimiser that lays convolutions out in blocks as wide as the vectors of one x86 processor."""


def fit_platform(options: Any, platform: str) -> List[str]:
    """Set the converter's options for a platform on a session that saves the same graph as an .onnx file.

    Returns:
        The disabled optimisers.
    """
    options.add_session_config_entry("session.qdqisint8allowed", "1" if platform == "arm" else "0")
    return [] if platform == "amd64" else [BLOCKS]


def convert(ort: Any, request: Dict[str, Any]) -> str:
    """Write the model in ORT format at the requested level and style; return a summary sentence."""
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
    from .graph_tools import imported
    from .taps import copied  # imports numpy

    model = copied(request["model"], imported("onnx", ort).load(request["model"], load_external_data=False))
    os.environ[LEVEL] = params["level"]
    style = {"fixed": "Fixed", "runtime": "Runtime"}[params["style"]]
    platform, needed = params.get("platform", "any"), params.get("needed", "")
    # A folder next to the output, since the converter also writes a file with the list of operators.
    with tempfile.TemporaryDirectory(dir=os.path.dirname(request["output"])) as folder:
        converter.convert_onnx_models_to_ort(
            pathlib.Path(model),
            output_dir=pathlib.Path(folder),
            optimization_styles=[converter.OptimizationStyle[style]],
            custom_op_library_path=pathlib.Path(libraries[0]) if libraries else None,
            target_platform=None if platform == "any" else platform,
            enable_type_reduction=needed == "types",
        )
        files = [name for name in os.listdir(folder) if name.endswith(".ort")]
        if len(files) != 1:
            raise Stop(
                "unsupported", "onnxruntime %s converted the model and wrote no file" % ort.__version__
            )
        os.replace(os.path.join(folder, files[0]), request["output"])
        lists = [name for name in os.listdir(folder) if name.endswith(CONFIG)]
        if needed and len(lists) == 1:
            os.replace(os.path.join(folder, lists[0]), request["output"] + CONFIG)
    return "Wrote the ORT-format model as onnxruntime %s optimises it for the CPU: level %s, style %s%s." % (
        ort.__version__,
        params["level"],
        params["style"],
        "" if platform == "any" else ", platform %s" % platform,
    )
