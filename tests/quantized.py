"""Quantized models that are right, and wrong in one place each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from onnx_text import assemble, dims


class Graph:
    """Nodes and weights as they are added."""

    def __init__(self, seed: int) -> None:
        self.draw = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def stored(self, values: Any, name: str = "") -> str:
        """A weight."""
        name = name or f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.array(values, order="C"), name))
        return name

    def add(self, operator: str, *inputs: str, name: str = "", out: str = "", **attributes: Any) -> str:
        """A node; the value that it makes."""
        name = name or f"{operator}_{len(self.nodes)}"
        out = out or f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [out], name, **attributes))
        return out

    def pair(self, value: str, scale: float, zero: int = 128, kind: type = np.uint8) -> str:
        """A value through QuantizeLinear and DequantizeLinear."""
        grid = self.stored(np.float32(scale)), self.stored(kind(zero))
        return self.add("DequantizeLinear", self.add("QuantizeLinear", value, *grid), *grid)

    def int8(self, weight: np.ndarray) -> tuple[str, float]:
        """A weight behind DequantizeLinear with one scale, and that scale."""
        scale = float(np.abs(weight).max() / 127)
        values = np.clip(np.round(weight / scale), -127, 127).astype(np.int8)
        grid = self.stored(np.float32(scale)), self.stored(np.int8(0))
        return self.add("DequantizeLinear", self.stored(values), *grid), scale

    def int32(self, bias: np.ndarray, scale: float) -> str:
        """A bias behind DequantizeLinear, cut off at the ends of int32."""
        limits = np.iinfo(np.int32)
        values = np.clip(np.round(bias / scale), limits.min, limits.max).astype(np.int32)
        return self.add(
            "DequantizeLinear", self.stored(values, f"bias{len(self.nodes)}"), self.stored(np.float32(scale))
        )

    def save(self, path: Path, shape: Sequence[int], made: Sequence[int], opset: int = 17) -> Path:
        """The model from ``x`` to ``y``."""
        model = assemble(
            self.nodes, f"float[{dims(shape)}] x", f"float[{dims(made)}] y", self.weights, opset=opset
        )
        onnx.save(model, path)
        return path


def product(path: Path, bias_scale: float | None, size: float = 0.4, *, signed: bool = False) -> Path:
    """A Gemm between pairs; a bias with a scale of its own is read wrong by the fused QGemm, one without is right."""
    g = Graph(3)
    grid = {"zero": 3, "kind": np.int8} if signed else {}
    x = g.pair("x", 0.02, **grid)
    weight, scale = g.int8(g.draw.normal(size=(64, 32)).astype(np.float32) * 0.1)
    bias = g.int32(g.draw.uniform(-size, size, 32), bias_scale or 0.02 * scale)
    y = g.pair(g.add("Gemm", x, weight, bias, name="fc"), 0.05, **grid)
    g.add("Relu", y, out="y", name="last")
    return g.save(path, [8, 64], [8, 32])
