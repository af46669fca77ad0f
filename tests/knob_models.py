"""Small models for the tests of settings."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper

from onnx_text import assemble


def transformer_block() -> onnx.ModelProto:
    """A residual block: LayerNormalization(x + gelu(x W + b)), Gelu by Erf, with a Transpose pair."""
    rng = np.random.default_rng(0)
    weights = {
        "w": rng.standard_normal((32, 32), np.float32),
        "b": rng.standard_normal(32, np.float32),
        "scale": np.ones(32, np.float32),
        "root": np.float32(2**0.5),
        "one": np.float32(1),
        "half": np.float32(0.5),
    }
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Add", ["p", "b"], ["a"]),
        helper.make_node("Div", ["a", "root"], ["d"]),
        helper.make_node("Erf", ["d"], ["e"]),
        helper.make_node("Add", ["e", "one"], ["e1"]),
        helper.make_node("Mul", ["a", "e1"], ["ae"]),
        helper.make_node("Mul", ["ae", "half"], ["g"]),
        helper.make_node("Add", ["x", "g"], ["r"]),
        helper.make_node("LayerNormalization", ["r", "scale"], ["y"]),
    ]
    return build(nodes, weights)


def build(nodes: list[onnx.NodeProto], weights: dict[str, np.ndarray] | None = None) -> onnx.ModelProto:
    return assemble(
        nodes,
        "float[1,16,32] x",
        "float[] y",
        [onnx.numpy_helper.from_array(np.asarray(v), k) for k, v in (weights or {}).items()],
        opset=18,
        ir_version=9,
    )
