"""What a file in ORT format says it was made for, and who rejects it."""

from __future__ import annotations

from pathlib import Path

import onnxruntime as ort
import pytest

from mobile_models import mnist
from ortune.graph.model.open import open_model
from ortune.graph.ort_files import inspect
from ortune.records import OrtFile
from ortune.show import ort_format_words
from web_models import convolutions


def converted(source: Path, level: str, **entries: str) -> OrtFile:
    """What is said of a model as ONNX Runtime saves it in ORT format."""
    options = ort.SessionOptions()
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, f"ORT_{level}")
    options.optimized_model_filepath = str(source.with_suffix(".ort"))
    options.log_severity_level = 3
    for key, value in {"session.save_model_format": "ORT", **entries}.items():
        options.add_session_config_entry(key.replace("__", "."), value)
    off = [] if level == "ENABLE_ALL" else ["NchwcTransformer"]
    ort.InferenceSession(source, options, providers=["CPUExecutionProvider"], disabled_optimizers=off)
    found = inspect(open_model(source.with_suffix(".ort")))
    assert found is not None
    return found


def test_basic_is_rejected_by_nobody(tmp_path: Path) -> None:
    found = converted(mnist(tmp_path / "m.onnx"), "ENABLE_BASIC")
    assert (found.level, found.style, found.rejected_by) == ("basic or none", "fixed", ())
    assert found.version == "6" and "1.16" in found.read_by
    assert inspect(open_model(tmp_path / "m.onnx")) is None


def test_extended_leaves_its_fusions_to_the_cpu(tmp_path: Path) -> None:
    found = converted(mnist(tmp_path / "m.onnx"), "ENABLE_EXTENDED")
    assert found.level == "extended or all"
    assert found.own_operators == {"com.microsoft.FusedConv": 2}
    by = {each.where: each.why for each in found.rejected_by}
    assert "session creation fail" in by["WebGPU"]
    (phones,) = [why for where, why in by.items() if "nnapi" in where and "coreml" in where]
    assert phones.startswith("2 nodes ")
    (without,) = [why for where, why in by.items() if "contrib" in where]
    assert "com.microsoft.FusedConv" in without


def test_blocks_are_for_one_processor(tmp_path: Path) -> None:
    found = converted(convolutions(tmp_path / "net.onnx"), "ENABLE_ALL")
    assert found.level == "all, for x86"
    assert any("processors" in each.where for each in found.rejected_by)


def test_the_style_runtime_stores_what_may_be_fused_later(tmp_path: Path) -> None:
    entries = {"optimization__minimal_build_optimizations": "save"}
    found = converted(mnist(tmp_path / "m.onnx"), "ENABLE_EXTENDED", **entries)
    assert found.style == "runtime" and found.level == "basic or none"
    assert found.saved_optimisations == {"com.microsoft.FusedConv": 2}
    rows = dict(ort_format_words.about(found))
    assert "2 FusedConv" in rows["optimized"] and "style runtime" in rows["optimized"]


@pytest.mark.parametrize(("version", "said"), [("4", "do not read"), ("9", "unknown")])
def test_another_version_of_the_format(tmp_path: Path, version: str, said: str) -> None:
    converted(mnist(tmp_path / "m.onnx"), "ENABLE_BASIC")
    path = tmp_path / "m.ort"
    data = path.read_bytes()
    text = b"\x01\x00\x00\x006\x00"
    assert data.count(text) == 1
    path.write_bytes(data.replace(text, text.replace(b"6", version.encode())))
    found = inspect(open_model(path))
    assert found is not None and found.version == version
    assert any(said in each.why for each in found.rejected_by)
