"""OpenVINO beside the CPU: settings that arrive, nodes that are told, no silent way back, and what a bundle says."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper, parser

import made_runtimes
import ortune
from facts import facts
from onnx_text import assemble
from ortune.bundle.settings import portable, providers, resolve
from ortune.bundle.shared import put_option
from ortune.errors import MeasurementError
from ortune.records import MadeRuntime, Plan, ProviderSpec
from ortune.show.placement_words import placed
from ortune.verbs.look.words import timing

OPENVINO = Plan(providers=(ProviderSpec(name="OpenVINOExecutionProvider"),))
BUILD = "onnxruntime-openvino==1.24.1"
"""A whole build, on every machine; as ``openvino`` Intel's have a plug-in, which takes more operators."""
WHOLE = {"runtime": BUILD, "target": "openvino"}


@pytest.fixture(scope="module")
def openvino() -> MadeRuntime:
    return made_runtimes.require("openvino")


def products(path: Path, *, odd: bool = False) -> Path:
    """Products of matrices; between two of them, where it is odd, a node that OpenVINO leaves to the CPU."""
    middle = "b = IsNaN(a) d = Cast<to = 1>(b)" if odd else "d = Relu(a)"
    text = f"""
        <ir_version: 8, opset_import: ["": 17]>
        products (float[128, 128] x) => (float[128, 128] y) {{
            a = MatMul(x, w) {middle} y = MatMul(d, w)
        }}
    """
    model = parser.parse_model(text)
    weights = np.random.default_rng(0).standard_normal((128, 128)).astype(np.float32) / 11
    model.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    onnx.save(model, path)
    return path


def test_a_key_with_parts_leads_into_the_json_of_an_option() -> None:
    options = {"num_of_threads": "1"}
    put_option(options, "load_config/CPU/INFERENCE_PRECISION_HINT", "bf16")
    put_option(options, "load_config/CPU/ENABLE_HYPER_THREADING", "YES")
    put_option(options, "num_streams", "2")
    assert options.pop("load_config") == (
        '{"CPU": {"INFERENCE_PRECISION_HINT": "bf16", "ENABLE_HYPER_THREADING": "YES"}}'
    )
    assert options == {"num_of_threads": "1", "num_streams": "2"}


def test_a_bundle_gives_the_provider_plain_values() -> None:
    plan = msgspec.structs.replace(OPENVINO, settings={"openvino_threads": 2, "openvino_precision": "bf16"})
    stored = portable(plan)
    given = dict(providers(stored, resolve(stored)))["OpenVINOExecutionProvider"]
    assert given == {
        "load_config": '{"CPU": {"INFERENCE_PRECISION_HINT": "bf16", "INFERENCE_NUM_THREADS": "2"}}'
    }


def test_the_settings_reach_openvino_and_its_nodes_are_told(tmp_path: Path) -> None:
    made_runtimes.require(BUILD)
    model = products(tmp_path / "m.onnx", odd=True)
    plain = {"processes": 3, "runs": 3, "budget": "60s", "store": tmp_path / "store"}
    found = ortune.bench(model, **WHOLE, set=["ov_threads=1", "ov_precision=f32"], **plain).result
    assert found.side.runtime.name == BUILD
    assert found.side.plan.provider_names == ("OpenVINOExecutionProvider",)
    placement = {part.provider: part for part in found.side.placement}
    # A single node before it is left to the CPU too.
    assert placement["CPUExecutionProvider"].operators == {"MatMul": 1, "IsNaN": 1}
    assert placement["OpenVINOExecutionProvider"].operators == {"Cast": 1, "MatMul": 1}
    assert placed(found.side.placement) == ["OpenVINO runs 2 of 4 nodes; 2 stayed on CPU: 1 IsNaN, 1 MatMul"]


def test_a_build_that_cannot_read_its_compiled_model_fails_the_setting(
    tmp_path: Path,
) -> None:
    """The wheels that whole builds of OpenVINO come in lack the reader."""
    whole = made_runtimes.require(BUILD)
    capi = next(Path(whole.runtime.python).parents[1].glob("lib/python*/site-packages/onnxruntime/capi"))
    if any(capi.glob("libopenvino_ir_frontend*")):
        pytest.skip("this build has the reader")
    with pytest.raises(MeasurementError) as caught:
        ortune.bench(
            products(tmp_path / "m.onnx"), **WHOLE, set=["ov_cache=1"], processes=4,
            runs=3, budget="5m", store=tmp_path / "store",
        )  # fmt: skip
    facts(str(caught.value), "cache again")


@pytest.mark.parametrize("setting", ["openvino_device=gpu", "openvino_device=npu"])
def test_a_device_that_is_not_there_is_a_failure(openvino: MadeRuntime, tmp_path: Path, setting: str) -> None:
    with pytest.raises(MeasurementError) as caught:
        ortune.bench(products(tmp_path / "m.onnx"), runtime="openvino", set=[setting], processes=3)
    assert caught.value.code == "not-applied"


def test_a_model_of_which_openvino_takes_nothing_is_a_failure(tmp_path: Path) -> None:
    made_runtimes.require(BUILD)
    value = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [4])
    result = helper.make_tensor_value_info("y", onnx.TensorProto.BOOL, [4])
    path = tmp_path / "nan.onnx"
    onnx.save(assemble([helper.make_node("IsNaN", ["x"], ["y"])], [value], [result]), path)
    with pytest.raises(MeasurementError, match="OpenVINOExecutionProvider took none of the nodes"):
        ortune.bench(path, **WHOLE, processes=3)


@pytest.mark.xdist_group("measuring")
@pytest.mark.long
def test_plans_of_two_runtimes_race_in_the_same_blocks(openvino: MadeRuntime, tmp_path: Path) -> None:
    model = products(tmp_path / "m.onnx")
    envelope = ortune.tune(
        model, targets="cpu,openvino", allow=["memory", "mean", "p95", "cpu"], budget="24s", output=tmp_path,
        store=tmp_path / "store",
    )  # fmt: skip
    result = envelope.result
    tried = [c.plan for c in result.candidates if c.plan.providers]
    assert OPENVINO in tried
    assert result.side.runtime.name == ""
    on_openvino = bool(result.winner.providers)
    assert (result.runtime is not None) == on_openvino
    assert (result.adoption is not None) == on_openvino
    if on_openvino:
        assert result.runtime.name == "openvino"
        assert result.adoption.requirements == ("onnxruntime-openvino==1.24.1",)
        assert "onnxruntime-openvino 1.24.1" in result.headline
        loader = (Path(result.bundle) / "load.py").read_text()
        assert "pip install onnxruntime-openvino==1.24.1" in loader


def test_a_look_tells_what_openvino_took(tmp_path: Path) -> None:
    made_runtimes.require(BUILD)
    envelope = ortune.look(
        products(tmp_path / "m.onnx", odd=True), **WHOLE, budget="60s", store=tmp_path / "store"
    )
    assert envelope.result.timing is not None
    rows = dict(timing(envelope.result))
    assert rows["placement"].startswith("OpenVINO runs 2 of 4 nodes; 2 stayed on CPU")
