"""Reading ONNX Runtime's profile: files that it wrote, and small ones by hand whose sums are known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from ort_events import HOSTILE, event, nested_model, node, profile, run

from ortune.engines.profiling.nodes import NodeOrigins, profiled_nodes
from ortune.trace.attribution import attribute
from ortune.trace.naming import stable_names
from ortune.trace.operators import by_node, by_operator, kept_runs, run_time_ns
from ortune.trace.ort_profile import read_profile
from ortune.trace.table import NO_PARENT, NO_RUN

RUNS = 3


@pytest.fixture(scope="module", params=["sequential", "parallel"])
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A profile of three runs, in both execution modes."""
    options = ort.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(tmp_path_factory.mktemp("profile") / request.param)
    if request.param == "parallel":
        options.execution_mode = ort.ExecutionMode.ORT_PARALLEL
        options.inter_op_num_threads = 2
    session = ort.InferenceSession(nested_model(), options, providers=["CPUExecutionProvider"])
    for _ in range(RUNS):
        session.run(None, {"x": np.ones((16, 16), np.float32)})
    return Path(session.end_profiling())


def test_runs_are_told_apart_and_bodies_belong_to_their_nodes(written: Path) -> None:
    trace = read_profile(written)
    assert (trace.complete, trace.n_unreadable, trace.n_runs) == (True, 0, RUNS)
    once = ["go on", "product"] * 3 + ["loop", "if", "greater", "sum", HOSTILE]
    for number in range(RUNS):
        rows = np.flatnonzero(trace.run == number)
        assert sorted(trace.name[row] for row in rows) == sorted(once)
        # No node of a run is counted within another: the parts are no more than the whole.
        assert trace.self_ns[rows].sum() <= trace.run_ns[number]
    inside = {"product": "loop", "go on": "loop", "loop": "if"}
    for name, parent in zip(trace.name, trace.parent, strict=True):
        assert (trace.name[parent] if parent != NO_PARENT else None) == inside.get(name)


def test_the_time_of_a_loop_is_not_counted_twice(written: Path) -> None:
    trace = read_profile(written)
    for row, op in enumerate(trace.op_type):
        children = np.flatnonzero(trace.parent == row)
        assert trace.self_ns[row] == max(0, trace.duration_ns[row] - trace.duration_ns[children].sum())
        assert (len(children) > 0) == (op in ("If", "Loop"))
    assert sum(o.share_ratio for o in by_operator(trace)) == pytest.approx(1.0)
    counts = {o.op_type: o.n_nodes for o in by_operator(trace)}
    assert counts == {"MatMul": 1, "Identity": 1, "Loop": 1, "If": 1, "Greater": 1, "ReduceSum": 1, "Sin": 1}


@pytest.mark.parametrize("share", [0.3, 0.5, 0.8, 0.99])
def test_a_file_that_was_cut_off_is_read_as_far_as_it_goes(
    written: Path, tmp_path: Path, share: float
) -> None:
    data, whole = written.read_bytes(), read_profile(written)
    cut = tmp_path / "cut.json"
    cut.write_bytes(data[: int(share * len(data))])
    trace = read_profile(cut)
    assert not trace.complete
    assert trace.n_unreadable == 0
    assert 0 < len(trace) <= len(whole)
    assert list(trace.name) == list(whole.name)[: len(trace)]
    assert trace.n_runs == cut.read_bytes().count(b'"model_run","args" : {}}')
    assert trace.n_runs < RUNS or share > 0.9


