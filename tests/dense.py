"""A model of one product."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from onnx_text import model_of, saved


def dense(
    path: Path, names: tuple[str, str] = ("x", "y"), *, scale: float = 1.0, ir_inputs: bool = False
) -> Path:
    """Two inputs of one shape into a matrix product; the same numbers under any names."""
    one, other = names
    fed = ", float[96,96] w" if ir_inputs else ""
    text = f"""dense (float[8,96] {one}, float[8,96] {other}{fed}) => (float[8,96] out) {{
        d = Sub ({one}, {other})
        out = MatMul (d, w)
    }}"""
    return saved(
        path, model_of(text, 13, {"w": np.eye(96, dtype=np.float32) * np.float32(scale)}, ir_version=7)
    )
