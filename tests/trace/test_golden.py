"""Traces that each runtime really wrote, against answers counted from them by other means."""

from __future__ import annotations

import gzip
import json
from typing import Any

import numpy as np
import pytest

from damaged_traces import GOLDEN
from direct_count import answers
from ortune.trace.attribution import BESIDE_NODES, attribute
from ortune.trace.operators import by_operator
from ortune.trace.read import read_trace
from ortune.trace.table import ABSENT, NO_PARENT, NO_RUN, Trace

FILES = {
    path.name.removesuffix(".gz").rsplit(".", 1)[0]: path
    for path in sorted(GOLDEN.iterdir())
    if not path.name.endswith(".answers.json")
}
HOSTS = [name for name in FILES if not name.startswith("web-kernels")]
# Starts and ends are whole microseconds each: of a node at most so much is told wrong.
STEP_NS = 2_000


def content(name: str) -> bytes:
    data = FILES[name].read_bytes()
    return gzip.decompress(data) if FILES[name].suffix == ".gz" else data


def expected(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((GOLDEN / f"{name}.answers.json").read_text())
    return found


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Trace]:
    """All of them, read."""
    folder, found = tmp_path_factory.mktemp("golden"), {}
    for name in FILES:
        # A name that tells nothing: the content does.
        path = folder / name
        path.write_bytes(content(name))
        found[name] = read_trace(path)
    return found


def test_every_runtime_is_there() -> None:
    wanted = {
        "ort-1.10.0", "ort-1.15.1", "ort-1.18.1", "ort-1.24.4", "ort-1.31.1", "loop-1.15.1", "loop-1.31.1",
        "parallel-1.31.1", "callers-1.31.1", "truncated-1.31.1", "openvino-1.24.1", "qnn-2.7.0",
        "webgpu-plugin-0.4.0", "cuda-cupti-1.31.1", "web-wasm-1.30.0", "web-native-1.30.0", "web-jsep-1.30.0",
        "web-kernels-1.30.0",
    }  # fmt: skip
    assert set(FILES) == wanted
    assert all(path.stat().st_size <= 60_000 for path in GOLDEN.iterdir())


@pytest.mark.parametrize("name", FILES)
def test_the_answers_are_those_of_the_file(name: str) -> None:
    assert answers(content(name)) == expected(name)


@pytest.mark.parametrize("name", FILES)
def test_events_runs_and_threads(name: str, traces: dict[str, Trace]) -> None:
    trace, answer = traces[name], expected(name)
    assert (trace.n_events, trace.n_unreadable, trace.complete) == (answer["events"], 0, answer["complete"])
    assert any("truncated" in text for text in trace.missing) == (not answer["complete"])
    if name in HOSTS:
        assert trace.run_ns.tolist() == answer["runs_ns"]
        assert len(trace) == answer["nodes"]
        assert len(np.unique(trace.thread)) == answer["threads"]
        named = {*trace.session_ns, "SequentialExecutor::Execute", "ParallelExecutor::Execute", "model_run"}
        assert set(answer["session"]) <= named


@pytest.mark.parametrize("name", HOSTS)
def test_totals_by_operator(name: str, traces: dict[str, Trace]) -> None:
    trace = traces[name]
    found: dict[str, list[int]] = {}
    for row, (op, provider) in enumerate(zip(trace.op_type, trace.provider, strict=True)):
        total = found.setdefault(f"{op} {provider}", [0, 0, 0])
        for i, more in enumerate((1, trace.duration_ns[row], trace.self_ns[row])):
            total[i] += int(more)
    assert found == expected(name)["operators"]
    assert {f"{o.op_type} {o.provider}" for o in by_operator(trace)} == set(found)


@pytest.mark.parametrize("name", HOSTS)
def test_categories_sum_to_the_runs(name: str, traces: dict[str, Trace]) -> None:
    trace, answer = traces[name], expected(name)
    assert (trace.wait_ns.max() == ABSENT) == (answer["wait_ns"] is None)
    if answer["wait_ns"] is not None:
        assert trace.wait_ns[trace.wait_ns != ABSENT].sum() == answer["wait_ns"]
        assert trace.imbalance_ns[trace.imbalance_ns != ABSENT].sum() == answer["imbalance_ns"]
        assert trace.helpers[trace.helpers != ABSENT].sum() == answer["helpers"]
    found = attribute(trace, range(trace.n_runs))
    assert found.by_category.sum(axis=0) == pytest.approx(answer["runs_ns"])
    of = dict(zip((c.name for c in found.categories()), found.by_category, strict=True))
    outside = sum(of[kind] for kind in BESIDE_NODES)
    # Callers' runs share the processor, and each has its own nodes.
    if name != "callers-1.31.1":
        at_work = found.by_category.sum(axis=0) - outside
        assert at_work == pytest.approx(answer["busy_ns"], abs=STEP_NS * len(trace) / trace.n_runs)
    if (trace.run != NO_RUN).all() and answer["threads"] == 1:
        for kind, ns in answer["categories_ns"].items():
            waited = found.wait[[c == kind for c in found.category]].sum()
            assert of[kind].sum() + waited == pytest.approx(ns)


