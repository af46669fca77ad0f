"""What a provider cannot do is a ``Failed`` trial, and the others of its block go on."""

from __future__ import annotations

from pathlib import Path

import pytest
from targets_here import discovered
from test_conformance import Trials, measured, model

from ortune import targets
from ortune.records import Failed, Value


@pytest.mark.xdist_group("target webgpu")
def test_a_value_that_the_provider_refuses_costs_the_others_nothing(tmp_path: Path) -> None:
    target = targets.find("webgpu")
    runtime, report = discovered(target)
    if runtime is None or not report.usable:
        pytest.skip(report.why)
    trials = Trials(tmp_path, target, runtime)
    path = model(tmp_path / "m.onnx")
    # WebGPU refuses so many kernels at once; the knob's own limit is the provider's, so the trial goes around it.
    bad = trials.task("bad", path, {"webgpu_pending_dispatches": 100_000})
    failed, good = trials.run(bad, trials.task("good", path))
    assert isinstance(failed, Failed)
    assert "maxNumPendingDispatches" in failed.what or "pending" in failed.what.lower()
    measured(good)


@pytest.mark.xdist_group("target webgpu")
def test_a_captured_graph_answers_changed_inputs(tmp_path: Path) -> None:
    """Buffers stay on the device, each run copies into them, and a replay computes with what is there now."""
    target = targets.find("webgpu")
    runtime, report = discovered(target)
    if runtime is None or not report.usable:
        pytest.skip(report.why)
    trials = Trials(tmp_path, target, runtime)
    settings: dict[str, Value] = {"webgpu_graph_capture": "1", "call_style": "device_binding"}
    outcome = measured(*trials.run(trials.task("a", model(tmp_path / "m.onnx"), settings, watched=True)))
    assert {item.knob: item.ok for item in outcome.done.read_back} == dict.fromkeys(settings, True)


@pytest.mark.xdist_group("target qnn")
def test_a_device_that_is_not_there_is_a_failure(tmp_path: Path) -> None:
    target = targets.find("qnn")
    runtime, report = discovered(target)
    if runtime is None or not report.usable:
        pytest.skip(report.why)
    trials = Trials(tmp_path, target, runtime)
    path = model(tmp_path / "m.onnx")
    failed, good = trials.run(
        trials.task("gpu", path, {"qnn_backend": "gpu"}), trials.task("npu", path, {"qnn_backend": "htp"})
    )
    assert isinstance(failed, Failed) and failed.reason == "not-applied"
    assert "took none of the nodes" in failed.what
    measured(good)
