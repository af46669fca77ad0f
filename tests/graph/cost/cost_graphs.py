"""Graphs of a few nodes whose cost can be worked out by hand."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper

from onnx_text import assemble


def info(name, *shape, dtype=T.FLOAT):
    return h.make_tensor_value_info(name, dtype, shape)


def weight(name, array):
    return numpy_helper.from_array(np.asarray(array), name)


def model(nodes, inputs, outputs, initializers=(), functions=(), opset=17):
    ends = [h.make_value_info(name, onnx.TypeProto()) for name in outputs]
    return assemble(
        nodes,
        inputs,
        ends,
        list(initializers),
        opset=opset,
        ir_version=10,
        opsets={"own": 1},
        functions=list(functions),
    )


def body(nodes, inputs, outputs, initializers=()):
    return h.make_graph(
        nodes, "body", inputs, [h.make_value_info(o, onnx.TypeProto()) for o in outputs], initializers
    )


W = weight("w", np.ones((4, 4), np.float32))
BRANCHES = {
    "then_branch": body([h.make_node("MatMul", ["x", "w"], ["t"], name="dear")], [], ["t"]),
    "else_branch": body([h.make_node("Neg", ["x"], ["e"], name="cheap")], [], ["e"]),
}
