"""Models as ONNX Runtime's own optimiser leaves them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import onnx
import onnx.numpy_helper
import onnx.parser
import onnxruntime as ort


def optimised(path: Path, folder: Path) -> Counter[str]:
    """Operators of the graph that ONNX Runtime runs."""
    return optimised_session(path, folder)[0]


def optimised_session(path: Path, folder: Path) -> tuple[Counter[str], ort.InferenceSession]:
    """The same, and the session that runs it."""
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.optimized_model_filepath = str(folder / "optimised.onnx")
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return Counter(node.op_type for node in onnx.load(folder / "optimised.onnx").graph.node), session
