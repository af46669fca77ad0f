"""Which placements of QuantizeLinear and DequantizeLinear run in 8 bits, in OpenVINO and on the CPU provider."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import helper

import made_runtimes
from onnx_text import assemble
from ortune.errors import OrtuneError
from ortune.inputs.feed_files import write_feeds
from ortune.records import FeedRef, Plan, ProviderSpec
from ortune.targets.task import Limits
from ortune.targets.tool import ToolProcess

BUILD = "onnxruntime-openvino==1.24.1"
OPENVINO = (ProviderSpec(name="OpenVINOExecutionProvider"),)
SIZE = 64


class Graph:
    """Branches from one input, each with its layers, pairs and weights."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, np.ndarray[Any, Any]] = {}
        self.outputs: list[str] = []
        self._rng = np.random.default_rng(0)

    def node(self, kind: str, name: str, *inputs: str, **attributes: object) -> str:
        self.nodes.append(helper.make_node(kind, list(inputs), [f"{name}_out"], name=name, **attributes))
        return f"{name}_out"

    def pair(self, value: str, name: str, activations: str) -> str:
        """A pair around a value."""
        self.weights[f"{name}_scale"] = np.asarray(0.04, np.float32)
        self.weights[f"{name}_zero"] = np.asarray(
            {"u8": 128, "s8": 0}[activations], {"u8": "uint8", "s8": "int8"}[activations]
        )
        quantized = self.node("QuantizeLinear", f"{name}_q", value, f"{name}_scale", f"{name}_zero")
        return self.node("DequantizeLinear", f"{name}_dq", quantized, f"{name}_scale", f"{name}_zero")

    def weight(self, name: str, shape: tuple[int, ...], channels: int | None) -> str:
        """A weight in 8 bits behind DequantizeLinear; one scale where no axis of channels is given."""
        self.weights[name] = self._rng.integers(-127, 127, shape, np.int8)
        size = () if channels is None else (shape[channels],)
        self.weights[f"{name}_scale"] = np.asarray(self._rng.uniform(0.001, 0.002, size), np.float32)
        self.weights[f"{name}_zero"] = np.zeros(size, np.int8)
        inputs = (name, f"{name}_scale", f"{name}_zero")
        return self.node("DequantizeLinear", f"{name}_dq", *inputs, axis=channels or 0)

    def layer(self, name: str, activations: str, *, per_channel: bool, kind: str = "MatMul") -> None:
        """A layer with pairs on both sides; without activations only its weight is in 8 bits."""
        source = "image" if kind == "Conv" else "x"
        shape: tuple[int, ...] = (16, 16, 3, 3) if kind == "Conv" else (SIZE, SIZE)
        given = self.pair(source, f"{name}_in", activations) if activations else source
        channels = 0 if kind == "Conv" else 1
        weight = self.weight(f"{name}_w", shape, channels if per_channel else None)
        pads = {"pads": [1] * 4} if kind == "Conv" else {}
        out = self.node(kind, name, given, weight, **pads)
        self.give(self.pair(out, f"{name}_end", activations) if activations else out)

    def give(self, value: str) -> None:
        self.outputs.append(self.node("Identity", f"y{len(self.outputs)}", value))

    def save(self, path: Path) -> Path:
        outputs = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in self.outputs]
        inputs = f"float[2,32,{SIZE}] x, float[1,16,24,24] image"
        onnx.save(assemble(self.nodes, inputs, outputs, self.weights), path)
        return path


def placements() -> Graph:
    """Each placement under its own name."""
    graph = Graph()
    for kind in ("MatMul", "Conv"):
        for activations in ("u8", "s8"):
            for per_channel in (True, False):
                scales = "channel" if per_channel else "tensor"
                name = f"{kind.lower()}_{activations}_{scales}"
                graph.layer(name, activations, per_channel=per_channel, kind=kind)
    graph.layer("weight_alone", "", per_channel=True)
    # A sum without weights between pairs, as the quantizer writes it for all operators.
    one, two = (graph.pair("x", f"sum_{place}", "u8") for place in "ab")
    graph.give(
        graph.pair(graph.node("Softmax", "sum", graph.node("Mul", "twice", one, two)), "sum_end", "u8")
    )
    return graph


