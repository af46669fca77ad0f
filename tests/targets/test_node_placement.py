"""A side of the graph that is kept on the CPU by its nodes' names, on a provider that leaves an island there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser
from target_trials import Trials, measured, model

import ortune
from ortune import targets
from ortune.errors import MeasurementError
from ortune.graph.model.open import open_model
from ortune.inputs.feed_files import write_feeds
from ortune.inputs.value_files import read_index
from ortune.records import Failed, FeedRef
from ortune.verbs.tune.hybrids import hybrids
from targets_here import discovered, usable

GPU, CPU = "WebGpuExecutionProvider", "CPUExecutionProvider"
FEED = np.random.default_rng(0).standard_normal((8, 8), np.float32)


def island(path: Path) -> Path:
    """Products on the device, and between them a determinant, for which it has no kernel."""
    model = parser.parse_model("""
        <ir_version: 8, opset_import: ["": 17]> g (float[8, 8] x) => (float[8, 8] y) {
            a = MatMul(x, w)
            b = Relu(a)
            c = Det(b)
            d = Add(b, c)
            y = MatMul(d, w)
        }
    """)
    for node, place in zip(model.graph.node, ("body", "body", "neck", "head", "head"), strict=True):
        node.name = f"/{place}/{node.op_type}"
    weight = np.eye(8, dtype=np.float32) + 0.1
    model.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    onnx.save(model, path)
    return path


@pytest.mark.xdist_group("target webgpu")
def test_either_side_of_an_island_can_be_kept_on_the_cpu(tmp_path: Path) -> None:
    target = targets.find("webgpu")
    runtime = usable(target)
    trials = Trials(tmp_path, target, runtime)
    path = island(tmp_path / "m.onnx")
    write_feeds(tmp_path / "feeds", {"x": FEED})
    first = trials.task("first", path)
    named = msgspec.structs.replace(first.request, name_nodes=True)
    placement = measured(*trials.run(replace(first, request=named))).done.placement
    assert {name: part.provider for part in placement for name in part.nodes} == {
        "/body/MatMul": GPU, "/body/Relu": GPU, "/neck/Det": CPU, "/head/Add": GPU, "/head/MatMul": GPU,
    }  # fmt: skip
    plans, why = hybrids(open_model(path).ir.graph, placement, first.plan, runtime.version_of(first.plan))
    assert not why
    sides = [dict(proposed.plan.settings) for proposed in plans]
    assert sides == [
        {"node_placement": f"{CPU}(/head/)"},
        {"node_placement": f"{CPU}(/body/)"},
    ]
    weight = np.eye(8, dtype=np.float32) + 0.1
    body = np.maximum(FEED @ weight, 0)
    expected = (body + np.linalg.det(body)) @ weight
    refs = (FeedRef(name="all", path=str(tmp_path / "feeds")),)
    for number, (settings, on_gpu) in enumerate(zip(sides, (2, 2), strict=True)):
        task = trials.task(str(number), path, settings, watched=True)
        task = replace(task, request=msgspec.structs.replace(task.request, feeds=refs, name_nodes=True))
        outcome = measured(*trials.run(task))
        parts = {part.provider: part for part in outcome.done.placement}
        assert (parts[GPU].n_nodes, parts[CPU].n_nodes) == (on_gpu, 5 - on_gpu)
        assert len({name.split("/")[1] for name in parts[GPU].nodes}) == 1
        assert all(item.ok for item in outcome.done.read_back)
        (output,) = read_index(Path(outcome.outputs_path) / "all", "outputs")
        np.testing.assert_allclose(np.load(output.files[0]), expected, rtol=1e-3, atol=1e-3)


@pytest.mark.xdist_group("target qnn")
def test_a_plug_in_that_compiles_parts_fails_where_nodes_are_assigned_by_name(tmp_path: Path) -> None:
    """Where it no longer fails, plans that assign nodes by name can be proposed for such plug-ins too."""
    target = targets.find("qnn")
    runtime = usable(target)
    trials = Trials(tmp_path, target, runtime)
    path = island(tmp_path / "m.onnx")
    write_feeds(tmp_path / "feeds", {"x": FEED})
    pinned, free = trials.run(
        trials.task("pinned", path, {"node_placement": f"{CPU}(/head/)"}), trials.task("free", path)
    )
    assert isinstance(pinned, Failed)
    assert "partitioning_utils" in "".join((pinned.what, *pinned.log))
    measured(free)


@pytest.mark.xdist_group("target qnn")
def test_no_plan_of_an_emulated_device_is_raced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = targets.find("qnn")
    runtime, report = discovered(target)
    if runtime is None or not report.emulated:
        pytest.skip(report.why)
    monkeypatch.setenv("ORTUNE_LOCK", str(tmp_path / "lock"))
    path = model(tmp_path / "m.onnx")
    with pytest.raises(
        MeasurementError, match="the CPU emulates the device, so nothing is measured"
    ) as error:
        ortune.tune(
            path, target="qnn", runtime=runtime.python, budget=20, bundle=False, store=tmp_path / "st"
        )
    assert "a machine with an NPU" in error.value.do