def test_sums_are_those_of_the_typical_run_after_warm_up(tmp_path: Path) -> None:
    runs = [
        (0, 900),
        (1000, 30),
        (2000, 10),
        (3000, 20),
    ]  # start and the Conv's microseconds; the first warms up
    events = []
    for start, took in runs:
        events += [node("c", "Conv", start + 1, took), node("r", "Relu", start + 1 + took, 5)]
        events.append(run(start, took + 10))
    trace = read_profile(profile(tmp_path / "p.json", *events))
    conv, relu = by_operator(trace, 1)
    assert (conv.op_type, conv.time_ns, conv.n_nodes) == ("Conv", 20_000, 1)
    assert (relu.op_type, relu.time_ns) == ("Relu", 5_000)
    assert (conv.share_ratio, relu.share_ratio) == (0.8, 0.2)
    assert by_node(trace, 1)[0].name == "c"
    assert run_time_ns(trace, 1) == 30_000
    # Where no run is left, all but the first count: the middle one of 30, 10 and 20.
    assert by_operator(trace, 9)[0].time_ns == 20_000
    assert kept_runs(trace, 9) == range(1, 4)


def test_nodes_add_up_to_their_operators_whatever_was_slowed_down_when(tmp_path: Path) -> None:
    # Now one LSTM is slowed down and now the other: the median of each is 10 us, that of both is 40.
    events = []
    for at, (first, second) in enumerate([(10, 30), (30, 10), (10, 30), (10, 30), (30, 10)]):
        start = 1000 * at
        events += [
            node("conv", "Conv", start + 1, 40),
            node("lstm", "LSTM", start + 50, first),
            node("lstm_1", "LSTM", start + 90, second),
            run(start, 130),
        ]
    trace = read_profile(profile(tmp_path / "p.json", *events))
    operators = {row.op_type: row for row in by_operator(trace)}
    nodes = {row.name: row for row in by_node(trace)}
    assert operators["LSTM"].time_ns == pytest.approx(nodes["lstm"].time_ns + nodes["lstm_1"].time_ns)
    assert nodes["conv"].share_ratio == pytest.approx(operators["Conv"].share_ratio) == 0.5


def test_nodes_of_one_name_are_told_apart_by_operator_and_provider(tmp_path: Path) -> None:
    elsewhere = node("n", "Conv", 60, 3)
    elsewhere["args"]["provider"] = "CUDAExecutionProvider"
    events = [
        node("n", "Conv", 10, 20),
        node("n", "Cast", 40, 5),
        elsewhere,
        node("n", "Conv", 70, 20),
        run(0, 99),
    ]
    trace = read_profile(profile(tmp_path / "p.json", *events))
    cpu, cuda = "CPUExecutionProvider", "CUDAExecutionProvider"
    assert trace.name.texts == ("n", "n", "n") and list(trace.name) == ["n"] * 4
    assert trace.name.codes.tolist() == [0, 1, 2, 0]
    assert trace.nodes.op_type == ("Conv", "Cast", "Conv") and trace.nodes.provider == (cpu, cpu, cuda)
    found = attribute(trace, range(1))
    assert found.by_node[:, 0].tolist() == [40_000, 5_000, 3_000]
    assert {c.name: c.ns for c in found.categories()}["casts-and-layout"] == 5_000
    nodes = profiled_nodes(trace, found, NodeOrigins(work={"n": (1.0, 1.0)}))
    assert [(n.op_type, n.provider, n.time_ns) for n in nodes] == [
        ("Conv", cpu, 40_000),
        ("Cast", cpu, 5_000),
        ("Conv", cuda, 3_000),
    ]
    # Which of them the model's figures are of is not known.
    assert all(n.flops is None for n in nodes)
    assert len(set(stable_names([trace, trace])[0])) == 3


def nameless(op: str, number: int, start: float, took: float, shape: list[int]) -> dict[str, Any]:
    """One execution of a node without a name, the numbered one of its graph."""
    event = node("", op, start, took)
    sides = [{"float": shape}]
    event["args"] |= {"node_index": str(number), "input_type_shape": sides, "output_type_shape": sides}
    return event


