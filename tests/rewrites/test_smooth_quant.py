"""Ranges of activations move into weights: bit-identical in float, and far nearer in 8 bits."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

from facts import facts
from onnx_text import assemble, dims
from ortune import rewrites
from ortune.graph.model.open import OpenModel, open_model
from ortune.inputs.feed_files import write_feeds
from ortune.records import FeedRef, Runtime
from ortune.targets.tool import ToolFailed, ToolProcess

ort.set_default_logger_severity(4)
HERE = Runtime(python=sys.executable, ort_version=ort.__version__)
WIDTH = 64
SHAPE = (2, 12, WIDTH)
OUTLIERS = (5, 40)


def outliers(path: Path, form: str = "norm", by: float = 200.0) -> OpenModel:
    """Products that read an activation of which two channels are far larger, and count as little as all others."""
    rng = np.random.default_rng(4)

    def array(*shape: int) -> np.ndarray:
        return (rng.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)

    large = np.ones(WIDTH, np.float32)
    large[list(OUTLIERS)] = by
    weights = {"gamma": large, "beta": array(WIDTH) * large, "w0": array(WIDTH, WIDTH) / large[:, None],
               "w1": array(WIDTH, WIDTH) / large[:, None], "b0": array(WIDTH)}  # fmt: skip
    before = {
        "norm": [helper.make_node("LayerNormalization", ["x", "gamma", "beta"], ["n"])],
        "written": [
            helper.make_node("Mul", ["x", "gamma"], ["scaled"]),
            helper.make_node("Add", ["scaled", "beta"], ["n"]),
        ],
        "product": [
            helper.make_node("MatMul", ["x", "w"], ["p"]),
            helper.make_node("Add", ["beta", "p"], ["s"]),
            helper.make_node("Relu", ["s"], ["n"]),
        ],
        "residual": [helper.make_node("LayerNormalization", ["x", "gamma", "beta"], ["n"])],
    }[form]
    if form == "product":
        weights["w"] = array(WIDTH, WIDTH) * large[None, :]
    nodes = [
        *before,
        helper.make_node("MatMul", ["n", "w0"], ["q"], name="query"),
        helper.make_node("MatMul", ["n", "w1"], ["k"], name="key"),
        helper.make_node("Add", ["q", "b0"], ["q1"]),
        helper.make_node("Mul", ["q1", "n" if form == "residual" else "k"], ["y"]),
        *([helper.make_node("Identity", ["k"], ["z"])] if form == "residual" else []),
    ]
    info = helper.make_tensor_value_info
    ends = [info(name, TensorProto.FLOAT, SHAPE) for name in (["y", "z"] if form == "residual" else ["y"])]
    onnx.save(assemble(nodes, f"float[{dims(SHAPE)}] x", ends, weights, name="outliers"), path)
    return open_model(path)


def tool(folder: Path) -> ToolProcess:
    refs = []
    for seed in range(4):
        write_feeds(folder / f"feeds-{seed}", {"x": values(seed)})
        refs.append(FeedRef(name=str(seed), path=str(folder / f"feeds-{seed}")))
    return ToolProcess(runtime=HERE, folder=folder, feeds=tuple(refs))


def values(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(SHAPE).astype(np.float32)


def run(path: Path, *, seed: int = 9) -> np.ndarray:
    return ort.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, {"x": values(seed)})[
        0
    ]


def error(path: Path, original: Path) -> float:
    old, new = run(original), run(path)
    return float(np.linalg.norm(new - old) / np.linalg.norm(old))


@pytest.mark.parametrize("form", ["norm", "written", "product"])
@pytest.mark.parametrize("means", ["static-int8:range=7", "dynamic-int8:scales=channel,range=7"])
def test_float_is_bit_equal_and_8_bits_are_far_nearer(form: str, means: str, tmp_path: Path) -> None:
    source, process = outliers(tmp_path / "m.onnx", form), tool(tmp_path)
    smooth, bits = rewrites.parse("smooth-quant"), rewrites.parse(means)
    plain = rewrites.apply_all(source, [bits], tmp_path / "plain", process)
    smoothed = rewrites.rewrite_model(source, [smooth], tmp_path / "smooth", process)
    facts(smoothed.steps[0].result.what, "1 activation", "(over 4 inputs)")
    assert np.array_equal(run(smoothed.path), run(source.path))
    both = rewrites.apply_all(source, [smooth, bits], tmp_path / "both", process)
    assert error(both, source.path) < 0.4 * error(plain, source.path)


@pytest.mark.parametrize("form", ["norm", "product"])
def test_weights_beside_the_model_are_replaced_and_not_kept_twice(form: str, tmp_path: Path) -> None:
    inline, folder = outliers(tmp_path / "m.onnx", form), tmp_path / "beside"
    folder.mkdir()
    onnx.save(
        onnx.load(inline.path),
        folder / "m.onnx",
        save_as_external_data=True,
        location="m.data",
        size_threshold=0,
    )
    source, target = open_model(folder / "m.onnx"), folder / "smooth.onnx"
    assert source.external
    tool(tmp_path)("smooth", source.path, target, {})
    assert np.array_equal(run(target), run(source.path))
    assert target.stat().st_size < 1.1 * inline.path.stat().st_size
    assert not list(folder.glob("*taps*"))


def test_channels_that_are_alike_are_left_with_the_reason(tmp_path: Path) -> None:
    source, process = outliers(tmp_path / "m.onnx", by=1.0), tool(tmp_path)
    with pytest.raises(ToolFailed, match="no channel that MatMul or Gemm reads is much larger"):
        rewrites.apply_all(source, [rewrites.parse("smooth-quant")], tmp_path / "made", process)


def test_what_something_else_reads_too_is_left(tmp_path: Path) -> None:
    """A residual connection reads the normalization as it is."""
    source, process = outliers(tmp_path / "m.onnx", "residual"), tool(tmp_path)
    with pytest.raises(ToolFailed, match="could absorb a scale"):
        rewrites.apply_all(source, [rewrites.parse("smooth-quant")], tmp_path / "made", process)


def test_without_inputs_it_says_what_it_needs(tmp_path: Path) -> None:
    source = outliers(tmp_path / "m.onnx")
    with pytest.raises(ToolFailed, match="needs inputs to calibrate on"):
        rewrites.apply_all(
            source, [rewrites.parse("smooth-quant")], tmp_path / "made",
            ToolProcess(runtime=HERE, folder=tmp_path),
        )  # fmt: skip
