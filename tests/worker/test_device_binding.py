"""Calls with buffers that stay, on ONNX Runtime itself: the CPU's memory stands for a device's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from onnx_text import assemble
from ortune.catalogue.captured_graph import captures
from ortune.catalogue.providers import CUDA
from ortune.inputs.feed_files import write_feeds
from ortune.records import Plan, ProviderSpec, Runtime
from ortune.targets.requests import applied
from ortune.worker import cases, channels, values
from ortune.worker.protocol import Stop


def model(path: Path, kind: int = TensorProto.FLOAT) -> Path:
    """y = x + x over any number of rows."""
    x, y = (helper.make_tensor_value_info(name, kind, ["n", 3]) for name in "xy")
    op = "Add" if kind == TensorProto.FLOAT else "Identity"
    onnx.save(assemble([helper.make_node(op, ["x"] * (2 if op == "Add" else 1), ["y"])], [x], [y]), path)
    return path


def caller(
    path: Path, feeds: list[np.ndarray], *, style: str = "device_binding", captures: bool = False
) -> Any:
    settings = channels.Settings(onnxruntime)
    settings.call_style = style
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    refs = []
    for number, x in enumerate(feeds):
        folder = path.parent / f"feeds-{number}"
        write_feeds(folder, {"x": x})
        refs.append({"name": str(number), "path": str(folder), "weight": 1.0})
    request = {"feeds": refs, "device_memory": "cpu", "captures": captures, "transfers": False}
    return cases.caller(onnxruntime, session, settings, request, values)


def test_each_shape_has_buffers_of_its_own_and_they_stay(tmp_path: Path) -> None:
    feeds = [np.full((rows, 3), rows, np.float32) for rows in (2, 4)]
    several = caller(model(tmp_path / "m.onnx"), feeds)
    for case, x in zip(several, feeds, strict=True):
        for _ in range(2):
            (y,) = case.call()
            np.testing.assert_array_equal(y, 2 * x)
    bound = [
        cell.cell_contents
        for cell in several[0].call.__closure__
        if isinstance(cell.cell_contents, cases.DeviceBound)
    ]
    assert len(bound[0].bound) == 2


def test_what_stays_on_the_device_is_fetched_for_the_outputs_alone(tmp_path: Path) -> None:
    x = np.ones((2, 3), np.float32)
    (case,) = caller(model(tmp_path / "m.onnx"), [x], style="device_resident")
    assert case.call() is None
    (y,) = case.read()
    np.testing.assert_array_equal(y, 2 * x)


def test_a_graph_is_captured_on_other_inputs_and_outputs_are_those_of_a_replay(tmp_path: Path) -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    (case,) = caller(model(tmp_path / "m.onnx"), [x], captures=True)
    seen: list[np.ndarray] = []
    first = case.other
    case.other = lambda: seen.append(first()[0].copy())
    case.first(str(tmp_path / "out"), values)
    assert len(seen) == 2 and not np.array_equal(seen[0], 2 * x)
    (kept,) = values.read_outputs(str(tmp_path / "out" / "0")).values()
    np.testing.assert_array_equal(kept, 2 * x)


def test_texts_are_bound_to_no_device(tmp_path: Path) -> None:
    (case,) = caller(
        model(tmp_path / "m.onnx", TensorProto.STRING), [np.array([["a", "b", "c"]], dtype=object)]
    )
    with pytest.raises(Stop, match="x cannot be bound to device memory") as stop:
        case.call()
    assert (stop.value.reason, stop.value.knob) == ("unsupported", "call_style")


@pytest.mark.parametrize(
    ("settings", "options", "replays"),
    [({"cuda_graph": "1"}, {}, True), ({}, {"enable_cuda_graph": "1"}, True), ({}, {}, False),
     ({"cuda_graph": "0"}, {"enable_cuda_graph": "1"}, False)],
)  # fmt: skip
def test_whether_a_plan_replays_a_graph(
    settings: dict[str, str], options: dict[str, str], replays: bool
) -> None:
    plan = Plan(settings=settings, providers=(ProviderSpec(name=CUDA.name, options=options),))
    assert captures(plan, applied(plan, Runtime(python="python", ort_version="1.31.1"))) == replays