def test_nodes_without_a_name_in_bodies_have_a_row_for_each_node_around_them(tmp_path: Path) -> None:
    """Two Ifs, a Loop with an If in it, each with nameless nodes that have the number of one of the main graph too."""
    events = []
    for start in (0, 1000):
        events += [
            nameless("MatMul", 0, start + 1, 9, [1]),
            nameless("MatMul", 0, start + 11, 20, [2]),
            nameless("If", 1, start + 10, 30, []),
            nameless("MatMul", 0, start + 51, 40, [3]),
            node("other", "If", start + 50, 45),
        ]
        for turn in (100, 200):
            events += [
                nameless("MatMul", 0, start + turn + 1, 30, [4, turn]),
                nameless("If", 0, start + turn, 35, []),
                nameless("MatMul", 0, start + turn + 40, 5, [5]),
            ]
        # The last node of the body begins when its Loop seems to have ended.
        events += [nameless("Add", 9, start + 260, 0, [6]), nameless("Loop", 2, start + 99, 161, [])]
        events += [run(start, 900)]
    trace = read_profile(profile(tmp_path / "p.json", *events))
    assert trace.n_runs == 2 and not trace.lost.any()
    times = {row.name: row.time_ns for row in by_node(trace) if row.op_type in ("MatMul", "Add")}
    assert times == {
        "MatMul_0": 9_000,
        "If_1/MatMul_0": 20_000,
        "other/MatMul_0": 40_000,
        "Loop_2/If_0/MatMul_0": 60_000,
        "Loop_2/MatMul_0": 10_000,
        "Loop_2/Add_9": 0,
    }
    numbers = {name: number for number, name in enumerate(trace.name.texts)}
    nodes = trace.nodes
    inputs = {name: json.loads(nodes.inputs[numbers[name]])[0]["float"] for name in times}
    assert inputs == {
        "MatMul_0": [1], "If_1/MatMul_0": [2], "other/MatMul_0": [3], "Loop_2/If_0/MatMul_0": [4, 100],
        "Loop_2/MatMul_0": [5], "Loop_2/Add_9": [6],
    }  # fmt: skip
    often = {name: list(nodes.executions[numbers[name]].values()) for name in times}
    assert often == {name: [2] for name in times} | {"Loop_2/If_0/MatMul_0": [2, 2], "Loop_2/MatMul_0": [4]}
    assert nodes.index[numbers["Loop_2/Add_9"]] == 9
    texts = [trace.name.texts[code] for code in trace.name.codes.tolist()]
    assert list(dict.fromkeys(texts)) == list(trace.name.texts), "in order of their first rows"


@pytest.mark.parametrize("deep", [3, 40])
def test_bodies_without_end_and_long_names_cost_little(tmp_path: Path, deep: int) -> None:
    name = "n" * 100_000
    events = [nameless("Loop", 0, depth, 2000 - 2 * depth, []) for depth in range(deep)]
    events[1] = node(name, "Loop", 1, 1998)
    events += [nameless("Add", number, 500 + number, 1, [1]) for number in range(300)]
    trace = read_profile(profile(tmp_path / "p.json", *events, run(0, 3000)))
    assert len(trace.name.texts) == len(set(trace.name.codes.tolist())) <= deep + 300
    assert sum(map(len, trace.name.texts)) < 1_000_000


def test_a_loop_within_a_loop(tmp_path: Path) -> None:
    trace = read_profile(
        profile(
            tmp_path / "p.json",
            node("before", "Relu", 5, 5),
            node("deep", "Add", 30, 10),
            node("inner", "Loop", 20, 25),
            node("deep", "Add", 55, 10),
            node("inner", "Loop", 50, 20),
            node("outer", "Scan", 10, 70),
            node("after", "Relu", 80, 4),
            run(0, 100),
        )
    )
    assert dict(zip(trace.name, trace.self_ns.tolist(), strict=True))["outer"] == 1000 * (70 - 25 - 20)
    times = {o.op_type: o.time_ns for o in by_operator(trace)}
    assert times == {"Relu": 9_000, "Add": 20_000, "Loop": 25_000, "Scan": 25_000}


