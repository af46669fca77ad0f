"""Models for the tests of ORT format and phones."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

from graphs import drawn
from onnx_text import assemble

MNIST_NODES = (
    "Convolution28", "Plus30", "ReLU32", "Pooling66", "Convolution110", "Plus112", "ReLU114", "Pooling160",
    "Times212_reshape0", "Times212_reshape1", "Times212", "Plus214",
)  # fmt: skip


def mnist(path: Path) -> Path:
    """The network for digits that ONNX Runtime's pages on phones use: same nodes, names and shapes, random weights."""
    rng = np.random.default_rng(0)

    weight = partial(drawn, rng, times=0.1)

    def sizes(name: str, *values: int) -> onnx.TensorProto:
        return numpy_helper.from_array(np.array(values), name)

    names = iter(MNIST_NODES)

    def node(operator: str, inputs: str, output: str, **attributes: object) -> onnx.NodeProto:
        return helper.make_node(operator, inputs.split(), [output], name=next(names), **attributes)

    def conv(inputs: str, output: str) -> onnx.NodeProto:
        return node(
            "Conv",
            inputs,
            output,
            auto_pad="SAME_UPPER",
            kernel_shape=[5, 5],
            strides=[1, 1],
            dilations=[1, 1],
        )

    def pool(inputs: str, output: str, size: int) -> onnx.NodeProto:
        return node("MaxPool", inputs, output, kernel_shape=[size, size], strides=[size, size])

    onnx.save(
        assemble(
            [
                conv("Input3 Parameter5", "c1"),
                node("Add", "c1 Parameter6", "p1"),
                node("Relu", "p1", "r1"),
                pool("r1", "m1", 2),
                conv("m1 Parameter87", "c2"),
                node("Add", "c2 Parameter88", "p2"),
                node("Relu", "p2", "r2"),
                pool("r2", "m2", 3),
                node("Reshape", "m2 flat", "f"),
                node("Reshape", "Parameter193 square", "w"),
                node("MatMul", "f w", "t"),
                node("Add", "t Parameter194", "Plus214_Output_0"),
            ],
            "float[1,1,28,28] Input3",
            "float[1,10] Plus214_Output_0",
            [
                weight("Parameter5", 8, 1, 5, 5),
                weight("Parameter6", 8, 1, 1),
                weight("Parameter87", 16, 8, 5, 5),
                weight("Parameter88", 16, 1, 1),
                weight("Parameter193", 16, 4, 4, 10),
                weight("Parameter194", 1, 10),
                sizes("flat", 1, 256),
                sizes("square", 256, 10),
            ],
            opset=12,
            ir_version=7,
            name="CNTKGraph",
        ),
        path,
    )
    return path
