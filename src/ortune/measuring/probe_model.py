"""A small model for measuring a machine: convolutions and a matrix multiplication, which take about a millisecond."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from ortune.graph.model.open import OpenModel, open_model


def write(folder: Path) -> OpenModel:
    """Write the model to ``probe.onnx`` in a folder and open it."""
    rng = np.random.default_rng(0)

    def weight(name: str, *shape: int) -> onnx.TensorProto:
        return numpy_helper.from_array(rng.standard_normal(shape, dtype=np.float32) * 0.1, name)

    weights = [
        weight("w0", 32, 3, 3, 3),
        weight("w1", 64, 32, 3, 3),
        weight("w2", 64, 64, 3, 3),
        weight("w3", 64, 256),
    ]
    nodes = []
    for i, strides in enumerate(([2, 2], [2, 2], [1, 1])):
        source = "x" if i == 0 else f"r{i - 1}"
        nodes.append(
            helper.make_node("Conv", [source, f"w{i}"], [f"c{i}"], pads=[1, 1, 1, 1], strides=strides)
        )
        nodes.append(helper.make_node("Relu", [f"c{i}"], [f"r{i}"]))
    nodes.append(helper.make_node("GlobalAveragePool", ["r2"], ["p"]))
    nodes.append(helper.make_node("Flatten", ["p"], ["f"]))
    nodes.append(helper.make_node("MatMul", ["f", "w3"], ["y"]))
    graph = helper.make_graph(
        nodes,
        "probe",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 96, 96])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 256])],
        weights,
    )
    path = folder / "probe.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7), path)
    return open_model(path)
