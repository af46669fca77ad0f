"""``ortune profile`` with real ONNX Runtime: sums, origins, differences, and traces of others."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import ortune
from edited_models import EDITS, numbered, squeezenet
from ortune.errors import UsageError
from ortune.experiment.baseline import Baseline
from ortune.experiment.replay import Replay
from ortune.profiling import processes
from ortune.profiling.processes import Process, profile_once
from ortune.records import Envelope, ProfileResult
from ortune.report import difference_words
from ortune.trials.executor import Arm
from ortune.verbs import profile as flow

CHANNELS, SIZE, LAYERS = 32, 40, 5


def conv_chain(path: Path, *, dear: int | None = None) -> Path:
    """Convolutions with a Relu each; one of them may make three times the channels, of which two thirds go."""
    rng = np.random.default_rng(0)
    nodes, weights = [], []
    for i in range(LAYERS):
        weight = rng.standard_normal((CHANNELS, CHANNELS, 3, 3), dtype=np.float32) * 0.05
        times = 3 if i == dear else 1
        weights.append(numpy_helper.from_array(np.tile(weight, (times, 1, 1, 1)), f"w{i}"))
        made = f"c{i}" if times == 1 else f"all{i}"
        nodes.append(helper.make_node("Conv", [f"x{i}", f"w{i}"], [made], name=f"conv{i}", pads=[1] * 4))
        if times > 1:
            nodes.append(helper.make_node("Slice", [made, "zero", "some", "axis"], [f"c{i}"], name="slice"))
        nodes.append(helper.make_node("Relu", [f"c{i}"], [f"x{i + 1}"], name=f"relu{i}"))
    weights += [
        numpy_helper.from_array(np.array([n], dtype=np.int64), name)
        for name, n in (("zero", 0), ("some", CHANNELS), ("axis", 1))
    ]
    shape = [1, CHANNELS, SIZE, SIZE]
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_tensor_value_info("x0", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(f"x{LAYERS}", TensorProto.FLOAT, shape)],
        weights,
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return path


@pytest.fixture(scope="module")
def profiled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Envelope]:
    folder = tmp_path_factory.mktemp("profiled")
    envelope = ortune.profile(
        conv_chain(folder / "chain.onnx"), set=["intra=1"], no_peak=True, keep=folder / "kept.json",
        export=[f"chrome={folder / 'out.json'}", str(folder / "nodes.nodes.csv")], store=folder / "store",
    )  # fmt: skip
    return folder, envelope


def result_of(envelope: Envelope) -> ProfileResult:
    assert isinstance(envelope.result, ProfileResult)
    return envelope.result


def test_the_parts_are_the_whole_that_was_timed_around_the_runs(profiled: tuple[Path, Envelope]) -> None:
    result = result_of(profiled[1])
    total = sum(c.ns for c in result.categories)
    assert total == pytest.approx(result.wall_ns)
    shares = {c.name: c.ns / result.wall_ns for c in result.categories}
    assert shares["kernels"] > 0.5
    in_nodes = sum(node.time_ns for node in result.nodes)
    assert in_nodes == pytest.approx(
        total
        - sum(c.ns for c in result.categories if c.name in ("between-nodes", "outside-run", "unexplained"))
    )
    assert sum(o.time_ns for o in result.operators) == pytest.approx(in_nodes)
    assert sum(o.share_ratio for o in result.operators) == pytest.approx(1.0)


def test_operators_equal_a_direct_count_over_the_json(profiled: tuple[Path, Envelope]) -> None:
    folder, envelope = profiled
    result = result_of(envelope)
    events = json.loads((folder / "kept.json").read_text())
    runs = sorted((e for e in events if e["name"] == "model_run"), key=lambda e: e["ts"])[-result.n_runs :]
    counted: Counter[str] = Counter()
    for event in events:
        if event["cat"] == "Node" and event["ts"] >= runs[0]["ts"]:
            counted[event["args"]["op_name"]] += event["dur"] * 1000 / len(runs)
    assert {o.op_type: o.time_ns for o in result.operators} == pytest.approx(counted)


def test_nodes_are_named_by_the_users_own(profiled: tuple[Path, Envelope]) -> None:
    result = result_of(profiled[1])
    fused = {node.originals for node in result.nodes if node.op_type in ("Conv", "FusedConv")}
    assert fused == {(f"conv{i}", f"relu{i}") for i in range(LAYERS)}
    for node in result.nodes:
        if node.originals:
            assert node.flops is not None
            assert node.flops >= 2 * 9 * CHANNELS * CHANNELS * SIZE * SIZE


def test_inserted_nodes_say_what_for_and_all_others_are_known(profiled: tuple[Path, Envelope]) -> None:
    result = result_of(profiled[1])
    moved = {node.op_type: node.purpose for node in result.nodes if not node.originals}
    assert moved == {
        "ReorderInput": "into blocked layout for conv0",
        "ReorderOutput": f"out of blocked layout for relu{LAYERS - 1}",
    }
    assert not any(node.purpose for node in result.nodes if node.originals)
    assert result.unmapped == ()


def test_what_each_node_reads_is_the_graph_that_ran(profiled: tuple[Path, Envelope]) -> None:
    by_name = {node.name: node for node in result_of(profiled[1]).nodes}
    chain = [next(node for node in by_name.values() if node.op_type == "ReorderOutput")]
    while chain[-1].reads:
        assert len(chain[-1].reads) == 1
        chain.append(by_name[chain[-1].reads[0]])
    assert len(chain) == len(by_name) and chain[-1].op_type == "ReorderInput"


def test_memory_names_nodes_and_weights(profiled: tuple[Path, Envelope]) -> None:
    found = result_of(profiled[1]).memory
    assert found is not None and found.source == "profile" and found.held_bytes is not None
    assert found.weights_bytes == LAYERS * CHANNELS * CHANNELS * 9 * 4
    names = {node.name for node in result_of(profiled[1]).nodes}
    assert found.peak_node in names and {name for name, _ in found.at_peak} <= names
    assert dict(found.at_peak)[found.peak_node] == 4 * CHANNELS * SIZE * SIZE
    # All that the process had: values, weights, the arena's rounding, ONNX Runtime itself.
    owners = {owner.kind: owner.bytes for owner in found.owners}
    assert sum(owner.bytes for owner in found.owners) == found.total_bytes == found.resident_bytes
    assert owners["weights"] == found.weights_bytes and owners["inputs"] == 4 * CHANNELS * SIZE * SIZE
    assert owners["libraries"] > 0 and owners["runtime"] > 0


@pytest.mark.usefixtures("few_runs")
def test_the_ort_format_meets_the_model_that_it_was_made_of(tmp_path: Path) -> None:
    plain = conv_chain(tmp_path / "m.onnx")
    options = ort.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "m.ort")
    options.add_session_config_entry("session.save_model_format", "ORT")
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    ort.InferenceSession(plain, options, providers=["CPUExecutionProvider"])
    result = result_of(
        ortune.profile(
            tmp_path / "m.ort",
            against=plain,
            set=["intra=1"],
            processes=2,
            no_peak=True,
            store=tmp_path / "store",
        )
    )
    assert all(node.originals and node.flops for node in result.nodes if "Conv" in node.op_type)
    found = result.against
    assert found is not None and " a run, profiled (too few runs" in found.sentence
    rows = [row for row in found.nodes if "Conv" in row.op_type]
    assert len(rows) == LAYERS and all(row.a_nodes and row.b_nodes for row in rows)
    assert {row.name for row in rows} == {f"conv{i} fused with relu{i}" for i in range(LAYERS)}


def test_exports_lie_where_they_were_asked_for(profiled: tuple[Path, Envelope]) -> None:
    folder, envelope = profiled
    assert set(result_of(envelope).exports) == {"chrome", "nodes-csv"}
    assert json.loads((folder / "out.json").read_text())
    assert len((folder / "nodes.nodes.csv").read_text().splitlines()) == 1 + len(result_of(envelope).nodes)


def test_a_kept_trace_tells_the_same_without_the_model(profiled: tuple[Path, Envelope]) -> None:
    folder, envelope = profiled
    before = result_of(envelope)
    result = result_of(ortune.profile(folder / "kept.json", store=folder / "store"))
    assert sum(c.ns for c in result.categories) == pytest.approx(result.wall_ns)
    assert {o.op_type for o in result.operators} == {o.op_type for o in before.operators}
    # Nothing is known of what is around ONNX Runtime's own run.
    assert {c.name: c.ns for c in result.categories}["outside-run"] == 0
    assert result.side is None and result.slowdown_ratio is None


def counted_ns(process: Process, names: tuple[str, ...]) -> np.ndarray:
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
    sides: dict[str, list[Process]] = {}

    def kept(
        baseline: Baseline, replay: Replay, turn: int, arms: Sequence[Arm], runs: int, keep: Sequence[Path]
    ) -> list[Process]:
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
    (least_a, least_b) = (
        min(runs.min() for runs in a),
        min(counted_ns(p, tuple(conv)).min() for p in sides["dear.onnx"]),
    )
    assert least_b / least_a == pytest.approx(3.0, rel=0.15)
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
            store=tmp_path / "store",
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


def test_what_is_no_pair_is_refused(tmp_path: Path, profiled: tuple[Path, Envelope]) -> None:
    trace, model, plan = profiled[0] / "kept.json", conv_chain(tmp_path / "m.onnx"), tmp_path / "plan.json"
    plan.write_text('{"settings": {}}')
    for a, b, kind in ((trace, model, "model"), (model, trace, "model"), (trace, plan, "plan")):
        with pytest.raises(UsageError, match=f"a trace and a {kind} cannot be compared"):
            ortune.profile(a, against=b)
    with pytest.raises(UsageError, match="a plan needs a model") as refused:
        ortune.profile(plan, against=model)
    assert f"--against {plan}" in refused.value.do
    plan.write_text('{"setings": {}}')
    with pytest.raises(UsageError, match="no field 'setings'"):
        ortune.profile(model, against=plan)


@pytest.mark.parametrize(
    ("head", "said"),
    [
        (b"\x1f\x8b\x08rest", "is compressed"),
        (b"PK\x03\x04rest", "is compressed"),
        ("[]".encode("utf-16"), "is UTF-16"),
        (b"\xef\xbb\xbf[]", "holds no trace event"),
        (b"see [profiling] kernel nothing", "is no trace|no kernel|holds no"),
    ],
)
def test_a_trace_that_must_be_made_readable_says_how(tmp_path: Path, head: bytes, said: str) -> None:
    path = tmp_path / "profile"  # told by what is in it
    path.write_bytes(head)
    with pytest.raises(UsageError, match=said):
        ortune.profile(path, store=tmp_path / "store")


def test_options_that_say_nothing_about_a_trace_are_refused(
    profiled: tuple[Path, Envelope], tmp_path: Path
) -> None:
    trace, plan = profiled[0] / "kept.json", tmp_path / "p.json"
    plan.write_text("{}")
    given: list[dict[str, Any]] = [
        {"set": ["intra=1"], "plan": plan, "processes": 3}, {"b_set": ["intra=1"]}, {"target": "cuda"},
        {"runtime": "python3"}, {"dim": ["n=3"]}, {"shape": ["x:1x3"]}, {"inputs": "f.npz"}, {"seed": 7},
        {"budget": "1m"},
    ]  # fmt: skip
    for options in given:
        with pytest.raises(UsageError, match="no effect on a recorded trace") as refused:
            ortune.profile(trace, **options)
        for name in options:
            assert f"--{name.replace('_', '-')}" in refused.value.what


def test_two_traces(profiled: tuple[Path, Envelope], tmp_path: Path) -> None:
    folder, before = profiled[0], result_of(profiled[1])
    slow = json.loads((folder / "kept.json").read_text())
    (tmp_path / "slow.json").write_text(json.dumps(slow))
    result = result_of(
        ortune.profile(folder / "kept.json", against=tmp_path / "slow.json", store=tmp_path / "store")
    )
    assert result.against is not None
    # Neither says what its nodes stand for: equal names meet, and that is told.
    assert result.against.by_name == len(before.nodes) and result.against.by_order == 0
    assert result.against.only_a == result.against.only_b == ()
    assert "by name" in dict(difference_words.notes(result.against))["matched"]
    assert result.against.a_wall_ns == result.against.b_wall_ns
    assert (
        result.against.sentence.startswith(("equivalent (within 2 %): ", "inconclusive: "))
        and result.against.nodes == ()
    )
    assert result.against.low_ns is not None and result.against.low_ns < 0  # over the runs of either
    assert "over its runs" in dict(difference_words.notes(result.against))["profiled"]


def test_a_parallel_run_sums_up_too(tmp_path: Path) -> None:
    options = ort.SessionOptions()
    options.enable_profiling = True
    options.execution_mode = ort.ExecutionMode.ORT_PARALLEL
    options.profile_file_prefix = str(tmp_path / "parallel")
    session = ort.InferenceSession(
        conv_chain(tmp_path / "m.onnx"), options, providers=["CPUExecutionProvider"]
    )
    for _ in range(12):
        session.run(None, {"x0": np.ones((1, CHANNELS, SIZE, SIZE), np.float32)})
    result = result_of(ortune.profile(session.end_profiling(), store=tmp_path / "store"))
    assert sum(c.ns for c in result.categories) == pytest.approx(result.wall_ns)
    assert result.n_runs >= 6


@pytest.mark.usefixtures("few_runs")
def test_weights_among_the_inputs_are_told_as_the_cause_with_the_command(tmp_path: Path) -> None:
    model = onnx.load(conv_chain(tmp_path / "old.onnx"))
    for weight in model.graph.initializer:
        model.graph.input.append(
            helper.make_tensor_value_info(weight.name, weight.data_type, list(weight.dims))
        )
    onnx.save(model, tmp_path / "old.onnx")
    found = ortune.profile(
        tmp_path / "old.onnx", set=["intra=1"], no_peak=True, store=tmp_path / "store"
    )  # fmt: skip
    cause = result_of(found).stands_out[0]
    assert cause.code == "GRA002" and (cause.share_ratio or 0) > 0.5
    assert "graph inputs" in cause.what and "% of the run" in cause.evidence
    command = f"ortune compare {tmp_path}/old.onnx --set intra=1 --b-rewrite initializers-out-of-inputs"
    assert cause.fix == command
    lines = found.summary().splitlines()
    assert command in lines[lines.index("next:") :]
    assert any("GRA002" in line for line in lines[:12])


@pytest.mark.usefixtures("few_runs")
def test_a_run_in_a_container_is_profiled_there_and_said_to_be(tmp_path: Path) -> None:
    model = conv_chain(tmp_path / "m.onnx")
    result = ortune.profile(model, cpus=1, memory="2Gi", no_peak=True, store=tmp_path / "store").result
    assert result.notes[0].startswith("in an emulated container: 1 CPU by ")
    assert result.variance is not None
