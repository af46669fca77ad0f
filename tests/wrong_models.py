"""Models of which ONNX Runtime's optimiser makes something else, models that look like them, and models of NaN."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from onnx_text import assemble


class Builder:
    """A graph in the making; values are numbered as they come."""

    def __init__(self, seed: int) -> None:
        self.draw = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def const(self, value: object, name: str = "") -> str:
        name = name or f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def op(self, kind: str, *inputs: str, out: str = "", name: str = "", **attributes: object) -> str:
        out = out or f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [out], name=name, **attributes))
        return out

    def quantized(self, value: str, scale: float, zero: int = 128) -> str:
        """Through the grid of that step and back."""
        s, z = self.const(np.float32(scale)), self.const(np.uint8(zero))
        return self.op("DequantizeLinear", self.op("QuantizeLinear", value, s, z), s, z)

    def weight(self, *shape: int, per_row: bool = False) -> tuple[str, float]:
        """A float weight held in eight bits, behind DequantizeLinear, with its scale."""
        values = self.draw.standard_normal(shape).astype(np.float32) * 0.1
        largest = np.abs(values).max(axis=1, keepdims=True) if per_row else np.abs(values).max()
        scale = np.asarray(largest / 127, np.float32)
        stored = self.const(np.clip(np.rint(values / scale), -127, 127).astype(np.int8))
        if not per_row:
            return self.op(
                "DequantizeLinear", stored, self.const(scale.reshape(())), self.const(np.int8(0))
            ), float(scale)
        zeros = self.const(np.zeros(shape[0], np.int8))
        return self.op("DequantizeLinear", stored, self.const(scale.ravel()), zeros, axis=0), float(
            scale.mean()
        )

    def save(self, path: Path, x: tuple[int, ...], y: tuple[int, ...], kind: int = TensorProto.FLOAT) -> Path:
        sides = [helper.make_tensor_value_info(n, kind, s) for n, s in (("x", x), ("y", y))]
        model = assemble(self.nodes, sides[:1], sides[1:], self.weights)
        onnx.checker.check_model(model)
        onnx.save(model, path)
        return path


def gemm(
    path: Path,
    *,
    bias_scale: float | None = 0.001,
    per_row: bool = False,
    before: bool = False,
    resized: bool = False,
) -> Path:
    """A quantized Gemm, which becomes a QGemm; one whose bias has a scale of its own is read wrong.

    Args:
        path: Where it goes.
        bias_scale: None for the product of those of input and weight, which is right.
        per_row: The weight is transposed and has a scale a row.
        before: Another Gemm, which is right, stands before it.
        resized: A Resize stands last, whose scales are stored among the weights.
    """
    g = Builder(5)
    x = g.quantized("x", 0.02)
    if before:
        w, s = g.weight(64, 64)
        b = g.op(
            "DequantizeLinear",
            g.const(g.draw.integers(-400, 400, 64).astype(np.int32)),
            g.const(np.float32(0.02 * s)),
        )
        x = g.quantized(g.op("Gemm", x, w, b, name="first"), 0.02)
    w, s = g.weight(*((32, 64) if per_row else (64, 32)), per_row=per_row)
    scale = np.float32(0.02 * s if bias_scale is None else bias_scale)
    b = g.op("DequantizeLinear", g.const(g.draw.integers(-400, 400, 32).astype(np.int32)), g.const(scale))
    y = g.quantized(g.op("Gemm", x, w, b, name="fc", transB=int(per_row)), 0.05)
    if resized:
        g.op("Resize", y, "", g.const(np.array([2, 32], np.float32)), out="y", mode="linear")
        return g.save(path, (8, 64), (16, 1024))
    g.op("Identity", y, out="y")
    return g.save(path, (8, 64), (8, 32))


def rooted_gemm(path: Path) -> Path:
    """A quantized Gemm whose bias, which is read wrong, makes all its values positive; their root is the output."""
    g = Builder(5)
    x = g.quantized("x", 0.02)
    w, _ = g.weight(64, 32)
    bias, scale = g.const(np.full(32, 400, np.int32)), g.const(np.float32(0.01))
    y = g.op("Gemm", x, w, g.op("DequantizeLinear", bias, scale), name="fc")
    g.op("Sqrt", g.quantized(y, 0.06), out="y")
    return g.save(path, (8, 64), (8, 32))


def not_finite(path: Path, kind: str) -> Path:
    """A model whose outputs are no numbers, of a kind; ``masked`` is healthy: minus infinity among finite scores.

    What makes the first of them is called ``bad``.
    """
    g = Builder(3)
    half = kind == "mask"
    x = g.op("Cast", "x", to=TensorProto.FLOAT16) if half else "x"
    numpy_type = np.float16 if half else np.float32

    def c(value: float | NDArray[np.float32], name: str = "") -> str:
        return g.const(np.asarray(value, numpy_type), name)

    x = g.op("Relu", x)
    if kind == "mask":
        x = g.op("Softmax", g.op("Mul", g.op("Sub", x, x), c(-np.inf, "low"), name="bad"), axis=-1)
    elif kind == "overflow":
        large = g.op("Cast", g.op("Add", x, c(9e4)), to=TensorProto.FLOAT16, name="bad")
        x = g.op("Cast", large, to=TensorProto.FLOAT)
    elif kind == "logarithm":
        x = g.op("Log", g.op("Sub", x, x), name="bad")
    elif kind == "exponential":
        large = g.op("Exp", g.op("Add", x, c(200.0)), name="bad")
        x = g.op("Div", large, g.op("ReduceSum", large, keepdims=1))
    elif kind == "entropy":
        zeros = g.op("Sub", x, x)
        x = g.op("Mul", zeros, g.op("Log", zeros, name="bad"))
    elif kind == "division":
        x = g.op("Div", g.op("Sub", x, x), g.op("Mul", x, c(0.0)), name="bad")
    elif kind == "weight":
        held = np.ones((8, 8), np.float32)
        held[2, 3] = np.nan
        x = g.op("MatMul", x, c(held, "held"), name="bad")
    else:
        mask = np.zeros(8, np.float32)
        mask[5:] = -np.inf
        x = g.op("Add", x, c(mask))
    g.op("Cast", x, out="y", to=TensorProto.FLOAT)
    return g.save(path, (4, 8), (4, 8))
