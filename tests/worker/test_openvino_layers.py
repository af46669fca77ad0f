"""Which placements of QuantizeLinear and DequantizeLinear run in 8 bits, in OpenVINO and on the CPU provider."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest

import made_runtimes
from onnx_text import model_of, saved
from ortune.catalogue import knobs
from ortune.errors import OrtuneError
from ortune.inputs.feed_files import write_feeds
from ortune.platform import host
from ortune.records import FeedRef, Plan, ProviderSpec, Runtime, Value
from ortune.runtimes import environment
from ortune.targets.task import Limits
from ortune.targets.tool import ToolProcess
from qdq_placements import LAYERS, SIZE, Graph, placements

BUILD = "onnxruntime-openvino==1.24.1"
OPENVINO = (ProviderSpec(name="OpenVINOExecutionProvider"),)


@pytest.fixture(scope="module")
def feeds(tmp_path_factory: pytest.TempPathFactory) -> FeedRef:
    rng = np.random.default_rng(1)
    folder = tmp_path_factory.mktemp("feeds")
    x, image = rng.standard_normal((2, 32, SIZE)), rng.standard_normal((1, 16, 24, 24))
    write_feeds(folder, {"x": x.astype(np.float32), "image": image.astype(np.float32)})
    return FeedRef(name="one", path=str(folder))


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


FLOATS = """g (float[1,16,24,24] x) => (float[1,16,24,24] y) {
    [layer] c = Conv <pads = [1,1,1,1]> (x, w)  y = Relu (c)
}"""


def types_of(runtime: Runtime, folder: Path, settings: dict[str, Value]) -> set[str]:
    """The number types of a float convolution in OpenVINO, by its own report."""
    draw = np.random.default_rng(4)
    weights = {"w": draw.standard_normal((16, 16, 3, 3)).astype(np.float32)}
    saved(folder / "m.onnx", model_of(FLOATS, weights=weights))
    write_feeds(folder / "x", {"x": draw.standard_normal((1, 16, 24, 24)).astype(np.float32)})
    plan, feeds = Plan(providers=OPENVINO, settings=settings), (FeedRef(name="x", path=str(folder / "x")),)
    tool = ToolProcess(runtime=runtime, folder=folder, plan=plan, feeds=feeds, limits=Limits(load_s=60))
    tool("openvino-layers", folder / "m.onnx", folder / "layers.json", {})
    rows = json.loads((folder / "layers.json").read_text(encoding="utf-8"))["layers"]
    return {precision for _, kind, _, precision, _ in rows if kind.startswith("Convolution")}


def test_number_types_that_a_processor_lacks_are_not_computed_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenVINO reads the limit of instruction sets of oneDNN; its number types are those that settings expect."""
    runtime = made_runtimes.require(BUILD).runtime
    features = host().features
    if host().machine != "x86_64":
        pytest.skip("oneDNN's limit is one of x86-64")
    bf16: dict[str, Value] = {"openvino_precision": "bf16"}
    f16: dict[str, Value] = {"openvino_precision": "f16"}
    lacks_bf16, lacks_f16 = (knobs.without_instructions(each, features) for each in (bf16, f16))
    assert types_of(runtime, tmp_path, bf16) == {"float32" if lacks_bf16 else "bfloat16"}
    # Another type than the one that was set is computed in, without a word.
    assert (types_of(runtime, tmp_path, f16) == {"float16"}) is not bool(lacks_f16)
    assert types_of(runtime, tmp_path, {}) == {"float32"}
    # A processor without bfloat16, as far as OpenVINO sees.
    monkeypatch.setattr(environment, "_PASSED_PREFIXES", ("ONEDNN_",))
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    assert types_of(runtime, tmp_path, bf16) == {"float32"}
    assert knobs.without_instructions(bf16, ("avx2", "fma"))


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
