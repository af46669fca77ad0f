"""Scales move between layers: bit-identical in float, and far nearer in 8 bits."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import helper, numpy_helper

from onnx_text import assemble, dims
from ortune import rewrites
from ortune.graph.model.open import OpenModel, open_model
from ortune.inputs.feed_files import write_feeds
from ortune.records import FeedRef, RewriteSpec, Runtime
from ortune.targets.tool import ToolProcess

ort.set_default_logger_severity(4)
NAME = "cross-layer-equalization"
HERE = Runtime(python=sys.executable, ort_version=ort.__version__)
SHAPE = (2, 8, 10, 10)
UNLIKE = 2.0 ** np.linspace(-6, 6, 16).round()
"""How far apart the channels between two layers are, which the second layer takes back."""


def unequal(path: Path, *, between: str = "Relu", depthwise: bool = False) -> OpenModel:
    """Convolutions whose channels in between have ranges from 1 to 4096, although all count alike."""
    rng = np.random.default_rng(5)

    def weight(name: str, *shape: int) -> np.ndarray:
        return (rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)

    first, bias = weight("w0", 16, 8, 3, 3), weight("b0", 16, 1).ravel()
    second = weight("w1", 16, 1, 3, 3) if depthwise else weight("w1", 16, 16, 3, 3)
    scales = UNLIKE.astype(np.float32)
    first, bias = first * scales[:, None, None, None], bias * scales
    second = second / (scales[:, None, None, None] if depthwise else scales[None, :, None, None])
    attributes = {"alpha": 0.1} if between == "LeakyRelu" else {}
    if between == "MaxPool":
        attributes = {"kernel_shape": [2, 2]}
    onnx.save(
        assemble(
            [
                helper.make_node("Conv", ["x", "w0", "b0"], ["a"], pads=[1, 1, 1, 1]),
                helper.make_node(between, ["a"], ["b"], **attributes),
                helper.make_node("Conv", ["b", "w1"], ["y"], group=16 if depthwise else 1),
            ],
            f"float[{dims(SHAPE)}] x",
            "float[2,16,?,?] y",
            {"w0": first, "b0": bias, "w1": second},
            name="unequal",
        ),
        path,
    )
    return open_model(path)


def run(path: Path, seed: int = 9) -> np.ndarray:
    x = np.random.default_rng(seed).standard_normal(SHAPE).astype(np.float32)
    return ort.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]


@pytest.mark.parametrize("depthwise", [False, True])
@pytest.mark.parametrize("between", ["Relu", "LeakyRelu", "MaxPool"])
def test_float_outputs_are_bit_equal(between: str, depthwise: bool, tmp_path: Path) -> None:
    opened = unequal(tmp_path / "m.onnx", between=between, depthwise=depthwise)
    made = rewrites.rewrite_model(opened, [RewriteSpec(name=NAME)], tmp_path / "made")
    assert made.modified
    np.testing.assert_array_equal(run(made.path), run(opened.path))
    weights = {v.name: numpy_helper.to_array(v) for v in onnx.load(made.path).graph.initializer}
    first = next(np.abs(v).max(axis=(1, 2, 3)) for v in weights.values() if v.shape == (16, 8, 3, 3))
    assert first.max() / first.min() < 100 < UNLIKE.max() / UNLIKE.min()


@pytest.mark.parametrize("between", ["Sigmoid", "Tanh"])
def test_nothing_moves_through_what_is_not_linear_in_its_scale(between: str, tmp_path: Path) -> None:
    opened = unequal(tmp_path / "m.onnx", between=between)
    assert not rewrites.rewrite_model(opened, [RewriteSpec(name=NAME)], tmp_path / "made").modified


@pytest.mark.parametrize("scales", ["channel", "tensor"])
def test_static_int8_is_far_nearer_behind_it(scales: str, tmp_path: Path) -> None:
    opened = unequal(tmp_path / "m.onnx")
    refs = []
    for seed in range(3):
        x = np.random.default_rng(seed).standard_normal(SHAPE).astype(np.float32)
        write_feeds(tmp_path / f"feeds-{seed}", {"x": x})
        refs.append(FeedRef(name=str(seed), path=str(tmp_path / f"feeds-{seed}")))
    tool = ToolProcess(runtime=HERE, folder=tmp_path, feeds=tuple(refs))
    # Sums of 7-bit weights saturate nowhere: the error is that of the scales.
    spec = rewrites.parse(f"static-int8:range=7,scales={scales}")
    expected, errors = run(opened.path), []
    for specs in ([spec], [RewriteSpec(name=NAME), spec]):
        made = rewrites.rewrite_model(opened, specs, tmp_path / "made", tool)
        assert all(step.result.modified for step in made.steps)
        errors.append(float(np.linalg.norm(run(made.path) - expected) / np.linalg.norm(expected)))
    assert errors[0] > 0.3
    assert errors[1] < 0.06
