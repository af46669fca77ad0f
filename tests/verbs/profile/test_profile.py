"""``ortune profile`` with real ONNX Runtime: sums, origins, differences, and traces of others."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import helper
from profiled_chain import CHANNELS, LAYERS, SIZE, conv_chain, result_of

import ortune
from facts import facts
from onnx_text import model_of, saved
from ortune.errors import UsageError
from ortune.records import Envelope
from ortune.show import difference_words


@pytest.fixture(scope="module")
def profiled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Envelope]:
    folder = tmp_path_factory.mktemp("profiled")
    envelope = ortune.profile(
        conv_chain(folder / "chain.onnx"), set=["intra=1"], no_peak=True, keep=folder / "kept.json",
        export=[f"chrome={folder / 'out.json'}", str(folder / "nodes.nodes.csv")], store=folder / "store",
    )  # fmt: skip
    return folder, envelope


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
    assert moved.keys() == {"ReorderInput", "ReorderOutput"}
    facts(moved["ReorderInput"], "into", "conv0")
    facts(moved["ReorderOutput"], "out of", f"relu{LAYERS - 1}")
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
            assert name in refused.value.what


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
def test_what_comes_next_has_the_inputs_of_the_user(tmp_path: Path) -> None:
    model = saved(tmp_path / "m.onnx", model_of("g (float[n,4] x) => (float[n,4] y) { y = Softmax (x) }"))
    found = ortune.profile(model, dim={"n": 3}, no_peak=True, store=tmp_path / "store")
    lines = found.summary().splitlines()
    assert f"ortune tune {model} --shape x:3x4" in lines[lines.index("next:") :]


@pytest.mark.usefixtures("few_runs")
def test_a_run_in_a_container_is_profiled_there_and_said_to_be(tmp_path: Path) -> None:
    model = conv_chain(tmp_path / "m.onnx")
    result = ortune.profile(model, cpus=1, memory="2Gi", no_peak=True, store=tmp_path / "store").result
    facts(result.notes[0], "container", "1 CPU by ")
    assert result.variance is not None


@pytest.mark.usefixtures("few_runs")
def test_a_finding_has_the_share_of_the_run_that_was_measured(tmp_path: Path) -> None:
    """Not that of its operations, which say little of a transform of an odd length."""
    model = model_of("""g (float[2,1000,1] x, float[64,64] z) => (float[2,f,b,2] y, float[64,64] m)
        <int64 step = {10}, int64 length = {100}>
        { [spectrum] s = STFT (x, step, , length) [steps] y = Identity (s) [product] m = MatMul (z, z) }
    """)
    path = saved(tmp_path / "m.onnx", model)
    run = result_of(ortune.profile(path, set=["intra=1"], no_peak=True, store=tmp_path / "store"))
    (finding,) = (f for f in run.stands_out if f.code == "GRA025")
    (node,) = (n for n in run.nodes if n.op_type == "STFT")
    assert finding.share_from == "profile"
    # Of the run without interference, where a neighbour took a tenth of the mean one.
    alone = run.undisturbed
    share = node.time_ns / run.wall_ns if alone is None else (node.fast_ns or 0) / alone.wall_ns
    assert finding.share_ratio == pytest.approx(share)
