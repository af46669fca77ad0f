"""The models of the GPU's table, made here: a ResNet-50, 1-D convolutions as in speech, a BERT-base, a small MLP.

Weights are those of a fixed seed: they tell latency, and nothing about accuracy.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Builder:
    """Nodes and weights of a graph, in order; each method returns the name of what it adds."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def node(self, op: str, *inputs: str, **attributes: object) -> str:
        """A node of one output."""
        name = f"{op.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], name=name, **attributes))
        return name

    def weight(self, *shape: int, fan_in: int = 1) -> str:
        """A weight whose products keep the scale of what they are of."""
        name = f"w{len(self.weights)}"
        values = self.rng.standard_normal(shape, np.float32) / np.float32(math.sqrt(fan_in))
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def constant(self, value: np.ndarray) -> str:
        """A weight of given values."""
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(value, name))
        return name

    def save(self, path: Path, x: tuple[int, tuple[int, ...]], y: str) -> Path:
        """The model from its input "x" (type, shape) to the value ``y``."""
        inputs = [helper.make_tensor_value_info("x", *x)]
        outputs = [helper.make_tensor_value_info(y, TensorProto.FLOAT, None)]
        graph = helper.make_graph(self.nodes, path.stem, inputs, outputs, self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
        onnx.save(onnx.shape_inference.infer_shapes(model), path)
        return path

    def conv(self, x: str, width: tuple[int, int], size: int, stride: int = 1, *, relu: bool = True) -> str:
        """A two-axis convolution, and Relu."""
        into, out = width
        kernel = self.weight(out, into, size, size, fan_in=into * size * size)
        bias = self.constant(np.zeros(out, np.float32))
        y = self.node("Conv", x, kernel, bias, strides=[stride] * 2, pads=[size // 2] * 4)
        return self.node("Relu", y) if relu else y

    def dense(self, x: str, into: int, out: int) -> str:
        """A product with a bias."""
        y = self.node("MatMul", x, self.weight(into, out, fan_in=into))
        return self.node("Add", y, self.constant(np.zeros(out, np.float32)))

    def norm(self, x: str, width: int) -> str:
        """Layer normalization."""
        scale, bias = np.ones(width, np.float32), np.zeros(width, np.float32)
        return self.node("LayerNormalization", x, self.constant(scale), self.constant(bias))


def resnet50(folder: Path) -> Path:
    """He and others, 2015, normalization folded; one image of 224x224."""
    b = Builder()
    x = b.node("MaxPool", b.conv("x", (3, 64), 7, 2), kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    into = 64
    for stage, (mid, count) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
        for block in range(count):
            stride = 2 if stage and not block else 1
            way = x if block else b.conv(x, (into, 4 * mid), 1, stride, relu=False)
            y = b.conv(b.conv(x, (into, mid), 1), (mid, mid), 3, stride)
            x = b.node("Relu", b.node("Add", b.conv(y, (mid, 4 * mid), 1, relu=False), way))
            into = 4 * mid
    y = b.dense(b.node("Flatten", b.node("GlobalAveragePool", x)), into, 1000)
    return b.save(folder / "resnet50.onnx", (TensorProto.FLOAT, (1, 3, 224, 224)), y)


def conv1d(folder: Path) -> Path:
    """Twelve 1-D convolutions of 256 channels over 4,000 steps."""
    b, x, into = Builder(1), "x", 80
    for _ in range(12):
        kernel = b.weight(256, into, 5, fan_in=into * 5)
        x = b.node("Relu", b.node("Conv", x, kernel, b.constant(np.zeros(256, np.float32)), pads=[2, 2]))
        into = 256
    return b.save(folder / "conv1d.onnx", (TensorProto.FLOAT, (1, 80, 4000)), x)


def bert(folder: Path, layers: int = 12, width: int = 768, heads: int = 12, length: int = 128) -> Path:
    """BERT-base's encoder over 128 tokens, spelled out as exporters do."""
    b = Builder(2)
    x = b.norm(b.node("Gather", b.weight(30522, width), "x"), width)
    split = b.constant(np.array([1, length, heads, width // heads]))
    joined = b.constant(np.array([1, length, width]))
    root = b.constant(np.float32(math.sqrt(width // heads)))
    half, one, sqrt2 = (b.constant(np.float32(v)) for v in (0.5, 1.0, math.sqrt(2)))
    for _ in range(layers):
        q, k, v = (
            b.node("Transpose", b.node("Reshape", b.dense(x, width, width), split), perm=perm)
            for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])
        )
        scores = b.node("Softmax", b.node("Div", b.node("MatMul", q, k), root), axis=-1)
        mixed = b.node("Transpose", b.node("MatMul", scores, v), perm=[0, 2, 1, 3])
        x = b.norm(b.node("Add", x, b.dense(b.node("Reshape", mixed, joined), width, width)), width)
        y = b.dense(x, width, 4 * width)
        gelu = b.node("Mul", y, b.node("Add", b.node("Erf", b.node("Div", y, sqrt2)), one))
        x = b.norm(b.node("Add", x, b.dense(b.node("Mul", gelu, half), 4 * width, width)), width)
    return b.save(folder / "bert.onnx", (TensorProto.INT64, (1, length)), x)


def mlp(folder: Path) -> Path:
    """Three products of 64: less than the launch of a kernel costs."""
    b, x = Builder(3), "x"
    for _ in range(3):
        x = b.node("Relu", b.dense(x, 64, 64))
    return b.save(folder / "mlp.onnx", (TensorProto.FLOAT, (1, 64)), x)


MODELS = {"resnet50": resnet50, "conv1d": conv1d, "bert": bert, "mlp": mlp}
