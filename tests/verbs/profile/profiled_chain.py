"""A chain of convolutions, and what a profile says of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

from onnx_text import assemble, dims
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
    onnx.save(
        assemble(
            nodes,
            f"float[{dims(shape)}] x0",
            f"float[{dims(shape)}] x{LAYERS}",
            weights,
            opset=13,
            name="chain",
        ),
        path,
    )
    return path


def result_of(envelope: Envelope) -> ProfileResult:
    assert isinstance(envelope.result, ProfileResult)
    return envelope.result
