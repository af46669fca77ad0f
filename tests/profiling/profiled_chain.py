"""A chain of convolutions, and what a profile says of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from ortune.records import Envelope, ProfileResult

CHANNELS, SIZE, LAYERS = 32, 40, 5


def conv_chain(path: Path, *, dear: int | None = None) -> Path:
    """Convolutions with a Relu each; one of them may make three times the channels, of which two thirds go."""
    rng = np.random.default_rng(0)
    nodes, weights = [], []
    for i in range(LAYERS):
        weight = rng.standard_normal((CHANNELS, CHANNELS, 3, 3), dtype=np.float32) * 0.05
        times = 3 if i == dear else 1
        weights.append(numpy_helper.from_array(np.tile(weight, (times, 1, 1, 1)), f"w{i}"))
        made = f"c{i}" if times == 1 else f"all{i}"
        nodes.append(helper.make_node("Conv", [f"x{i}", f"w{i}"], [made], name=f"conv{i}", pads=[1] * 4))
        if times > 1:
            nodes.append(helper.make_node("Slice", [made, "zero", "some", "axis"], [f"c{i}"], name="slice"))
        nodes.append(helper.make_node("Relu", [f"c{i}"], [f"x{i + 1}"], name=f"relu{i}"))
    weights += [
        numpy_helper.from_array(np.array([n], dtype=np.int64), name)
        for name, n in (("zero", 0), ("some", CHANNELS), ("axis", 1))
    ]
    shape = [1, CHANNELS, SIZE, SIZE]
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_tensor_value_info("x0", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(f"x{LAYERS}", TensorProto.FLOAT, shape)],
        weights,
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return path


def result_of(envelope: Envelope) -> ProfileResult:
    assert isinstance(envelope.result, ProfileResult)
    return envelope.result
