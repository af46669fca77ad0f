"""Bundles whose calls keep buffers on a device, and replay a captured graph: load.py alone does either."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import msgspec
import numpy as np
import onnx
import pytest
from emitted_code import LANGUAGES, emitted
from onnx import TensorProto, helper

from onnx_text import assemble
from ortune import loader
from ortune.bundle.settings import resolve
from ortune.bundle.snippet import python_lines
from ortune.catalogue.providers import CUDA
from ortune.records import Plan, ProviderSpec, Value

GRAPH: dict[str, Value] = {"cuda_graph": "1", "call_style": "device_binding", "cuda_nhwc": "1"}
ON_CUDA = (ProviderSpec(name=CUDA.name),)
PLAN = Plan(settings=GRAPH, providers=ON_CUDA)
OPTION = CUDA.graph_option


@pytest.fixture
def module(tmp_path: Path) -> ModuleType:
    """The emitted load.py beside a model, on the CPU: its memory stands for a device's."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 3]) for name in "xy")
    model = assemble([helper.make_node("Add", ["x", "x"], ["y"])], [x], [y])
    onnx.save(model, tmp_path / "net.onnx")
    text = emitted(GRAPH, ON_CUDA, files=("load.py",))["load.py"]
    assert "DEVICE_MEMORY = 'cuda'" in text and "CAPTURES = True" in text
    found = ModuleType("emitted_load")
    found.__dict__["__file__"] = str(tmp_path / "load.py")
    exec(compile(text, "load.py", "exec"), found.__dict__)
    found.__dict__.update(DEVICE_MEMORY="cpu", PROVIDERS=["CPUExecutionProvider"])
    return found


def test_each_shape_keeps_its_buffers_from_call_to_call(module: ModuleType) -> None:
    session = module.load()
    for rows in (2, 4, 2):
        x = np.full((rows, 3), rows, np.float32)
        (y,) = module.run(session, {"x": x})
        np.testing.assert_array_equal(y, 2 * x)
    assert len(module._buffers[session]) == 2


def test_load_py_has_the_graph_and_no_other_language_has_it() -> None:
    files = emitted(GRAPH, ON_CUDA)
    files["load.py"] = emitted(GRAPH, ON_CUDA, files=("load.py",))["load.py"]
    assert f"'{OPTION}': '1'" in files["load.py"]
    for name in LANGUAGES:
        assert f'"{OPTION}"' not in files[name]
        assert "prefer_nhwc" in files[name] or name == "load.swift"  # which appends no provider of NVIDIA's
        assert f"{OPTION}=1 of {CUDA.name}" in files[name] and "only load.py keeps them" in files[name]


def test_lines_to_paste_and_ortune_load_replay_nothing() -> None:
    lines = python_lines(PLAN)
    assert OPTION not in lines and "prefer_nhwc" in lines and "load.py" in lines
    stored = [msgspec.to_builtins(item) for item in resolve(PLAN)]
    assert loader._providers({"plan": msgspec.to_builtins(PLAN)}, stored) == [
        (CUDA.name, {"prefer_nhwc": "1"})
    ]
    of_the_call = [item["knob"] for item in stored if loader._is_of_the_call(item)]
    assert of_the_call == ["call_style", "cuda_graph"]


def test_libraries_that_are_not_there_stop_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[str] = []
    fake = ModuleType("onnxruntime")
    fake.__dict__.update(
        __file__=str(tmp_path / "__init__.py"), preload_dlls=lambda: asked.append("preloaded")
    )
    monkeypatch.setitem(sys.modules, "onnxruntime", fake)
    loader._load_libraries(fake, ["CPUExecutionProvider"])
    assert not asked
    loader._load_libraries(fake, [(CUDA.name, {})])
    assert asked == ["preloaded"]
