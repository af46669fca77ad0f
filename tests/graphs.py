"""Graphs that tests build node by node."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from onnx_text import assemble, dims

FLOAT = TensorProto.FLOAT


def drawn(
    rng: np.random.Generator, name: str, *shape: int, times: float = 1.0, dtype: type = np.float32
) -> onnx.TensorProto:
    """A tensor of normal random numbers."""
    return numpy_helper.from_array((rng.standard_normal(shape) * times).astype(dtype), name)


def drawn_by_name(name: str, *shape: int, times: float = 1.0) -> onnx.TensorProto:
    """A tensor of normal random numbers, the same for the same name and shape."""
    return drawn(np.random.default_rng(sum(name.encode()) + sum(shape)), name, *shape, times=times)


def filled(name: str = "w", fill: float = 0.5, dtype: type = np.float32, size: int = 96) -> onnx.TensorProto:
    """A square matrix of one value."""
    return numpy_helper.from_array(np.full((size, size), fill, dtype=dtype), name)


class Graph:
    """A graph that grows."""

    def __init__(self, dtype: type[np.floating] = np.float32) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.dtype = dtype
        self._draw = np.random.default_rng(7)

    def op(self, operator: str, *inputs: str, **attributes: object) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [name], name=f"{operator}_{name}", **attributes))
        return name

    def number(self, value: float) -> str:
        return self.weight(np.array(value, self.dtype))

    def weight(self, array: np.ndarray) -> str:
        kept = array if array.dtype.kind in "iu" else array.astype(self.dtype)
        name = f"k{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(kept, order="C"), name))
        return name

    def some(self, *shape: int) -> str:
        """Random weights."""
        return self.weight(self._draw.standard_normal(shape) * 0.3)

    def positive(self, *shape: int) -> str:
        """Random weights of which none is near zero."""
        return self.weight(self._draw.random(shape) + 0.5)

    def model(
        self, shape: list[int | str], outputs: list[str], *, opset: int = 17, dtype: int = FLOAT
    ) -> onnx.ModelProto:
        out = FLOAT if self.dtype is np.float32 else TensorProto.DOUBLE
        proto = assemble(
            self.nodes,
            [helper.make_tensor_value_info("x", dtype, shape)],
            [helper.make_tensor_value_info(name, out, None) for name in outputs],
            self.weights,
            opset=opset,
        )
        # The checker wants a shape of every output.
        shaped = onnx.shape_inference.infer_shapes(proto).graph.output
        for ours, inferred in zip(proto.graph.output, shaped, strict=True):
            ours.CopyFrom(inferred)
        return proto


class QuantizedGraph:
    """A graph with values and weights in eight bits."""

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
