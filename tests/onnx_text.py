"""Small models, written as ONNX text: what a test is about stands in it, and nothing else has to."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
from numpy.typing import NDArray
from onnx import numpy_helper


def model_of(
    text: str,
    opset: int = 17,
    weights: Mapping[str, NDArray[np.generic]] | None = None,
    *,
    ir_version: int = 8,
    contrib: bool = False,
) -> onnx.ModelProto:
    """A model from the text of its graph.

    Args:
        text: ``g (float[2,3] x) => (float[2,3] y) { y = Relu (x) }``; ONNX describes the syntax in ``docs/Syntax.md``.
        opset: Of the standard operators.
        weights: Initializers beside those that the text has, by name.
        ir_version: Of the file.
        contrib: ONNX Runtime's own operators may be in it.
    """
    opsets = f'"" : {opset}' + (', "com.microsoft" : 1' if contrib else "")
    proto = onnx.parser.parse_model(f"<ir_version: {ir_version}, opset_import: [{opsets}]>\n{text}")
    proto.graph.initializer.extend(
        numpy_helper.from_array(value, name) for name, value in (weights or {}).items()
    )
    return proto


def saved(path: Path, proto: onnx.ModelProto) -> Path:
    """The path, once the model is there."""
    onnx.save(proto, path)
    return path
