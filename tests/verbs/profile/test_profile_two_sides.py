"""Two sides under the profiler: the node that became dearer, what was changed, and how the sides are paired."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from profiled_chain import CHANNELS, LAYERS, SIZE, conv_chain, result_of

import ortune
from edited_models import EDITS, numbered, squeezenet
from ortune.engines.profiling import processes
from ortune.engines.profiling.processes import ProfiledProcess, profile_once
from ortune.measuring.executor import Arm
from ortune.measuring.measuring import Measuring
from ortune.measuring.replay import Replay
from ortune.verbs.profile import run as flow


def counted_ns(process: ProfiledProcess, names: tuple[str, ...]) -> np.ndarray:
    """What these nodes take in each steady run of a process, counted over its JSON: nanoseconds (runs,)."""
    events = json.loads(process.path.read_text())
    runs = sorted((e for e in events if e["name"] == "model_run"), key=lambda e: e["ts"])
    wanted = {f"{name}_kernel_time" for name in names}
    kernels = [e for e in events if e["name"] in wanted]
    return np.array(
        [
            sum(1000 * e["dur"] for e in kernels if run["ts"] <= e["ts"] < run["ts"] + run["dur"])
            for run in runs[process.attribution.runs.start : process.attribution.runs.stop]
        ]
    )


def test_a_dearer_node_is_named_first_and_at_the_right_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sides: dict[str, list[ProfiledProcess]] = {}

    def kept(
        baseline: Measuring, replay: Replay, turn: int, arms: Sequence[Arm], runs: int, keep: Sequence[Path]
    ) -> list[ProfiledProcess]:
        found = profile_once(baseline, replay, turn, arms, runs, [tmp_path / path.name for path in keep])
        for arm, process in zip(arms, found, strict=True):
            sides.setdefault(arm.model.name, []).append(process)
        return found

    monkeypatch.setattr(flow, "profile_once", kept)
    monkeypatch.setattr(processes, "runs_within", lambda *_: 60)  # of each of six processes
    plain = conv_chain(tmp_path / "plain.onnx")
    dear = conv_chain(tmp_path / "dear.onnx", dear=2)
    result = result_of(
        ortune.profile(
            plain, against=dear, set=["intra=1"], processes=3, no_peak=True, store=tmp_path / "store"
        )
    )
    found = result.against
    assert found is not None
    row = found.nodes[0]
    assert row.name.startswith("conv2")
    # What the work is needs no clock; whether so few short runs prove a time is the neighbours' matter.
    assert row.work_ratio == pytest.approx(3.0, rel=0.01)
    assert row.low_ns is not None and row.high_ns is not None
    assert row.low_ns < row.difference_ns < row.high_ns
    # The right size is what the JSON of all profiles says of these nodes.
    a, b = (
        [counted_ns(p, names) for p in sides[side]]
        for side, names in (("plain.onnx", row.a_nodes), ("dear.onnx", row.b_nodes))
    )
    means = [np.mean([runs.mean() for runs in side]) for side in (a, b)]
    assert (row.a_ns, row.b_ns) == pytest.approx(means, rel=1e-9)
    assert row.difference_ns == pytest.approx(means[1] - means[0], rel=1e-9)
    # Three times the channels are three times the work; in the runs that nothing disturbed that is what it took.
    conv = [name for name in row.b_nodes if "relu" not in name]
    # Both processes of a turn, since a CPU that is clocked higher for a while is so for both.
    dear_conv = [counted_ns(p, tuple(conv)) for p in sides["dear.onnx"]]
    ratios = [runs_b.min() / runs_a.min() for runs_a, runs_b in zip(a, dear_conv, strict=True)]
    assert np.median(ratios) == pytest.approx(3.0, rel=0.15)
    total = sum(r.difference_ns for r in found.nodes) + found.same_ns
    inside = {r.name: r.difference_ns for r in found.categories}
    beside = sum(inside.get(name, 0.0) for name in ("between-nodes", "outside-run", "unexplained"))
    assert total + beside == pytest.approx(found.b_wall_ns - found.a_wall_ns)


@pytest.mark.usefixtures("few_runs")
@pytest.mark.parametrize(
    "edits",
    # One node that is added is less than two.
    [["wider", "converted"], pytest.param(["transposed"], marks=pytest.mark.long)],
    ids=" and ".join,
)
def test_what_was_changed_in_a_real_model_is_told(edits: list[str], tmp_path: Path) -> None:
    """Nodes are numbered in both files, so that one more gives all behind it other names."""
    plain, edited = squeezenet(96), squeezenet(96)
    for change, _ in map(EDITS.__getitem__, edits):
        change(edited)
    for name, model in (("plain", plain), ("edited", edited)):
        onnx.save(numbered(model), tmp_path / f"{name}.onnx")
    result = result_of(
        ortune.profile(
            tmp_path / "plain.onnx", against=tmp_path / "edited.onnx", set=["intra=1"], processes=3, no_peak=True,
            # Beside a busy neighbour too there is time to find the user's nodes.
            budget="10m", store=tmp_path / "store",
        )
    )  # fmt: skip
    found = result.against
    assert found is not None
    alone = [row for row in found.nodes if row.a_ns is None and not row.name.startswith("inserted")]
    assert sorted(row.op_type for row in alone) == [op for edit in edits for op in EDITS[edit][1]]
    assert all(row.b_ns and row.b_bytes for row in alone)
    # One convolution makes three times the channels, and both that read it do three times the work.
    wider = [row.work_ratio for row in found.nodes if row.a_ns is not None and not row.same_work]
    assert wider == ([pytest.approx(3.0, rel=0.03)] * 3 if "wider" in edits else [])
    # All else is there on both sides, and met itself.
    assert not found.only_a
    assert not [row for row in found.nodes if row.low_ns is not None and row.a_nodes and not row.b_nodes]


@pytest.mark.usefixtures("few_runs")
def test_a_setting_alone_is_the_same_model_on_both_sides(tmp_path: Path) -> None:
    result = result_of(
        ortune.profile(
            # Two processes give no intervals, so that every row is told.
            conv_chain(tmp_path / "m.onnx"), b_set=["level=disable"], set=["intra=1"], processes=2, no_peak=True,
            store=tmp_path / "store",
        )
    )  # fmt: skip
    found = result.against
    assert found is not None
    assert "graph_optimization_level=disable" in found.b
    # Unfused on B: each Relu is a node of its own, and meets the Conv that holds it on A.
    assert {row.b_nodes for row in found.nodes if len(row.b_nodes) > 1} <= {
        (f"conv{i}", f"relu{i}") for i in range(LAYERS)
    }
    assert any("Conv + Relu" in row.op_type for row in found.nodes)


@pytest.mark.usefixtures("few_runs")
def test_a_plan_is_the_other_side_of_a_model(tmp_path: Path) -> None:
    plan, model = tmp_path / "plan.json", conv_chain(tmp_path / "m.onnx")
    plan.write_text('{"settings": {"level": "disable"}}')
    for n in (1, 4):  # beside a neighbour one process tells no two nodes apart
        asked = {"set": ["intra=1"], "processes": n, "no_peak": True, "store": tmp_path / "store"}
        found = result_of(ortune.profile(model, against=plan, **asked)).against
        assert found is not None and (found.a, found.b) == ("m.onnx", "plan.json")
        if any("Conv + Relu" in row.op_type for row in found.nodes):
            return
    pytest.fail(f"no fused node beside its parts: {found.nodes}")


@pytest.mark.usefixtures("few_runs")
def test_another_model_gets_the_same_values_under_its_own_names(tmp_path: Path) -> None:
    one, other = conv_chain(tmp_path / "a.onnx"), conv_chain(tmp_path / "b.onnx")
    graph = onnx.load(other)
    graph.graph.input[0].name = graph.graph.node[0].input[0] = "picture"
    for model, name in ((onnx.load(one), one), (graph, other)):
        model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "N"
        onnx.save(model, name)
    result = result_of(
        ortune.profile(
            one,
            against=other,
            shape=[f"x0:3x{CHANNELS}x{SIZE}x{SIZE}"],
            processes=1,
            no_peak=True,
            store=tmp_path / "store",
        )
    )
    assert result.against is not None
    first = {n.output_bytes for n in result.nodes}
    assert max(filter(None, first)) % 3 == 0
