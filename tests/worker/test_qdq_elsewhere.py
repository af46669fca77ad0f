"""Which placements run in 8 bits on providers whose device is not here: by QNN's emulator, and by published rules.

QNN reports the number type of each tensor of the graphs that it compiles. NNAPI's and CoreML's rules are those of
their source code, XNNPACK's and WebGPU's are their own answers about single nodes, TensorRT's are NVIDIA's
documentation ("Working with Quantized Types"): these providers are not run here.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import numpy_helper

import made_runtimes
from onnx_text import model_of, saved
from ortune import rewrites, targets
from ortune.engines.partitions import support
from ortune.engines.partitions.partition import partition
from ortune.graph.model.open import open_model
from ortune.inputs.feed_files import write_feeds
from ortune.records import FeedRef, Runtime
from ortune.targets.tool import ToolProcess
from qdq_placements import LAYERS, placements

SESSION = """
import sys
import onnxruntime as ort, onnxruntime_qnn
provider, options = "QNNExecutionProvider", ort.SessionOptions()
ort.register_execution_provider_library(provider, onnxruntime_qnn.get_library_path())
device = next(device for device in ort.get_ep_devices() if device.ep_name == provider)
about = {"backend_type": "htp", "dump_json_qnn_graph": "1", "json_qnn_graph_dir": sys.argv[2]}
options.add_provider_for_devices([device], about)
ort.InferenceSession(sys.argv[1], options)
"""
TYPES = {0x0308: "int8", 0x0408: "int8", 0x0232: "float32"}
"""QnnDataType: signed and unsigned fixed point of 8 bits, and float32."""


def test_qnn_reports_the_number_type_of_each_placement(tmp_path: Path) -> None:
    runtime = made_runtimes.require("qnn").runtime
    path = placements().save(tmp_path / "m.onnx")
    (tmp_path / "graphs").mkdir()
    command = [runtime.python, "-c", SESSION, str(path), str(tmp_path / "graphs")]
    subprocess.run(command, check=True, capture_output=True)
    computed: dict[str, set[str]] = {}
    for file in (tmp_path / "graphs").glob("*.json"):
        graph = json.loads(file.read_text(encoding="utf-8")).get("graph", {})
        for name, node in graph.get("nodes", {}).items():
            tensors = [graph["tensors"][tensor] for tensor in (*node["input_names"], *node["output_names"])]
            types = {TYPES[tensor["data_type"]] for tensor in tensors}
            computed[name.partition("_token_")[0]] = types
    assert {name: computed[name] for name in LAYERS} == {name: {"int8"} for name in LAYERS}
    # A weight alone is stored in 8 bits and its product is in float; so are operators without a pair on each side.
    assert "float32" in computed["weight_alone"]
    assert computed["twice"] == computed["sum"] == {"float32"}


CONV_U8, CONV_S8 = (
    {name for name in LAYERS if name.startswith(f"conv_{kind}")} for kind in ("u8", "s8")
)  # fmt: skip


@pytest.mark.parametrize(
    ("provider", "in_8_bits"),
    [("nnapi", CONV_U8), ("xnnpack", CONV_S8), ("coreml", set()), ("webgpu", set()), ("qnn", set(LAYERS))],
)
def test_published_rules_of_phones_and_pages(provider: str, in_8_bits: set[str], tmp_path: Path) -> None:
    """A layer is in 8 bits if it is taken with what dequantizes its input and quantizes its output."""
    model = open_model(placements().save(tmp_path / "m.onnx")).ir
    taken = {node.name for node in partition(model, support.find(provider)).taken}
    assert {name for name in LAYERS if {name, f"{name}_in_dq", f"{name}_end_q"} <= taken} == in_8_bits


GRAPH = """g (float[1,8,12,12] x) => (float[1,16] y) {
    [first] a = Conv <pads = [1,1,1,1]> (x, w0)  b = Relu (a)
    [second] c = Conv <pads = [1,1,1,1]> (b, w1)  d = GlobalAveragePool (c)  e = Flatten (d)
    [last] y = Gemm (e, w2)
}"""


@pytest.fixture(scope="module")
def file_for(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The file that ``quantize`` writes for a target first; one for all with equal parameters."""
    draw, shapes = np.random.default_rng(2), {"w0": (16, 8, 3, 3), "w1": (16, 16, 3, 3), "w2": (16, 16)}
    weights = {name: draw.standard_normal(shape).astype(np.float32) * 0.1 for name, shape in shapes.items()}
    folder, refs = tmp_path_factory.mktemp("files"), []
    path = folder / "m.onnx"
    saved(path, model_of(GRAPH, weights=weights))
    for seed in range(2):
        x = np.random.default_rng(seed).standard_normal((1, 8, 12, 12)).astype(np.float32)
        write_feeds(folder / str(seed), {"x": x})
        refs.append(FeedRef(name=str(seed), path=str(folder / str(seed))))
    here = Runtime(python=sys.executable, ort_version=ort.__version__)
    tool = ToolProcess(runtime=here, folder=folder, feeds=tuple(refs))
    made: dict[str, Path] = {}

    def file(target: str) -> Path:
        text = ":".join(["static-int8", *targets.find(target).provider.static_int8[:1]])
        if text not in made:
            spec = rewrites.parse(text)
            made[text] = rewrites.rewrite_model(
                open_model(path), [spec], folder / f"made-{len(made)}", tool
            ).path
        return made[text]

    return file


@pytest.mark.parametrize("target", ["tensorrt", "tensorrt-rtx"])
def test_the_file_for_tensorrt_keeps_nvidias_rules(target: str, file_for: Callable[[str], Path]) -> None:
    """Signed, every zero point 0, one scale for activations, scales of weights along output channels."""
    graph = onnx.load(file_for(target)).graph
    values = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    pairs = [node for node in graph.node if node.op_type in ("QuantizeLinear", "DequantizeLinear")]
    of_int8 = [node for node in pairs if values[node.input[2]].dtype == np.int8]
    assert len(of_int8) >= 6
    assert all(not values[node.input[2]].any() for node in pairs)
    # The rest are biases in 32 bits.
    assert {values[node.input[2]].dtype for node in pairs if node not in of_int8} <= {np.dtype(np.int32)}
    assert all(values[node.input[1]].size == 1 for node in of_int8 if node.input[0] not in values)


@pytest.mark.parametrize("target", ["nnapi", "xnnpack", "qnn"])
def test_the_file_for_a_phone_is_taken_with_its_pairs(target: str, file_for: Callable[[str], Path]) -> None:
    model = open_model(file_for(target)).ir
    taken = {node.name for node in partition(model, support.find(target)).taken}
    assert {"first", "second"} <= taken
    assert sum(node.op_type == "QuantizeLinear" for node in model.graph if node.name in taken) >= 2
