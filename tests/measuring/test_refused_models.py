"""Models that a runtime is too old for, and plan files: what is said of them."""

from __future__ import annotations

import sys
from pathlib import Path

import onnx
import pytest
from onnx import numpy_helper
from onnxruntime import datasets

import ortune
from onnx_text import model_of, saved
from ortune.errors import ModelError, UsageError
from ortune.measuring.plans import read_plan
from ortune.measuring.sides import SideText, resolve
from ortune.records import Plan
from ortune.verbs._shared.quantities import size_bytes


@pytest.mark.parametrize(("part", "said"), [("ir", "IR version 99"), ("opset", "opset 99 of ai.onnx")])
def test_a_version_that_is_too_new_is_named(tmp_path: Path, part: str, said: str) -> None:
    model = onnx.load(datasets.get_example("sigmoid.onnx"))
    if part == "ir":
        model.ir_version = 99
    else:
        model.opset_import[0].version = 99
    path = tmp_path / "m.onnx"
    onnx.save(model, path)
    with pytest.raises(ModelError) as refused:
        ortune.bench(path, budget=2, store=tmp_path / "store", python=sys.executable)
    assert refused.value.what.startswith(f"{said} is newer ")
    assert "newer onnxruntime" in refused.value.do
    assert "custom" not in refused.value.do


def test_shapes_that_do_not_fit_are_no_missing_operator(tmp_path: Path) -> None:
    text = "g (float[2,3] x, float[5,7] w) => (float[a,b] y) { y = MatMul (x, w) }"
    path = saved(tmp_path / "m.onnx", model_of(text))
    with pytest.raises(ModelError, match="InferenceError") as refused:
        ortune.bench(path, budget=2, store=tmp_path / "store", python=sys.executable)
    assert "shapes in it contradict each other" in refused.value.do
    assert "--dim" not in refused.value.do and "--shape" not in refused.value.do
    assert "custom" not in refused.value.do


def test_small_tensors_beside_the_model_are_no_contradiction(tmp_path: Path) -> None:
    text = """g (float[1,2,3] x) => (float[a,b,c] y) <float[0] roi = {}, float[3] scales = {1, 1, 2}>
        { y = Resize (x, roi, scales) }"""
    model, path = model_of(text), tmp_path / "m.onnx"
    for tensor in model.graph.initializer:  # only raw data is moved out
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor), tensor.name))
    onnx.save(model, path, save_as_external_data=True, location="m.data", size_threshold=0)
    with pytest.raises(ModelError, match="InferenceError") as refused:
        ortune.bench(path, budget=2, store=tmp_path / "store", python=sys.executable)
    assert "size_threshold" in refused.value.do and "contradict" not in refused.value.do
    onnx.save(onnx.load(path), path, save_as_external_data=True, location="n.data", size_threshold=1024)
    assert ortune.bench(path, budget=2, store=tmp_path / "store", python=sys.executable).result.rows


def test_a_page_is_not_helped_by_what_helps_a_process(tmp_path: Path) -> None:
    (tmp_path / "ort.wasm.min.mjs").touch()
    with pytest.raises(ModelError) as refused:
        ortune.bench(
            datasets.get_example("sigmoid.onnx"), target="web-wasm", set=["web_build=jspi"], ort_web=str(tmp_path),
            browser=sys.executable, budget=2, store=tmp_path / "store",
        )  # fmt: skip
    assert "no jspi build" in refused.value.what
    assert "ort_web=" in refused.value.do and "custom" not in refused.value.do


def test_a_plan_may_name_its_schema(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text('{"$schema": "plan-1.json", "schema": "ortune/plan/1", "settings": {"intra": 2}}')
    assert read_plan(path).settings == {"intra_op_num_threads": 2}
    path.write_text('{"$schema": "plan-1.json", "setting": {"intra": 2}}')
    with pytest.raises(UsageError, match="'setting'"):
        read_plan(path)


@pytest.mark.parametrize("text", ["2Gi", "2G", "2g", "2GiB", "2GB", "2048MiB", "2048Mi", "2147483648"])
def test_a_size_in_any_unit(text: str) -> None:
    assert size_bytes(text, "--memory") == 2**31


def test_a_rewrite_that_changes_nothing_is_no_side_to_measure(tmp_path: Path) -> None:
    path = saved(tmp_path / "m.onnx", model_of("g (float[n,3] x) => (float[n,3] y) { y = Relu (x) }"))
    with pytest.raises(UsageError, match="gelu changes nothing: the model has no Gelu") as refused:
        ortune.compare(path, b_rewrite=["gelu"], store=tmp_path / "store", python=sys.executable)
    assert refused.value.where == "b_rewrite (m.onnx)"


def test_of_several_rewrites_those_that_change_nothing_are_named(tmp_path: Path) -> None:
    path = saved(tmp_path / "m.onnx", model_of("g (float[n,3] x) => (float[n,3] y) { y = Relu (x) }"))
    text = SideText(text=str(path), rewrites=("gelu", "fixed-dimensions:n=1"))
    lines: list[str] = []
    side = resolve(text, common=Plan(), scratch=tmp_path, say=lines.append)
    assert side.runs != path
    assert lines[-1].startswith("gelu changes nothing: the model has no Gelu") and "fixed" not in lines[-1]
