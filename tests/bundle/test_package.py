"""A bundle as a model package: ONNX Runtime itself opens it and applies its entries."""

from __future__ import annotations

import json
import os
from pathlib import Path

import msgspec
import numpy as np
import onnxruntime as ort
import pytest
from emitted_code import owners

from conftest import Bundle, matmul
from ortune.bundle.package import COMPONENT, MANIFEST, manifest
from ortune.bundle.settings import resolve
from ortune.catalogue import knobs
from ortune.records import BundleInfo, Plan, Value

pytestmark = pytest.mark.skipif(
    not hasattr(ort, "ModelPackageContext"), reason="this onnxruntime opens no model package"
)


def info(settings: dict[str, Value], **changes: object) -> BundleInfo:
    plan = Plan(settings=settings, providers=owners(settings))
    usual = BundleInfo(schema="ortune/bundle/1", model="m.onnx", sha256="", plan=plan, applied=resolve(plan))
    return msgspec.structs.replace(usual, **changes)


def threads() -> set[str]:
    place = Path("/proc/self/task")
    return {each.name for each in place.iterdir()} if place.is_dir() else set()


def test_onnxruntime_opens_it_with_its_entries(tmp_path: Path, make_bundle: Bundle) -> None:
    bundle = make_bundle(
        matmul(tmp_path / "m.onnx"), {"x": np.ones((2, 64), np.float32)}, {"allow_spinning": False}
    )
    package = ort.ModelPackageContext(os.fspath(bundle))
    chosen = package.select_component(COMPONENT, ort.ModelPackageOptions(ort.SessionOptions()))
    session = chosen.create_session()
    entry = session.get_session_options().get_session_config_entry("session.intra_op.allow_spinning")
    assert entry == "0" and session.get_providers() == ["CPUExecutionProvider"]
    feed = np.ones((2, 64), np.float32)
    (expected,) = ort.InferenceSession(bundle / "m.onnx").run(None, {"x": feed})
    np.testing.assert_array_equal(session.run(None, {"x": feed})[0], expected)


def test_onnxruntime_honours_the_session_options_of_a_package_over_those_of_the_program(
    tmp_path: Path, make_bundle: Bundle
) -> None:
    settings: dict[str, Value] = {
        "intra_op_num_threads": 3,
        "inter_op_num_threads": 2,
        "execution_mode": "parallel",
        "graph_optimization_level": "extended",
        "enable_cpu_mem_arena": False,
        "enable_mem_pattern": False,
    }
    bundle = make_bundle(matmul(tmp_path / "m.onnx"), {"x": np.ones((2, 64), np.float32)}, settings)
    own = ort.SessionOptions()
    own.intra_op_num_threads = 1
    before = threads()
    chosen = ort.ModelPackageContext(os.fspath(bundle)).select_component(
        COMPONENT, ort.ModelPackageOptions(own)
    )
    session = chosen.create_session()
    options, started = session.get_session_options(), threads() - before
    expected = {setting.key: setting.value for setting in resolve(Plan(settings=settings))}
    found = {key: getattr(options, key) for key in expected}
    assert {key: getattr(value, "name", value) for key, value in found.items()} == expected
    if before:
        assert len(started) == 3  # of two pools, and the first counts its caller


def test_onnxruntime_takes_each_value_of_a_packaged_setting(tmp_path: Path) -> None:
    matmul(tmp_path / "m.onnx")
    packaged = [knob for knob in knobs.all_knobs().values() if knob.packaged]
    assert {knob.channel for knob in packaged} == {"session_option"}
    for knob in packaged:
        for choice in knob.choices:
            (tmp_path / MANIFEST).write_text(manifest(info({knob.name: choice})))
            chosen = ort.ModelPackageContext(os.fspath(tmp_path)).select_component(
                COMPONENT, ort.ModelPackageOptions(ort.SessionOptions())
            )
            value = getattr(chosen.create_session().get_session_options(), knob.key)
            assert value.name == knob.applied(choice).value


def test_a_missing_provider_is_an_error_and_no_silent_cpu(tmp_path: Path) -> None:
    matmul(tmp_path / "m.onnx")
    (tmp_path / MANIFEST).write_text(manifest(info({"openvino_streams": 1})))
    package = ort.ModelPackageContext(os.fspath(tmp_path))
    with pytest.raises(Exception, match="No suitable model variant"):
        package.select_component(COMPONENT, ort.ModelPackageOptions(ort.SessionOptions()))


def test_options_of_a_plug_in_are_there() -> None:
    (variant,) = json.loads(manifest(info({"webgpu_layout": "nchw"})))["components"][COMPONENT][
        "variants"
    ].values()
    assert variant["ep"] == "WebGpuExecutionProvider"
    assert variant["executor_info"]["ort"]["provider_options"] == {"preferredLayout": "NCHW"}


@pytest.mark.parametrize(
    "settings",
    [
        {"enable_mem_reuse": False},
        {"execution_order": "priority_based"},
        {"allocator": "mimalloc"},
        {"call_style": "io_binding"},
        {"cuda_tf32": "0"},
    ],
    ids=str,
)
def test_a_plan_with_more_than_a_package_holds_has_none(settings: dict[str, Value]) -> None:
    assert manifest(info(settings)) == ""


def test_a_model_that_is_bound_to_its_processor_has_none() -> None:
    assert manifest(info({})) and not manifest(info({}, hardware_bound=True, plain_model="plain/m.onnx"))
    assert not manifest(info({}), ("custom_ops/0.so",))
