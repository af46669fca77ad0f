"""The layers inside the part that a provider compiled, and number types, in all formats of a profile."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from profiled_chain import result_of

import made_runtimes
import ortune
from facts import facts
from onnx_text import model_of
from ortune.engines.profiling.compiled import IN_PARTS
from ortune.records import CompiledGraph, CompiledLayer, Plan, ProviderSpec
from ortune.show.html.pages import render
from ortune.show.profile_nodes import nodes
from ortune.verbs.profile import compiled_words

BUILD = "onnxruntime-openvino==1.24.1"
WEIGHTS = {
    "w": np.random.default_rng(0).integers(-127, 127, (256, 256), np.int8),
    "ws": np.full(256, 0.001, np.float32),
    "wz": np.zeros(256, np.int8),
    "s": np.asarray(0.04, np.float32),
    "z": np.asarray(128, np.uint8),
    "f": np.random.default_rng(1).standard_normal((256, 256)).astype(np.float32),
}
GRAPH = """g (float[64,256] x) => (float[64,256] y) {
    [whole] a = MatMul (x, f)
    q = QuantizeLinear (a, s, z)  d = DequantizeLinear (q, s, z)  dw = DequantizeLinear <axis = 1> (w, ws, wz)
    [eight] m = MatMul (d, dw)
    e = QuantizeLinear (m, s, z)  ed = DequantizeLinear (e, s, z)
    [last] y = Softmax (ed)
}"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    onnx.save(model_of(GRAPH, weights=WEIGHTS), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def test_openvinos_layers_have_number_types_and_times(model: Path, tmp_path: Path) -> None:
    made_runtimes.require(BUILD)
    plain = {"no_peak": True, "budget": "15s", "store": tmp_path / "store"}
    envelope = ortune.profile(
        model, runtime=BUILD, target="openvino", set=["openvino_precision=f32"], **plain
    )
    graph = result_of(envelope).compiled
    assert graph is not None and graph.provider == "OpenVINOExecutionProvider" and graph.n_runs > 0
    types = {layer.name: layer.precision for layer in graph.layers if layer.kind.startswith("FullyConnected")}
    assert sorted(types.values()) == ["float32", "int8"]
    assert sum(layer.time_ns for layer in graph.layers) > 0
    facts(envelope.summary(), "OpenVINO computes", "of the time in", "layers inside OpenVINO", "int8")
    facts(render(envelope), "Layers inside the execution provider", "own counters")


def test_nodes_of_the_cpu_provider_have_number_types(model: Path, tmp_path: Path) -> None:
    options = ort.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(tmp_path / "trace")
    session = ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    for _ in range(3):
        session.run(None, {"x": np.ones((64, 256), np.float32)})
    result = result_of(ortune.profile(session.end_profiling(), store=tmp_path / "store"))
    types = {node.op_type: node.precision for node in result.nodes}
    assert result.compiled is None
    assert types["QLinearMatMul"] == "int8" and types["MatMul"] == types["Softmax"] == "float32"
    assert "type" in [column.head for column in nodes(result).columns]


def test_layers_below_the_clock_and_missing_ones_are_said_so() -> None:
    layer = CompiledLayer(name="a", kind="MatMul", kernel="any", precision="int8", time_ns=0.0)
    graph = CompiledGraph(provider="OpenVINOExecutionProvider", layers=(layer,), n_runs=3)
    facts(compiled_words.by_type(graph), "less than a microsecond", "1 layer", "3 runs")
    plan = Plan(providers=(ProviderSpec(name="OpenVINOExecutionProvider"),))
    assert compiled_words.missing(plan, "") == []
    facts(compiled_words.missing(plan, "no library")[0], "OpenVINO", "not listed", "no library")
    facts(compiled_words.missing(plan, IN_PARTS)[0], "does not run the whole model")
