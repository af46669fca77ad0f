"""Biases of a quantized model take back what rounding its weights did to the mean of each layer."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import helper, numpy_helper

from facts import facts
from onnx_text import assemble, dims
from ortune import rewrites
from ortune.graph.model.open import OpenModel, open_model
from ortune.inputs.feed_files import write_feeds
from ortune.records import FeedRef, Runtime
from ortune.targets.tool import ToolProcess

ort.set_default_logger_severity(4)
HERE = Runtime(python=sys.executable, ort_version=ort.__version__)
SHAPES = {"Conv": (1, 16, 12, 12), "Gemm": (24, 64), "MatMul": (2, 12, 64)}


def shifted(path: Path, kind: str, *, biased: bool = True) -> OpenModel:
    """Two layers that read values far from zero: their mean is most of what rounding the weights changes."""
    rng = np.random.default_rng(6)

    def array(*shape: int) -> np.ndarray:
        return (0.1 * rng.standard_normal(shape)).astype(np.float32)

    biases = ["b0"] if biased else []
    if kind == "Conv":
        weights = {"w0": array(24, 16, 3, 3), "b0": array(24)}
        nodes = [helper.make_node("Conv", ["x", "w0", *biases], ["y"], name="layer", pads=[1] * 4)]
    elif kind == "Gemm":
        weights = {"w0": array(48, 64), "b0": array(48)}
        nodes = [helper.make_node("Gemm", ["x", "w0", *biases], ["y"], name="layer", transB=1)]
    else:
        weights = {"w0": array(64, 48), "b0": array(48)}
        nodes = [
            helper.make_node("MatMul", ["x", "w0"], ["m"], name="layer"),
            helper.make_node("Add", ["m", "b0"], ["y"]),
        ]
    onnx.save(
        assemble(
            nodes,
            f"float[{dims(SHAPES[kind])}] x",
            "float[] y",
            [numpy_helper.from_array(v, k) for k, v in weights.items() if biased or k != "b0"],
            name="shifted",
        ),
        path,
    )
    return open_model(path)


def values(shape: tuple[int, ...], seed: int) -> np.ndarray:
    return (4.0 + 0.3 * np.random.default_rng(seed).standard_normal(shape)).astype(np.float32)


def tool(folder: Path, shape: tuple[int, ...]) -> ToolProcess:
    refs = []
    for seed in range(4):
        write_feeds(folder / f"feeds-{seed}", {"x": values(shape, seed)})
        refs.append(FeedRef(name=str(seed), path=str(folder / f"feeds-{seed}")))
    return ToolProcess(runtime=HERE, folder=folder, feeds=tuple(refs))


def error(path: Path, original: Path, shape: tuple[int, ...]) -> float:
    x = {"x": values(shape, 9)}
    old, new = (
        ort.InferenceSession(str(p), providers=["CPUExecutionProvider"]).run(None, x)[0]
        for p in (original, path)
    )
    return float(np.linalg.norm(new - old) / np.linalg.norm(old))


@pytest.mark.parametrize(
    ("kind", "biased"), [("Conv", True), ("Conv", False), ("Gemm", True), ("Gemm", False)]
)
def test_the_error_comes_down_where_the_mean_was_off(kind: str, biased: bool, tmp_path: Path) -> None:
    shape = SHAPES[kind]
    source, process = shifted(tmp_path / "m.onnx", kind, biased=biased), tool(tmp_path, shape)
    plain = rewrites.apply_all(source, [rewrites.parse("static-int8:range=7")], tmp_path / "a", process)
    spec = rewrites.parse("static-int8:bias=corrected,range=7")
    made = rewrites.rewrite_model(source, [spec], tmp_path / "b", process)
    facts(made.steps[0].result.what, "biases of 1 of 1 layers")
    assert error(made.path, source.path, shape) < 0.6 * error(plain, source.path, shape)


def test_an_add_behind_a_matrix_product_is_its_bias(tmp_path: Path) -> None:
    shape = SHAPES["MatMul"]
    source, process = shifted(tmp_path / "m.onnx", "MatMul"), tool(tmp_path, shape)
    words = "static-int8:operators=products,range=7"
    plain = rewrites.apply_all(source, [rewrites.parse(words)], tmp_path / "a", process)
    made = rewrites.rewrite_model(
        source, [rewrites.parse(f"{words},bias=corrected")], tmp_path / "b", process
    )
    facts(made.steps[0].result.what, "biases of 1 of 1 layers")
    assert error(made.path, source.path, shape) < 0.6 * error(plain, source.path, shape)
    quantized = rewrites.rewrite_model(
        source, [rewrites.parse("static-int8:bias=corrected,range=7")], tmp_path / "c", process
    )
    facts(quantized.steps[0].result.what, "biases of 1 of 1 layers")
    whole = rewrites.apply_all(source, [rewrites.parse("static-int8:range=7")], tmp_path / "d", process)
    assert error(quantized.path, source.path, shape) <= error(whole, source.path, shape)
