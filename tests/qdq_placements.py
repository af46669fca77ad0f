"""A graph with each placement of QuantizeLinear and DequantizeLinear that a provider may run in 8 bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper

from onnx_text import assemble

SIZE = 64


class Graph:
    """Branches from one input, each with its layers, pairs and weights."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, np.ndarray[Any, Any]] = {}
        self.outputs: list[str] = []
        self._rng = np.random.default_rng(0)

    def node(self, kind: str, name: str, *inputs: str, **attributes: object) -> str:
        self.nodes.append(helper.make_node(kind, list(inputs), [f"{name}_out"], name=name, **attributes))
        return f"{name}_out"

    def pair(self, value: str, name: str, activations: str) -> str:
        """A pair around a value."""
        self.weights[f"{name}_scale"] = np.asarray(0.04, np.float32)
        self.weights[f"{name}_zero"] = np.asarray(
            {"u8": 128, "s8": 0}[activations], {"u8": "uint8", "s8": "int8"}[activations]
        )
        quantized = self.node("QuantizeLinear", f"{name}_q", value, f"{name}_scale", f"{name}_zero")
        return self.node("DequantizeLinear", f"{name}_dq", quantized, f"{name}_scale", f"{name}_zero")

    def weight(self, name: str, shape: tuple[int, ...], channels: int | None) -> str:
        """A weight in 8 bits behind DequantizeLinear; one scale where no axis of channels is given."""
        self.weights[name] = self._rng.integers(-127, 127, shape, np.int8)
        size = () if channels is None else (shape[channels],)
        self.weights[f"{name}_scale"] = np.asarray(self._rng.uniform(0.001, 0.002, size), np.float32)
        self.weights[f"{name}_zero"] = np.zeros(size, np.int8)
        inputs = (name, f"{name}_scale", f"{name}_zero")
        return self.node("DequantizeLinear", f"{name}_dq", *inputs, axis=channels or 0)

    def layer(self, name: str, activations: str, *, per_channel: bool, kind: str = "MatMul") -> None:
        """A layer with pairs on both sides; without activations only its weight is in 8 bits."""
        source = "image" if kind == "Conv" else "x"
        shape: tuple[int, ...] = (16, 16, 3, 3) if kind == "Conv" else (SIZE, SIZE)
        given = self.pair(source, f"{name}_in", activations) if activations else source
        channels = 0 if kind == "Conv" else 1
        weight = self.weight(f"{name}_w", shape, channels if per_channel else None)
        pads = {"pads": [1] * 4} if kind == "Conv" else {}
        out = self.node(kind, name, given, weight, **pads)
        self.give(self.pair(out, f"{name}_end", activations) if activations else out)

    def give(self, value: str) -> None:
        self.outputs.append(self.node("Identity", f"y{len(self.outputs)}", value))

    def save(self, path: Path) -> Path:
        outputs = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in self.outputs]
        inputs = f"float[2,32,{SIZE}] x, float[1,16,24,24] image"
        onnx.save(assemble(self.nodes, inputs, outputs, self.weights), path)
        return path


def placements() -> Graph:
    """Each placement under its own name."""
    graph = Graph()
    for kind in ("MatMul", "Conv"):
        for activations in ("u8", "s8"):
            for per_channel in (True, False):
                scales = "channel" if per_channel else "tensor"
                name = f"{kind.lower()}_{activations}_{scales}"
                graph.layer(name, activations, per_channel=per_channel, kind=kind)
    graph.layer("weight_alone", "", per_channel=True)
    # A sum without weights between pairs, as the quantizer writes it for all operators.
    one, two = (graph.pair("x", f"sum_{place}", "u8") for place in "ab")
    graph.give(
        graph.pair(graph.node("Softmax", "sum", graph.node("Mul", "twice", one, two)), "sum_end", "u8")
    )
    return graph


LAYERS = [
    f"{kind}_{activations}_{scales}"
    for kind in ("matmul", "conv") for activations in ("u8", "s8") for scales in ("channel", "tensor")
]  # fmt: skip
"""Names of the layers with pairs on both sides."""
