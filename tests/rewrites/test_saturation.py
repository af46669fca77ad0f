"""A processor without VNNI, emulated: on one, the numbers are those of its own kernels."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import helper

from onnx_text import assemble, dims
from ortune import platform, rewrites
from ortune.graph.dot_products import saturates
from ortune.graph.model.open import OpenModel, open_model
from ortune.inputs.feed_files import write_feeds
from ortune.outputs.files import tensors
from ortune.records import FeedRef, Runtime
from ortune.targets.tool import ToolProcess

ort.set_default_logger_severity(4)
HERE = Runtime(python=sys.executable, ort_version=ort.__version__)
SHAPES = {"conv": (1, 12, 9, 9), "matmul": (2, 6, 32), "gemm": (6, 32)}
on_such_a_processor = pytest.mark.skipif(
    not saturates(platform.host()), reason="this processor has VNNI, or is none of x86"
)


def large_weights(path: Path, kind: str) -> OpenModel:
    """Layers whose weights have one sign: pairs of their products exceed 16 bits."""
    rng = np.random.default_rng(8)

    def array(*shape: int) -> np.ndarray:
        return rng.uniform(0.4, 1.0, shape).astype(np.float32)

    if kind == "conv":
        weights = {
            "w0": array(16, 12, 3, 3),
            "b0": array(16),
            "w1": array(16, 1, 3, 3),
            "w2": -array(8, 16, 1, 1),
        }
        nodes = [
            helper.make_node("Conv", ["x", "w0", "b0"], ["a"], pads=[1] * 4, strides=[2, 2]),
            helper.make_node("Relu", ["a"], ["b"]),
            helper.make_node("Conv", ["b", "w1"], ["c"], pads=[1] * 4, group=16),
            helper.make_node("Conv", ["c", "w2"], ["y"]),
        ]
    elif kind == "gemm":
        weights = {"w0": array(32, 24), "b0": array(24), "w1": -array(8, 24)}
        nodes = [
            helper.make_node("Gemm", ["x", "w0", "b0"], ["a"]),
            helper.make_node("Relu", ["a"], ["b"]),
            helper.make_node("Gemm", ["b", "w1"], ["y"], transB=1),
        ]
    else:
        weights = {"w0": array(32, 24), "w1": array(24, 8)}
        nodes = [
            helper.make_node("MatMul", ["x", "w0"], ["a"]),
            helper.make_node("Relu", ["a"], ["b"]),
            helper.make_node("MatMul", ["b", "w1"], ["y"]),
        ]
    onnx.save(assemble(nodes, f"float[{dims(SHAPES[kind])}] x", "float[] y", weights, name="large"), path)
    return open_model(path)


def refs(folder: Path, kind: str) -> tuple[FeedRef, ...]:
    found = []
    for seed in range(3):
        values = np.random.default_rng(seed).uniform(0, 1, SHAPES[kind]).astype(np.float32)
        write_feeds(folder / f"feeds-{seed}", {"x": values})
        found.append(FeedRef(name=str(seed), path=str(folder / f"feeds-{seed}")))
    return tuple(found)


def here(path: Path, kind: str, seed: int) -> np.ndarray:
    values = np.random.default_rng(seed).uniform(0, 1, SHAPES[kind]).astype(np.float32)
    return ort.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, {"x": values})[0]


@on_such_a_processor
@pytest.mark.parametrize(
    ("kind", "means"),
    [
        ("conv", "static-int8"),
        ("conv", "static-int8:activations=s8"),
        ("gemm", "static-int8"),
        ("gemm", "dynamic-int8"),
        ("matmul", "static-int8:scales=tensor"),
        ("matmul", "static-int8:activations=s8"),
        ("matmul", "dynamic-int8"),
    ],
)
def test_what_is_emulated_is_what_this_processor_computes(kind: str, means: str, tmp_path: Path) -> None:
    source, feeds = large_weights(tmp_path / "m.onnx", kind), refs(tmp_path, kind)
    tool = ToolProcess(runtime=HERE, folder=tmp_path, feeds=feeds)
    made = rewrites.apply_all(source, [rewrites.parse(means)], tmp_path / "made", tool)
    said = tool("saturated", made, tmp_path / "there", {})
    assert "of which 0 saturate" not in said, said
    for seed in range(3):
        there = tensors(tmp_path / "there" / str(seed))["y"]
        np.testing.assert_allclose(there, here(made, kind, seed), rtol=2e-6, atol=1e-6)
        # That is no rounding: the float model gives something else.
        old = here(source.path, kind, seed)
        assert np.linalg.norm(there - old) > 0.02 * np.linalg.norm(old)


@on_such_a_processor
@pytest.mark.parametrize("kind", list(SHAPES))
def test_weights_of_7_bits_saturate_nowhere(kind: str, tmp_path: Path) -> None:
    source, feeds = large_weights(tmp_path / "m.onnx", kind), refs(tmp_path, kind)
    tool = ToolProcess(runtime=HERE, folder=tmp_path, feeds=feeds)
    made = rewrites.apply_all(source, [rewrites.parse("static-int8:range=7")], tmp_path / "made", tool)
    assert "of which 0 saturate" in tool("saturated", made, tmp_path / "there", {})
    there = tensors(tmp_path / "there" / "0")["y"]
    np.testing.assert_allclose(there, here(made, kind, 0), rtol=2e-6, atol=1e-6)
