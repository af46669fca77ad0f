"""Layers of a quantized model in float again, and what a quantizer leaves mended."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

import warm_workers
from facts import facts
from graphs import drawn
from onnx_text import assemble, dims
from ortune import rewrites
from ortune.graph.groups import layer_groups
from ortune.graph.model.open import OpenModel, open_model
from ortune.inputs.feed_files import write_feeds
from ortune.measuring.rewriting import CachedTool
from ortune.records import FeedRef, Runtime
from ortune.targets.task import Limits
from ortune.targets.tool import ToolFailed, ToolProcess

HERE = Runtime(python=sys.executable, ort_version=ort.__version__)
SHAPE = (1, 4, 8, 8)


def layers(path: Path) -> OpenModel:
    """Convolutions with activations that quantizers fold away, one of them with a skip; a Gemm, and a softmax."""
    rng = np.random.default_rng(1)

    weight = partial(drawn, rng, times=0.2)

    pads = {"pads": [1, 1, 1, 1]}
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["c0"], name="stem", **pads),
        helper.make_node("Relu", ["c0"], ["r0"]),
        helper.make_node("Conv", ["r0", "w1", "b1"], ["c1"], name="body", **pads),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("Add", ["r0", "r1"], ["s"]),
        helper.make_node("GlobalAveragePool", ["s"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("Gemm", ["f", "w2", "b2"], ["g"], name="head"),
        helper.make_node("Softmax", ["g"], ["y"], axis=1),
    ]
    onnx.save(
        assemble(
            nodes,
            f"float[{dims(SHAPE)}] x",
            "float[1,10] y",
            [
                weight("w0", 16, 4, 3, 3),
                weight("w1", 16, 16, 3, 3),
                weight("b1", 16),
                weight("w2", 16, 10),
                weight("b2", 10),
            ],
            name="layers",
        ),
        path,
    )
    return open_model(path)


def tool(folder: Path) -> CachedTool:
    refs = []
    for seed in range(3):
        values = np.random.default_rng(seed).standard_normal(SHAPE).astype(np.float32)
        write_feeds(folder / f"feeds-{seed}", {"x": values})
        refs.append(FeedRef(name=str(seed), path=str(folder / f"feeds-{seed}")))
    return CachedTool(
        tool=ToolProcess(runtime=HERE, folder=folder, feeds=tuple(refs)), folder=folder / "tool"
    )


def distance(a: Path, b: Path) -> float:
    x = {"x": np.random.default_rng(9).standard_normal(SHAPE).astype(np.float32)}
    one, other = (
        ort.InferenceSession(str(p), providers=["CPUExecutionProvider"]).run(None, x)[0] for p in (a, b)
    )
    return float(np.linalg.norm(one - other) / np.linalg.norm(one))


def kinds(path: Path) -> list[str]:
    return [node.op_type for node in onnx.load(path).graph.node]


@pytest.mark.parametrize("name", ["static-int8", "dynamic-int8"])
def test_all_layers_in_float_are_the_float_model(name: str, tmp_path: Path) -> None:
    source = layers(tmp_path / "m.onnx")
    groups = [group.name for group in layer_groups(source.ir)]
    assert groups == ["stem", "body", "head"]
    spec = f"{name}:leave={'+'.join(groups)}"
    made = rewrites.apply_all(source, [rewrites.parse(spec)], tmp_path / "made", tool(tmp_path))
    assert distance(source.path, made) < 1e-6
    assert not {"QuantizeLinear", "DequantizeLinear", "MatMulInteger"} & set(kinds(made))
    assert kinds(made).count("Relu") == 2, "what was folded into ranges is there again"


def test_one_layer_in_float_keeps_its_weights_and_the_others_their_bits(tmp_path: Path) -> None:
    source, process = layers(tmp_path / "m.onnx"), tool(tmp_path)
    kept = rewrites.rewrite_model(
        source, [rewrites.parse("static-int8:leave=body")], tmp_path / "made", process
    )
    facts(kept.steps[0].result.what, "1 layer", "float")
    stored = {i.name: i.data_type for i in onnx.load(kept.path).graph.initializer if len(i.dims) == 4}
    assert TensorProto.FLOAT in stored.values() and TensorProto.INT8 in stored.values()
    assert 0 < distance(source.path, kept.path) < 0.1


def test_a_quantized_model_is_made_once_for_all_that_keep_other_layers(tmp_path: Path) -> None:
    source, process = layers(tmp_path / "m.onnx"), tool(tmp_path)
    for leave in ("stem", "body", "stem+head"):
        rewrites.apply_all(source, [rewrites.parse(f"static-int8:leave={leave}")], tmp_path / "made", process)
    assert done(tmp_path) == ["prepared-1.onnx", "after-1.onnx"]


def done(folder: Path) -> list[str]:
    """What the tool made, in order."""
    places = sorted((folder / "tool").iterdir(), key=lambda place: place.stat().st_mtime_ns)
    return [path.name for place in places for path in place.iterdir() if path.name != "what.txt"]


def test_a_model_is_prepared_once_for_all_methods(tmp_path: Path) -> None:
    """Shapes and fusions are the same whether a method calibrates or not, so both quantizers begin with one file."""
    source, process = layers(tmp_path / "m.onnx"), tool(tmp_path)
    plain = CachedTool(tool=ToolProcess(runtime=HERE, folder=tmp_path), folder=tmp_path / "tool")
    for text, by in (("static-int8", process), ("static-int8:range=7", process), ("dynamic-int8", plain)):
        made = rewrites.apply_all(source, [rewrites.parse(text)], tmp_path / "made", by)
        assert distance(source.path, made) < 0.1
    assert done(tmp_path) == ["prepared-1.onnx", *["after-1.onnx"] * 3]


def test_a_preparation_that_timed_out_is_begun_again_only_with_more_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A forked worker may answer before the first look at its limits, a started one never does.
    monkeypatch.setattr(warm_workers, "real", True)
    source, process = layers(tmp_path / "m.onnx"), tool(tmp_path)
    failed: dict[str, tuple[float, ToolFailed]] = {}

    def making(text: str, limit_s: float) -> Path:
        limited = replace(process.tool, limits=Limits(load_s=limit_s))
        by = CachedTool(tool=limited, folder=process.folder, failed=failed)
        return rewrites.apply_all(source, [rewrites.parse(text)], tmp_path / "made", by)

    errors = []
    for text, limit_s in (("static-int8", 0.02), ("dynamic-int8", 0.02), ("dynamic-int8", 0.01)):
        with pytest.raises(ToolFailed) as error:
            making(text, limit_s)
        errors.append(error.value)
    # The very error of the first process: no other one was started.
    assert errors == [errors[0]] * 3 and errors[0].reason == "timeout"
    assert distance(source.path, making("dynamic-int8", 60.0)) < 0.1


def test_scores_at_the_end_are_not_rounded_to_one_scale(tmp_path: Path) -> None:
    source, process = layers(tmp_path / "m.onnx"), tool(tmp_path)
    made = rewrites.rewrite_model(source, [rewrites.parse("static-int8")], tmp_path / "made", process)
    assert "'y' stays in float" in made.steps[0].result.what
    outputs = {node.output[0]: node.op_type for node in onnx.load(made.path).graph.node}
    assert outputs["y"] == "Softmax"


def test_several_outputs_in_float_are_told_in_the_plural(tmp_path: Path) -> None:
    """Each has a scale of its own: none shares one with another."""
    rng = np.random.default_rng(6)
    weights = [
        numpy_helper.from_array(rng.standard_normal((4, 4, 1, 1)).astype(np.float32), name) for name in "ab"
    ]
    nodes = [
        helper.make_node("Conv", ["x", "a"], ["left"]),
        helper.make_node("Conv", ["x", "b"], ["right"]),
        helper.make_node("Softmax", ["left"], ["y"], axis=1),
        helper.make_node("Softmax", ["right"], ["z"], axis=1),
    ]
    shape = dims(SHAPE)
    onnx.save(
        assemble(nodes, f"float[{shape}] x", f"float[{shape}] y, float[{shape}] z", weights, name="two"),
        tmp_path / "m.onnx",
    )
    source, process = open_model(tmp_path / "m.onnx"), tool(tmp_path)
    made = rewrites.rewrite_model(source, [rewrites.parse("static-int8")], tmp_path / "made", process)
    facts(made.steps[0].result.what, "'y', 'z' stay in float", "all values of each would share one scale")


def test_scores_beside_boxes_keep_a_scale_of_their_own(tmp_path: Path) -> None:
    """Boxes in pixels and scores below one in a single tensor: with one scale every score would be 0."""
    rng = np.random.default_rng(4)
    weights = [
        numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32) * 0.3, name)
        for name, shape in (("w", (8, 4, 3, 3)), ("wb", (4, 8, 1, 1)), ("ws", (4, 8, 1, 1)))
    ]
    weights.append(numpy_helper.from_array(np.array(200.0, np.float32), "pixels"))
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="stem", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("Conv", ["r", "wb"], ["b"], name="boxes"),
        helper.make_node("Mul", ["b", "pixels"], ["bp"]),
        helper.make_node("Conv", ["r", "ws"], ["s"], name="scores"),
        helper.make_node("Sigmoid", ["s"], ["sp"]),
        helper.make_node("Concat", ["bp", "sp"], ["y"], axis=1),
    ]
    path = tmp_path / "m.onnx"
    onnx.save(assemble(nodes, f"float[{dims(SHAPE)}] x", "float[1,8,8,8] y", weights, name="detector"), path)
    made = rewrites.rewrite_model(
        open_model(path), [rewrites.parse("static-int8")], tmp_path / "made", tool(tmp_path)
    )
    assert "'y' stays in float" in made.steps[0].result.what
    x = {"x": np.random.default_rng(9).standard_normal(SHAPE).astype(np.float32)}
    before, after = (
        ort.InferenceSession(str(p), providers=["CPUExecutionProvider"]).run(None, x)[0]
        for p in (path, made.path)
    )
    scores = np.linalg.norm(before[:, 4:] - after[:, 4:]) / np.linalg.norm(before[:, 4:])
    assert scores < 0.05
    assert "QuantizeLinear" in kinds(made.path), "the rest is in 8 bits"


def test_a_bias_of_one_row_does_not_stop_the_quantizer(tmp_path: Path) -> None:
    """TensorFlow's exporter writes the bias of a dense layer as a matrix of one row."""
    rng = np.random.default_rng(5)
    weights = [
        numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name)
        for name, shape in (("w", (4 * 8 * 8, 16)), ("b", (1, 16)))
    ]
    nodes = [
        helper.make_node("Flatten", ["x"], ["f"]),
        helper.make_node("Gemm", ["f", "w", "b"], ["g"], name="dense"),
        helper.make_node("Relu", ["g"], ["y"]),
    ]
    path = tmp_path / "m.onnx"
    onnx.save(assemble(nodes, f"float[{dims(SHAPE)}] x", "float[1,16] y", weights, name="dense"), path)
    made = rewrites.apply_all(
        open_model(path), [rewrites.parse("static-int8")], tmp_path / "made", tool(tmp_path)
    )
    assert "QuantizeLinear" in kinds(made)
    assert 0 < distance(path, made) < 0.1
