"""Transfer apart from compute: runs whose values stay in a device's memory, beside runs that copy them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import onnx
import pytest
from onnx import helper
from target_trials import FEED, Trials, measured, model

from onnx_text import assemble
from ortune import targets
from ortune.records import GpuRun, Value
from ortune.worker.transfers import LEAST, MOST
from targets_here import usable

pytestmark = pytest.mark.xdist_group("target webgpu")

STYLES: list[dict[str, Value]] = [
    {},
    {"call_style": "io_binding"},
    {"call_style": "device_binding"},
    {"call_style": "device_resident"},
    {"call_style": "device_binding", "webgpu_graph_capture": "1"},
]


@pytest.fixture
def trials(tmp_path: Path) -> Trials:
    target = targets.find("webgpu")
    runtime = usable(target)
    return Trials(tmp_path, target, runtime)


def split(trials: Trials, path: Path, settings: dict[str, Value]) -> GpuRun | None:
    task = trials.task("-".join(map(str, settings.values())) or "run", path, settings)
    asked = msgspec.structs.replace(task.request, transfers=True)
    return measured(*trials.run(replace(task, request=asked))).done.gpu_run


def test_runs_that_copy_nothing_are_timed_beside_those_that_do(trials: Trials) -> None:
    path = model(trials.folder / "m.onnx")
    for settings in STYLES:
        run = split(trials, path, settings)
        assert run is not None, settings
        assert run.input_bytes == run.output_bytes == FEED.nbytes
        assert LEAST <= run.n_runs <= MOST
        assert min(run.whole_ns, run.fed_ns, run.device_ns) > 0
        assert run.upload_ns + run.device_ns + run.read_back_ns == pytest.approx(run.whole_ns)


def test_a_value_that_no_device_can_hold_leaves_the_run_whole(trials: Trials) -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["m"], name="first"),
        helper.make_node("SequenceConstruct", ["m", "m"], ["y"], name="last"),
    ]
    proto = assemble(nodes, "float[8,4] x", "seq(float[8,4]) y", opset=13)
    path = trials.folder / "m.onnx"
    onnx.save(proto, path)
    assert split(trials, path, {}) is None


def test_nothing_is_split_that_nobody_asked_for(trials: Trials) -> None:
    outcome = measured(*trials.run(trials.task("a", model(trials.folder / "m.onnx"))))
    assert outcome.done.gpu_run is None
