"""Damaged traces: a clear error or a trace that hangs together, never anything else."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest

from damaged_traces import GOLDEN, WAYS, cut, joined, keys, numbers
from ortune.errors import UsageError
from ortune.trace.attribution import attribute
from ortune.trace.operators import by_node, by_operator
from ortune.trace.read import read_trace
from ortune.trace.steady import warmup_runs
from ortune.trace.table import ABSENT, NO_PARENT, NO_RUN, Trace
from ortune.trace.variance import variance

SEEDS = ("ort-1.10.0.json", "loop-1.31.1.json", "callers-1.31.1.json", "web-native-1.30.0.log", "web-jsep-1.30.0.log",
         "web-kernels-1.30.0.log")  # fmt: skip


def check(trace: Trace) -> None:
    """What every trace keeps to, and every question to it gets an answer."""
    n = len(trace)
    for name in (
        "name", "op_type", "provider", "duration_ns", "self_ns", "parent", "run", "thread", "wait_ns", "helpers",
        "output_bytes", "parameter_bytes", "activation_bytes", "in_use_bytes", "held_bytes",
    ):  # fmt: skip
        assert len(getattr(trace, name)) == n, name
    assert all(len(column) == len(trace.name.texts) for column in (
        trace.nodes.op_type, trace.nodes.provider, trace.nodes.index, trace.nodes.inputs, trace.nodes.outputs,
    ))  # fmt: skip
    assert ((trace.run >= NO_RUN) & (trace.run < trace.n_runs)).all()
    assert ((trace.parent >= NO_PARENT) & (trace.parent < n) & (trace.parent != np.arange(n))).all()
    assert (trace.duration_ns >= 0).all() and (trace.self_ns >= 0).all()
    assert (trace.self_ns <= trace.duration_ns).all()
    assert (trace.wait_ns >= ABSENT).all()
    assert ((trace.kernels.row >= NO_PARENT) & (trace.kernels.row < n)).all()
    assert trace.n_events > 0 and trace.n_unreadable >= 0
    assert len(trace.run_start_ns) == len(trace.executor_ns) == trace.n_runs
    by_operator(trace)
    by_node(trace)
    found = attribute(trace, range(trace.n_runs))
    scale = max(1.0, float(np.abs(found.by_category).max(initial=0)))
    assert np.abs(found.by_category.sum(axis=0) - trace.run_ns).max(initial=0) <= 1e-6 * scale
    variance(trace, found, warmup_runs(trace.run_ns))
    assert all(isinstance(text, str) and text for text in trace.missing)


@pytest.mark.parametrize("way", range(len(WAYS)), ids=lambda i: f"{i}-{WAYS[i].__name__}")
@pytest.mark.parametrize("name", SEEDS)
def test_damage(name: str, way: int, tmp_path: Path) -> None:
    whole = (GOLDEN / name).read_bytes()
    read = 0
    for case in range(4):
        rng = random.Random(f"{name} {way} {case}")
        data = WAYS[way](whole, rng)
        if rng.random() < 0.2:
            data = rng.choice(WAYS)(data, rng)
        path = tmp_path / f"{case}.json"
        path.write_bytes(data)
        try:
            trace = read_trace(path)
        except UsageError as error:
            assert error.what and error.where == str(path)
            continue
        check(trace)
        read += 1
    # Damage of one kind leaves something to read in most files: a reader that gives up at once would be safe too.
    assert read or WAYS[way] in (keys, joined, cut, numbers)


def event(name: str, start: float, took: float, op: str = "Add", thread: int = 1, cat: str = "Node") -> str:
    args = f'{{"op_name":"{op}","provider":"CPUExecutionProvider"}}' if cat == "Node" else "{}"
    return (
        f'{{"cat" : "{cat}","pid" :1,"tid" :{thread},"dur" :{took},"ts" :{start},"ph" : "X",'
        f'"name" :"{name}","args" : {args}}}'
    )


def read(path: Path, *lines: str, joint: str = ",\n") -> Trace:
    path.write_text("[\n" + joint.join(lines) + "\n]\n")
    trace = read_trace(path)
    check(trace)
    return trace


@pytest.mark.parametrize("order", ["ends", "starts"])
def test_a_hundred_thousand_loops_within_each_other(tmp_path: Path, order: str) -> None:
    depth = 100_000
    loops = [event(f"loop{i % 7}_kernel_time", i, 2 * (depth - i), "Loop") for i in range(depth)]
    run = event("model_run", 0, 2 * depth, cat="Session")
    lines = [run, *loops] if order == "starts" else [*reversed(loops), run]
    trace = read(tmp_path / "deep.json", *lines)
    assert trace.n_runs == 1 and (trace.parent == NO_PARENT).sum() == 1
    assert (trace.self_ns == 2_000).all()


def test_a_name_of_ten_megabytes(tmp_path: Path) -> None:
    name = "x" * 10_000_000
    trace = read(
        tmp_path / "n.json", event(f"{name}_kernel_time", 1, 2), event("model_run", 0, 9, cat="Session")
    )
    assert trace.name[0] == name and trace.n_runs == 1


def test_json_that_is_nested_too_deep_is_one_bad_line(tmp_path: Path) -> None:
    good = event("a_kernel_time", 1, 2)
    deep = (
        '{"cat":"Node","name":"b_kernel_time","ts":1,"dur":1,"args":{"x":'
        + "[" * 100_000
        + "]" * 100_000
        + "}}"
    )
    trace = read(tmp_path / "d.json", deep, good, event("model_run", 0, 9, cat="Session"))
    assert list(trace.name) == ["a"] and trace.n_unreadable == 1


def test_times_that_are_none_are_counted(tmp_path: Path) -> None:
    bad = [
        event("a_kernel_time", 1, -5), event("b_kernel_time", "NaN", 1), event("c_kernel_time", 1e300, 1),
        event("d_kernel_time", 1, "null"), event("e_kernel_time", '"soon"', 1),
    ]  # fmt: skip
    trace = read(
        tmp_path / "t.json", *bad, event("f_kernel_time", -3, 2), event("model_run", -4, 9, cat="Session")
    )
    assert list(trace.name) == ["f"] and trace.n_unreadable == len(bad)
    assert trace.run.tolist() == [0] and trace.start_ns.tolist() == [-3_000]


def test_arguments_of_other_types_lose_only_themselves(tmp_path: Path) -> None:
    line = event("a_kernel_time", 1, 2).replace(
        '"op_name"', '"output_size":[3],"thread_scheduling_stats":7,"op_name"'
    )
    none = event("b_kernel_time", 4, 2).replace('{"op_name":"Add","provider":"CPUExecutionProvider"}', "null")
    trace = read(tmp_path / "a.json", line, none, event("model_run", 0, 9, cat="Session"))
    assert list(trace.op_type) == ["Add", ""] and trace.n_unreadable == 0
    assert trace.output_bytes.tolist() == [ABSENT, ABSENT]
    assert any("arguments of 2 events" in text for text in trace.missing)


def test_names_that_break_the_json_are_read_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "q.json"
    latin = event("caf\xe9_kernel_time", 4, 1).encode("latin-1")
    lines = [
        event('say "hi"\\_kernel_time', 1, 2).encode(),
        latin,
        event("model_run", 0, 9, cat="Session").encode(),
    ]
    path.write_bytes(b"[\n" + b",\n".join(lines) + b"\n]\n")
    trace = read_trace(path)
    assert list(trace.name) == ['say "hi"\\', "caf\ufffd"] and trace.n_unreadable == 0


@pytest.mark.parametrize("joint", [", ", ",\n", ",\r\n", ",\n\n"])
@pytest.mark.parametrize("around", ["[%s]", '{"traceEvents": [%s], "displayTimeUnit": "ms"}', "%s", "[%s"])
def test_other_layouts(tmp_path: Path, joint: str, around: str) -> None:
    events = [
        event("a_kernel_time", 1, 2),
        event("b_kernel_time", 4, 2),
        event("model_run", 0, 9, cat="Session"),
    ]
    path = tmp_path / "layout.json"
    path.write_bytes((around % joint.join(events)).encode())
    trace = read_trace(path)
    check(trace)
    assert (list(trace.name), trace.n_runs, trace.n_unreadable) == (["a", "b"], 1, 0)
    pretty = json.dumps(json.loads(f"[{','.join(events)}]"), indent=1)
    path.write_text(around % pretty[1:-1])
    assert list(read_trace(path).name) == ["a", "b"]


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "empty"),
        (b"\x1f\x8b\x08\0", "compressed"),
        ("[\n".encode("utf-16"), "UTF-16"),
        (b"\x08\x07\x12\0onnx", "not a text file"),
        (b"hello\n", "holds no profile"),
        (b'{"a": 1}\n', "not an ONNX Runtime profile"),
        (b'[{"ph":"X","cat":"cpu_op","name":"aten::add","ts":1,"dur":2}]', "another tool"),
    ],
)
def test_what_is_no_trace_is_refused_with_the_reason(tmp_path: Path, data: bytes, what: str) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(data)
    with pytest.raises(UsageError, match=what):
        read_trace(path)


def test_a_folder_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(UsageError, match="cannot be read"):
            read_trace(path)