@pytest.fixture(scope="module")
def feeds(tmp_path_factory: pytest.TempPathFactory) -> FeedRef:
    rng = np.random.default_rng(1)
    folder = tmp_path_factory.mktemp("feeds")
    x, image = rng.standard_normal((2, 32, SIZE)), rng.standard_normal((1, 16, 24, 24))
    write_feeds(folder, {"x": x.astype(np.float32), "image": image.astype(np.float32)})
    return FeedRef(name="one", path=str(folder))


LAYERS = [
    f"{kind}_{activations}_{scales}"
    for kind in ("matmul", "conv") for activations in ("u8", "s8") for scales in ("channel", "tensor")
]  # fmt: skip


def test_openvino_reports_the_number_type_of_each_placement(tmp_path: Path, feeds: FeedRef) -> None:
    runtime = made_runtimes.require(BUILD).runtime
    path = placements().save(tmp_path / "m.onnx")
    plan = Plan(providers=OPENVINO, settings={"openvino_precision": "f32"})
    tool = ToolProcess(runtime=runtime, folder=tmp_path, plan=plan, feeds=(feeds,), limits=Limits(load_s=60))
    tool("openvino-layers", path, tmp_path / "layers.json", {})
    rows = json.loads((tmp_path / "layers.json").read_text(encoding="utf-8"))["layers"]
    computed = {
        name.removesuffix("/DequantizationMultiply"): precision
        for name, kind, _, precision, _ in rows
        if kind.startswith(("FullyConnected", "Convolution", "Softmax"))
    }
    assert {name: computed.pop(name) for name in LAYERS} == dict.fromkeys(LAYERS, "int8")
    # A weight behind DequantizeLinear is decompressed; pairs around operators without a weight round and convert.
    assert set(computed.values()) == {"float32"} and "sum" in computed
    assert [precision for name, *_, precision, _ in rows if name == "twice"] == ["float32"]


def test_an_input_that_openvino_cannot_take_is_an_error_with_its_words(
    tmp_path: Path, feeds: FeedRef
) -> None:
    runtime = made_runtimes.require(BUILD).runtime
    graph = Graph()
    graph.layer("only", "u8", per_channel=True)
    path = graph.save(tmp_path / "m.onnx")
    folder = tmp_path / "feeds"
    write_feeds(folder, {"x": np.zeros((2, 32, SIZE + 1), np.float32)})
    bad = (FeedRef(name="bad", path=str(folder)),)
    tool = ToolProcess(runtime=runtime, folder=tmp_path, plan=Plan(providers=OPENVINO), feeds=bad)
    with pytest.raises(OrtuneError, match="OpenVINO: "):
        tool("openvino-layers", path, tmp_path / "layers.json", {})


def test_the_cpu_provider_makes_an_integer_kernel_of_each_placement(tmp_path: Path) -> None:
    options = ort.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "ran.onnx")
    options.log_severity_level = 3
    path = placements().save(tmp_path / "m.onnx")
    ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    nodes = onnx.load(tmp_path / "ran.onnx").graph.node
    operators = {node.name.partition("_token_")[0]: node.op_type for node in nodes}
    kernels = {"matmul": "QLinearMatMul", "conv": "QLinearConv"}
    assert {name: operators[name] for name in LAYERS} == {
        name: kernels[name.partition("_")[0]] for name in LAYERS
    }
    # The weight alone stays in 8 bits in memory; Mul and Softmax between pairs run in float.
    assert operators["weight_alone"] == "MatMulNBits"
    assert (operators["twice"], operators["sum"]) == ("Mul", "Softmax")