@pytest.mark.parametrize("name", ["loop-1.15.1", "loop-1.31.1", "truncated-1.31.1"])
def test_bodies_belong_to_their_nodes(name: str, traces: dict[str, Trace]) -> None:
    trace = traces[name]
    around = {"MatMul": "Loop", "Identity": "Loop", "Loop": "If"}
    inside = [(op, row) for row, op in enumerate(trace.op_type) if trace.parent[row] != NO_PARENT]
    assert inside and all(trace.op_type[trace.parent[row]] == around[op] for op, row in inside)
    if trace.complete:
        assert len(inside) == sum(op in around for op in trace.op_type)


def test_callers_at_the_same_time_keep_their_runs(traces: dict[str, Trace]) -> None:
    trace = traces["callers-1.31.1"]
    assert trace.n_runs == 6 and (trace.run != NO_RUN).all()
    nodes = [sorted(trace.name.codes[trace.run == run]) for run in range(6)]
    assert all(each == nodes[0] for each in nodes)


def test_old_versions_tell_less_and_say_so(traces: dict[str, Trace]) -> None:
    old, new = traces["ort-1.10.0"], traces["ort-1.31.1"]
    assert not any(old.nodes.inputs) and all(new.nodes.inputs)
    assert min(old.nodes.index) >= 0 and min(new.nodes.index) >= 0
    assert any("allocator" in text for text in old.missing) and not new.missing
    assert (new.held_bytes >= new.in_use_bytes).all() and new.in_use_bytes.min() > 0
    assert (old.output_bytes > 0).all()


@pytest.mark.parametrize(
    ("name", "provider"),
    [("openvino-1.24.1", "OpenVINOExecutionProvider"), ("qnn-2.7.0", "QNNExecutionProvider")],
)
def test_a_fused_subgraph_is_one_kernel(name: str, provider: str, traces: dict[str, Trace]) -> None:
    trace = traces[name]
    assert len(trace) == 3 and set(trace.provider) == {provider} and len(trace.name.texts) == 1
    kinds = {c.name: c.ns for c in attribute(trace, range(3)).categories()}
    assert kinds["kernels"] > 0.5 * trace.run_ns.mean()


@pytest.mark.parametrize("name", ["web-native-1.30.0", "web-jsep-1.30.0", "web-kernels-1.30.0"])
def test_gpu_kernels_belong_to_nodes(name: str, traces: dict[str, Trace]) -> None:
    trace, answer = traces[name], expected(name)
    kernels = trace.kernels
    assert len(kernels.row) == answer["device_kernels"]
    assert kernels.duration_ns.sum() == answer["device_ns"]
    assert (kernels.row != NO_PARENT).all()
    run = trace.run[kernels.row]
    # The first run lays out the weights too; the later ones are equal.
    each = [sorted(name for name, r in zip(kernels.name, run, strict=True) if r == i) for i in range(3)]
    assert each[1] == each[2] and len(each[0]) >= len(each[1]) > 0
    assert sum(map(len, each)) == len(run)


def test_kernels_alone_are_the_rows(traces: dict[str, Trace]) -> None:
    trace = traces["web-kernels-1.30.0"]
    assert (trace.format, trace.n_runs, trace.resolution_ns) == ("web-console", 3, 1)
    assert set(trace.provider) == {"WebGpuExecutionProvider"}
    assert trace.self_ns.sum() == expected("web-kernels-1.30.0")["device_ns"]
    convs = {name for name, op in zip(trace.name, trace.op_type, strict=True) if op == "Conv"}
    assert len(convs) == 2 and all("/conv/Conv" in name for name in convs)
    shapes = dict(zip(trace.name.texts, trace.nodes.outputs, strict=True))
    assert shapes["/head/Softmax"] == '[{"float":[1,10]}]'
