"""Dividing runs: the parts add up to the whole, whatever the trace looks like."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ortune.records import ProfiledNode
from ortune.trace import attribution
from ortune.trace.attribution import NAMES, attribute, countable
from ortune.trace.categories import category
from ortune.trace.layers import MOST, layer_of, layers
from ortune.trace.ort_profile import read_profile
from ortune.trace.steady import drifts, warmup_runs
from ortune.trace.table import NO_RUN, as_one_run
from ortune.trace.variance import variance
from trace_files import node, profile, run


def divided(path: Path, *events: dict[str, Any], wall_us: list[float] | None = None) -> dict[str, float]:
    """Microseconds of the mean run by category."""
    trace = read_profile(profile(path / "p.json", *events))
    wall = None if wall_us is None else 1000 * np.array(wall_us)
    found = attribute(trace, range(trace.n_runs), wall)
    assert np.allclose(found.by_category.sum(axis=0), found.wall_ns)
    return {c.name: c.ns / 1000 for c in found.categories() if abs(c.ns) > 1e-6}


def test_each_nanosecond_has_one_owner(tmp_path: Path) -> None:
    events = [
        node("c", "Conv", 10, 40, wait=15),
        node("t", "Transpose", 52, 8),
        node("s", "Shape", 60, 2),
        node("u", "Concat", 62, 3, input_type_shape=[{"int64": [1]}], output_type_shape=[{"int64": [2]}]),
        node("m", "MemcpyToHost", 66, 4),
        run(5, 70),
    ]
    assert divided(tmp_path, *events, wall_us=[75]) == pytest.approx(
        {
            "kernels": 25,
            "thread-wait": 15,
            "casts-and-layout": 8,
            "shape-arithmetic": 5,
            "device-copies": 4,
            "between-nodes": 13,
            "outside-run": 5,
        }
    )


def test_bodies_are_counted_once_and_their_waiting_is_theirs(tmp_path: Path) -> None:
    events = [node("a", "MatMul", 10, 20, wait=5), node("l", "Loop", 5, 40, wait=30), run(0, 50)]
    assert divided(tmp_path, *events) == pytest.approx(
        {"kernels": 15, "thread-wait": 5, "control-flow": 20, "between-nodes": 10}
    )


def test_nodes_at_the_same_time_share_it(tmp_path: Path) -> None:
    events = [
        node("a", "Conv", 0, 30, thread=1),
        node("b", "Cast", 10, 20, thread=2),
        node("c", "Conv", 30, 10, thread=2),
        run(0, 50, thread=1),
    ]
    # a alone for 10, then both for 20, then c for 10, then nothing for 10.
    assert divided(tmp_path, *events) == pytest.approx(
        {"kernels": 30, "casts-and-layout": 10, "between-nodes": 10}
    )


def test_a_loop_beside_another_node_runs_only_while_its_body_does_not(tmp_path: Path) -> None:
    events = [
        node("body", "MatMul", 10, 20, thread=1),
        node("loop", "Loop", 0, 40, thread=1),
        node("other", "Cast", 0, 40, thread=2),
        run(0, 40, thread=1),
    ]
    assert divided(tmp_path, *events) == pytest.approx(
        {"kernels": 10, "control-flow": 10, "casts-and-layout": 20}
    )


def test_a_gap_far_beyond_what_is_usual_at_its_place_is_unexplained(tmp_path: Path) -> None:
    events = []
    for number in range(9):
        start = 2000 * number
        late = 500 if number == 4 else 0
        events += [node("a", "Relu", start, 10), node("b", "Relu", start + 12 + late, 10)]
        events.append(run(start, 22 + late))
    trace = read_profile(profile(tmp_path / "p.json", *events))
    found = attribute(trace, range(9))
    strange = found.by_category[NAMES.index("unexplained")]
    assert strange[4] == pytest.approx(502_000 - (5 * 2_000 + 20_000))
    assert not strange[:4].any() and not strange[5:].any()


@pytest.mark.parametrize("where", ["begin", "end"])
def test_what_a_run_loses_before_its_first_node_or_after_its_last_is_unexplained(
    tmp_path: Path, where: str
) -> None:
    events = []
    for number in range(9):
        start, late = 2000 * number, 500 if number == 4 else 0
        before, after = (late, 0) if where == "begin" else (0, late)
        events += [node("a", "Relu", start + 2 + before, 10), node("b", "Relu", start + 14 + before, 10)]
        events.append(run(start, 26 + before + after))
    trace = read_profile(profile(tmp_path / "p.json", *events))
    found = attribute(trace, range(9))
    strange = found.by_category[NAMES.index("unexplained")]
    assert strange[4] == pytest.approx(502_000 - (5 * 2_000 + 20_000))
    assert not strange[:4].any() and not strange[5:].any()


def test_the_end_of_a_run_on_a_device_waits_for_it(tmp_path: Path) -> None:
    events = []
    for number in range(9):
        start, late = 2000 * number, 900 if number == 4 else 0
        events += [
            node("a", "Relu", start + 2, 10, provider="CUDAExecutionProvider"),
            run(start, 30 + late),
        ]
    trace = read_profile(profile(tmp_path / "p.json", *events))
    assert not attribute(trace, range(9)).by_category[NAMES.index("unexplained")].any()


def test_in_a_single_run_a_gap_is_held_against_the_others(tmp_path: Path) -> None:
    nodes = [node(f"n{i}", "Relu", 12 * i + (50_000 if i > 6 else 0), 10) for i in range(12)]
    parts = divided(tmp_path, *nodes, run(0, 50_142))
    assert parts["unexplained"] == pytest.approx(50_002 - (5 * 2 + 20))
    # Of two nodes nobody knows what is usual.
    assert "unexplained" not in divided(tmp_path, nodes[6], nodes[7], run(72, 50_022))


def test_a_gap_is_none_while_an_earlier_node_still_runs(tmp_path: Path) -> None:
    events = []
    for number in range(9):
        start = 2000 * number
        later = 900 if number == 4 else 12
        events += [node("long", "Conv", start, 1000, thread=1), node("a", "Relu", start, 10, thread=2)]
        events += [node("b", "Relu", start + later, 10, thread=2), run(start, 1010, thread=1)]
    trace = read_profile(profile(tmp_path / "p.json", *events))
    assert not attribute(trace, range(9)).by_category[NAMES.index("unexplained")].any()


def test_what_a_device_still_does_when_its_nodes_are_done_is_a_category_of_its_own(tmp_path: Path) -> None:
    def events(provider: str) -> list[dict[str, Any]]:
        executor = {**run(110, 60), "name": "SequentialExecutor::Execute"}
        return [node("c", "Conv", 115, 20, provider=provider), executor, run(100, 500)]

    assert divided(tmp_path, *events("WebGpuExecutionProvider")) == pytest.approx(
        {"kernels": 20, "device-wait": 440, "between-nodes": 40}
    )
    # On the CPU nothing goes on: what is around the executor is ONNX Runtime's own.
    assert divided(tmp_path, *events("CPUExecutionProvider")) == pytest.approx(
        {"kernels": 20, "between-nodes": 480}
    )
    without = [event for event in events("WebGpuExecutionProvider") if "Executor" not in event["name"]]
    assert divided(tmp_path, *without) == pytest.approx({"kernels": 20, "between-nodes": 480})


def test_a_trace_without_a_whole_run_is_told_as_one(tmp_path: Path) -> None:
    trace = read_profile(
        profile(tmp_path / "p.json", node("a", "Conv", 10, 20), node("b", "Cast", 35, 5), run(0, 0))
    )
    assert as_one_run(trace) is trace
    cut = read_profile(profile(tmp_path / "q.json", node("a", "Conv", 10, 20), node("b", "Cast", 35, 5)))
    assert cut.n_runs == 0 and (cut.run == NO_RUN).all()
    one = as_one_run(cut)
    found = {c.name: c.ns / 1000 for c in attribute(one, range(1)).categories() if c.ns}
    assert found == {"kernels": 20, "casts-and-layout": 5, "between-nodes": 5}
    assert any("one run" in text for text in one.missing)


def test_runs_are_left_out_only_where_a_trace_is_strange(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attribution, "MOST_CELLS", 10_000)
    usual = read_profile(profile(tmp_path / "p.json", node("a", "Conv", 1, 2), run(0, 5), run(10, 5)))
    assert countable(usual, 0) == range(2) and countable(usual, 1) == range(1, 2)
    # Names by the thousand that ran once, and runs by the thousand.
    many = 300
    events = [*(node(f"n{i}", "Conv", i, 1) for i in range(many)), *(run(i, 1) for i in range(many))]
    strange = read_profile(profile(tmp_path / "q.json", *events))
    runs = countable(strange, 0)
    assert runs.stop == many and len(runs) == 10_000 // many
    found = attribute(strange, runs)
    assert np.allclose(found.by_category.sum(axis=0), found.wall_ns)


def test_thousands_at_the_same_time_are_divided_at_once(tmp_path: Path) -> None:
    n = 20_000
    events = [node(f"n{i % 50}", "Conv", i, n, thread=i) for i in range(n)]
    parts = divided(tmp_path, *events, run(0, 2 * n, thread=-1))
    assert parts == pytest.approx({"kernels": 2 * n - 1, "between-nodes": 1}, rel=1e-6)


@pytest.mark.parametrize(
    ("op", "inputs", "outputs", "expected"),
    [
        ("Conv", "", "", "kernels"),
        ("Gather", '[{"int64":[4]},{"int64":[]}]', '[{"int64":[]}]', "shape-arithmetic"),
        ("Gather", '[{"float":[9,9]},{"int64":[1]}]', '[{"float":[1,9]}]', "kernels"),
        ("Gather", '[{"int64":[9000]},{"int64":[1]}]', '[{"int64":[1]}]', "kernels"),
        ("Cast", '[{"float":[1]}]', '[{"int64":[1]}]', "casts-and-layout"),
        ("Cast", '[{"int32":[1]}]', '[{"int64":[1]}]', "shape-arithmetic"),
        ("ConstantOfShape", '[{"int64":[2]}]', '[{"float":[8,8]}]', "kernels"),
        ("Add", "not json", "[{", "kernels"),
        ("Add", '[{"int64":["x"]}]', '[{"int64":[-1]}]', "kernels"),
        ("If", "", "", "control-flow"),
        ("MemcpyFromHost", "", "", "device-copies"),
    ],
)
def test_categories(op: str, inputs: str, outputs: str, expected: str) -> None:
    assert category(op, inputs, outputs) == expected


def test_a_label_that_is_cast_is_no_shape_where_no_node_tells_one(tmp_path: Path) -> None:
    label = [{"int64": [1]}]
    cast = node("label", "Cast", 10, 5, input_type_shape=label, output_type_shape=label)
    shape = node("size", "Shape", 20, 1)
    assert "shape-arithmetic" not in divided(tmp_path, cast, run(0, 30))
    assert divided(tmp_path, cast, shape, run(0, 30))["shape-arithmetic"] == 6


def test_warm_up_is_told_from_steady_runs() -> None:
    rng = np.random.default_rng(1)
    steady = 10 * np.exp(0.01 * rng.standard_normal(60))
    assert warmup_runs(steady) == 0
    assert warmup_runs(np.concatenate([[90, 30, 14, 12], steady])) == 4
    late = steady.copy()
    late[30] = 50  # an interruption is no warm-up
    assert warmup_runs(late) == 0
    assert warmup_runs([5.0]) == 0
    assert warmup_runs([50.0, 5.0]) == 1
    # A machine that becomes faster all the time has no steady part before its second half.
    assert warmup_runs(np.linspace(30, 10, 40)) <= 20


def test_drift_is_seen_and_noise_is_not() -> None:
    rng = np.random.default_rng(2)
    alike = np.array([bool(drifts(10 + rng.standard_normal(60))) for _ in range(400)])
    assert alike.mean() < 0.01
    assert drifts(10 + 0.1 * rng.standard_normal(60) + np.linspace(0, 2, 60)) == pytest.approx(0.13, abs=0.03)
    assert drifts([1.0, 2.0, 3.0]) == 0.0
    assert drifts(np.zeros(60)) == 0.0  # by a clock that is too coarse


def test_slow_runs_have_owners(tmp_path: Path) -> None:
    events = []
    for number in range(30):
        start, slow = 1000 * number, 300 if number % 10 == 7 else 0
        events += [node("steady", "Conv", start, 100), node("jumpy", "MatMul", start + 101, 50 + slow)]
        events.append(run(start, 153 + slow))
    trace = read_profile(profile(tmp_path / "p.json", *events))
    found = variance(trace, attribute(trace, range(30)), 0)
    assert found.extra_ns == pytest.approx(300_000)
    assert (found.owners[0].name, found.owners[0].op_type) == ("jumpy", "MatMul")
    assert found.owners[0].share_ratio == pytest.approx(1.0)
    # What is left out is not the test's answer alone, and all runs are on the same clock.
    around = trace.run_ns[4:] + 50_000.0
    later = variance(trace, attribute(trace, range(4, 30), around), 0)
    assert (later.warmup_runs, later.left_out_runs, later.runs_ns) == (0, 4, tuple(trace.run_ns.tolist()))
    assert found.left_out_runs == 0
    assert found.spread_ratio == pytest.approx(183 / 153)  # p90 lies a tenth of the way to the slow runs
    assert (found.slow_runs, found.usual_ns, found.less_ns) == (3, 153_000, 0)


def test_owners_are_shares_of_all_that_takes_longer(tmp_path: Path) -> None:
    events = []
    for number in range(20):
        start, slow = 1000 * number, number >= 18
        a, b, c = (160, 90, 60) if slow else (100, 60, 100)
        events += [node("a", "Conv", start, a), node("b", "MatMul", start + a, b)]
        events += [node("c", "Relu", start + a + b, c), run(start, a + b + c)]
    trace = read_profile(profile(tmp_path / "p.json", *events))
    found = variance(trace, attribute(trace, range(20)), 0)
    assert (found.extra_ns, found.less_ns) == pytest.approx((50_000, 40_000))
    assert {o.name: o.share_ratio for o in found.owners} == pytest.approx({"a": 2 / 3, "b": 1 / 3})
    few = variance(trace, attribute(trace, range(1, 20)), 0)
    assert few.spread_ratio and (few.slow_runs, few.owners) == (0, ())


def test_of_too_many_layers_the_deepest_and_cheapest_are_dropped() -> None:
    def placed(layer: str, ns: float) -> ProfiledNode:
        return ProfiledNode(name=layer, op_type="Add", layer=layer, time_ns=ns, share_ratio=0.0)

    nodes = [placed(f"big/part{i}/inner{j}", 100.0 + i) for i in range(150) for j in range(3)]
    nodes += [placed(f"top{i}", 1.0) for i in range(9)]
    found, dropped = layers(nodes)
    names = [one.layer for one in found]
    # 10 outermost, 150 below, 450 below these: the cheapest 200 of the last go.
    assert (len(found), dropped) == (10 + MOST, 600 - MOST)
    assert {*(f"top{i}" for i in range(9)), "big", *(f"big/part{i}" for i in range(150))} <= set(names)
    assert "big/part149/inner0" in names and "big/part0/inner0" not in names
    assert names.index("big") == 0 and names[-1] == "top8"
    assert layers(nodes[-9:])[1] == 0
    # One name with a slash in a model whose names hold no hierarchy.
    assert layers([placed("top0", 1.0), placed("", 99.0)]) == ((), 0)


def test_layers_are_what_names_have_in_common() -> None:
    assert layer_of(["/enc/layer.0/attn/MatMul", "/enc/layer.0/attn/Add"]) == "enc/layer.0/attn"
    assert layer_of(["/enc/layer.0/attn/MatMul", "/enc/layer.1/Add"]) == "enc"
    assert layer_of(["Conv_0"]) == ""
    assert layer_of([]) == ""