def test_callers_at_the_same_time_are_told_apart_by_their_thread(tmp_path: Path) -> None:
    trace = read_profile(
        profile(
            tmp_path / "p.json",
            node("a", "Add", 10, 10, thread=1),
            node("a", "Add", 12, 30, thread=2),
            node("pool", "Mul", 15, 5, thread=7),
            run(5, 20, thread=1),
            run(8, 40, thread=2),
            node("alone", "Mul", 105, 5, thread=7),
            run(100, 20, thread=1),
        )
    )
    # On a pool's thread during two runs it cannot be told whose node it is.
    assert trace.run.tolist() == [0, 1, NO_RUN, 2]


@pytest.mark.parametrize("form", ["1.13", "1.14", "plugin", "bare"])
def test_kernels_of_a_gpu_belong_to_their_nodes(tmp_path: Path, form: str) -> None:
    def kernel(name: str, start: int, op: str = "", parent: str = "") -> dict[str, Any]:
        found = event(name, start, 3, cat="Kernel", thread=-1)
        if form != "bare":
            found["args"] = {"stream": "7", "grid_x": "1", "block_x": "128"}
        if form in ("1.13", "1.14") and op:
            found["args"]["op_name"] = op
        if form == "1.14" and parent:
            found["args"]["parent_name"] = f"{parent}_kernel_time"
        return found

    first, second = kernel("im2col", 500, "Conv", "a"), kernel("gemm", 503, "Conv", "a")
    third, lost = kernel("add", 506, "Add", "b"), kernel("MemcpyDeviceToHost", 509)
    a, b, whole = node("a", "Conv", 10, 20), node("b", "Add", 31, 5), run(5, 40)
    events = [a, first, second, b, third, whole, lost]
    if form == "plugin":
        events = [a, b, whole, first, second, third, lost]
    trace = read_profile(profile(tmp_path / "p.json", *events))
    assert list(trace.kernels.name) == ["im2col", "gemm", "add", "MemcpyDeviceToHost"]
    told = [0, 0, 1, NO_PARENT]
    assert trace.kernels.row.tolist() == (told if form != "plugin" else [NO_PARENT] * 4)
    assert trace.kernels.start_ns.tolist() == [500_000, 503_000, 506_000, 509_000]
    assert trace.self_ns.tolist() == [20_000, 5_000]
    n = 4 if form == "plugin" else 1
    assert [text for text in trace.missing if f" {n} of 4 kernels " in text]


def test_calls_of_the_host_to_a_device_are_no_kernels(tmp_path: Path) -> None:
    program = event("a&Conv&Conv2dMM", 500, 3, cat="Api", thread=-1)
    calls = [
        event("hipLaunchKernel", 12, 3, cat="Api", thread=7),
        event("f(T const&, T&&)", 16, 3, cat="Api", thread=7),
        event("QnnGraph_execute", 19, 3, cat="Api", thread=-1),
    ]
    trace = read_profile(profile(tmp_path / "p.json", node("a", "Conv", 10, 20), *calls, run(5, 40), program))
    assert list(trace.kernels.name) == ["Conv2dMM"] and trace.kernels.row.tolist() == [0]
    assert [text for text in trace.missing if "3 host calls" in text]


def test_kernels_that_were_matched_to_no_node_are_not_the_one_before(tmp_path: Path) -> None:
    stray = event("gemm", 500, 3, cat="Kernel", thread=-1)
    stray["args"] = {"stream": "7", "op_name": "MatMul", "parent_name": "m_kernel_time"}
    trace = read_profile(profile(tmp_path / "p.json", node("a", "Conv", 10, 20), stray, run(5, 40)))
    assert trace.kernels.row.tolist() == [NO_PARENT]


def test_a_body_that_seems_to_outlast_its_loop(tmp_path: Path) -> None:
    # 0.9 to 11.85 us and, inside, 1.0 to 11.5: whole microseconds make the loop end first.
    events = node("x", "Add", 1, 10), node("loop", "Loop", 0, 10), node("next", "Add", 12, 1), run(0, 20)
    trace = read_profile(profile(tmp_path / "p.json", *events))
    assert trace.parent.tolist() == [1, NO_PARENT, NO_PARENT] and trace.self_ns[1] == 0
