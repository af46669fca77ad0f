"""Every export, read back and compared with the trace that it was written from."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
import trace_files
from ort_events import nested_model

from ortune.errors import UsageError
from ortune.records import Category, ProfiledNode, ProfileResult, TraceInfo
from ortune.trace import export
from ortune.trace.attribution import attribute
from ortune.trace.export.columns import COLUMNS
from ortune.trace.export.csv import EXECUTIONS, NODES
from ortune.trace.operators import by_node, by_operator, run_time_ns
from ortune.trace.ort_profile import read_profile
from ortune.trace.table import ABSENT, NO_PARENT, NO_RUN, Trace
from ortune.trace.timeline import timeline_data

RUNS = 4
FORMULA = '=HYPERLINK("x")'
HOSTILE = '</script><script>alert(1)</script>,"[red]'


def synthetic() -> str:
    """A profile with kernels, sizes, thread statistics, a hostile name and a node of no run."""

    def node(name: str, start: int, duration: int, **args: Any) -> dict[str, Any]:
        return {"cat": "Node", "pid": 1, "tid": 7, "ts": start, "dur": duration, "ph": "X",
                "name": f"{name}_kernel_time", "args": {"op_name": "Conv", "provider": "CUDA", **args}}  # fmt: skip

    def kernel(name: str, start: int) -> dict[str, Any]:
        return {
            "cat": "Kernel",
            "pid": -1,
            "tid": 0,
            "ts": start,
            "dur": 5,
            "ph": "X",
            "name": name,
            "args": {},
        }

    stats = {"main_thread": {"Wait": 3, "Distribution": 1}, "sub_threads": {"1": {"num_run": 2}}}
    events = [
        kernel("before", 1),
        node("stray", 2, 3),
        node("a", 10, 20, output_size="64", mem_bytes_in_use="100", mem_arena_held="256", node_index="0",
             thread_scheduling_stats=stats, input_type_shape=[{"float": [1, 3]}]),
        kernel("gemm", 12),
        kernel("gemm", 18),
        node(HOSTILE, 30, 10),
        {"cat": "Session", "pid": 1, "tid": 7, "ts": 10, "dur": 40, "ph": "X", "name": "model_run", "args": {}},
        node("a", 60, 22),
        kernel("copy", 63),
        node(FORMULA, 83, 10),
        {"cat": "Session", "pid": 1, "tid": 7, "ts": 60, "dur": 50, "ph": "X", "name": "model_run", "args": {}},
    ]  # fmt: skip
    return "[\n" + ",\n".join(json.dumps(event) for event in events) + "\n]\n"


@pytest.fixture(scope="module", params=["nested", "parallel", "synthetic"])
def trace(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """Traces of a nested model in both execution modes, and one by hand."""
    folder = tmp_path_factory.mktemp("trace")
    if request.param == "synthetic":
        path = folder / "synthetic.json"
        path.write_text(synthetic())
        return read_profile(path)
    options = ort.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(folder / request.param)
    if request.param == "parallel":
        options.execution_mode = ort.ExecutionMode.ORT_PARALLEL
        options.inter_op_num_threads = 2
    session = ort.InferenceSession(nested_model(), options, providers=["CPUExecutionProvider"])
    for _ in range(RUNS):
        session.run(None, {"x": np.ones((16, 16), np.float32)})
    return read_profile(Path(session.end_profiling()))


@pytest.fixture(scope="module")
def result(trace: Trace) -> ProfileResult:
    """The mean run, with an origin for every other node."""
    found = attribute(trace, range(trace.n_runs))
    times = found.by_node.mean(axis=1)
    nodes = [
        ProfiledNode(
            name=name,
            op_type=trace.nodes.op_type[number],
            provider=trace.nodes.provider[number],
            layer=f"block.{number}/inner",
            time_ns=float(times[number]),
            share_ratio=0.1,
            originals=(f"/user/{number}", f"/user/{number}/b") if number % 2 else (),
            flops=1e6 * number,
        )
        for number, name in enumerate(trace.name.texts)
        if found.calls[number]
    ]
    return ProfileResult(
        trace=TraceInfo(path="trace.json", format=trace.format, n_events=trace.n_events, n_runs=trace.n_runs),
        n_runs=trace.n_runs,
        wall_ns=found.mean_wall_ns,
        categories=found.categories(),
        nodes=tuple(nodes),
    )


def written(kind: str, trace: Trace, result: ProfileResult, folder: Path) -> Path:
    path = folder / f"out.{kind}"
    export.write(kind, trace, result, path)
    return path


def test_chrome_reads_back_as_the_same_trace(trace: Trace, result: ProfileResult, tmp_path: Path) -> None:
    again = read_profile(written("chrome", trace, result, tmp_path))
    assert again.complete and not again.n_unreadable
    for column in ("name", "op_type", "provider"):
        assert list(getattr(again, column)) == list(getattr(trace, column))
    for column in ("start_ns", "duration_ns", "self_ns", "parent", "run", "thread", "wait_ns", "helpers",
                   "output_bytes", "in_use_bytes", "held_bytes", "run_start_ns", "run_ns"):  # fmt: skip
        assert getattr(again, column).tolist() == getattr(trace, column).tolist(), column
    assert again.nodes == trace.nodes
    assert list(again.kernels.name) == list(trace.kernels.name)
    assert again.kernels.row.tolist() == trace.kernels.row.tolist()
    assert again.kernels.duration_ns.tolist() == trace.kernels.duration_ns.tolist()
    assert by_operator(again) == by_operator(trace)
    assert by_node(again) == by_node(trace)
    assert run_time_ns(again) == run_time_ns(trace)
    assert attribute(again, range(again.n_runs)).categories() == result.categories


def test_chrome_is_what_perfetto_takes(trace: Trace, result: ProfileResult, tmp_path: Path) -> None:
    events = json.loads(written("chrome", trace, result, tmp_path).read_bytes())
    assert {event["ph"] for event in events} == {"M", "X"}
    timed = [event for event in events if event["ph"] == "X"]
    assert all(event["dur"] >= 0 and isinstance(event["ts"], int | float) for event in timed)
    assert len(timed) == len(trace) + len(trace.kernels.row) + trace.n_runs
    titles = {(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name"}
    assert {(e["pid"], e["tid"]) for e in timed if e["cat"] == "Node"} <= titles
    known = {node.name: node for node in result.nodes}
    for event in timed:
        if event["cat"] == "Node":
            node = known.get(event["name"].removesuffix("_kernel_time"))
            assert event["args"].get("original", []) == list(node.originals if node else ())


def test_speedscope_is_balanced_and_sums_to_the_run(
    trace: Trace, result: ProfileResult, tmp_path: Path
) -> None:
    document = json.loads(written("speedscope", trace, result, tmp_path).read_bytes())
    frames = document["shared"]["frames"]
    mean, *threads = document["profiles"]
    assert mean["type"] == "sampled" and len(mean["samples"]) == len(mean["weights"])
    assert sum(mean["weights"]) == mean["endValue"]
    assert mean["endValue"] == pytest.approx(result.wall_ns, abs=len(mean["weights"]) + 1)
    assert {frames[i]["name"] for s in mean["samples"] for i in s} >= {"inner", "(between-nodes)"}
    opened: Counter[str] = Counter()
    for thread in threads:
        assert thread["type"] == "evented" and thread["unit"] == "nanoseconds"
        stack: list[int] = []
        now = thread["startValue"]
        for event in thread["events"]:
            assert event["at"] >= now
            now = event["at"]
            if event["type"] == "O":
                stack.append(event["frame"])
                opened[frames[event["frame"]]["name"]] += 1
            else:
                assert stack.pop() == event["frame"]
        assert not stack and thread["endValue"] == now
    runs = {f"run {n}": 1 for n in range(trace.n_runs)}
    assert opened == Counter(trace.name) + Counter(runs)


def test_speedscope_nests_nodes_in_their_run(trace: Trace, result: ProfileResult, tmp_path: Path) -> None:
    document = json.loads(written("speedscope", trace, result, tmp_path).read_bytes())
    frames = document["shared"]["frames"]
    around: dict[str, set[str]] = {}
    for thread in document["profiles"][1:]:
        stack: list[str] = []
        for event in thread["events"]:
            name = frames[event["frame"]]["name"]
            if event["type"] == "C":
                stack.pop()
            else:
                around.setdefault(name, set()).update(stack)
                stack.append(name)
    if "product" in around:
        assert {"loop", "if", "run 0"} <= around["product"]
    else:
        assert around["a"] == {"run 0", "run 1"} and around["stray"] == set()


def test_csv_has_every_execution(trace: Trace, result: ProfileResult, tmp_path: Path) -> None:
    text = written("csv", trace, result, tmp_path).read_text(encoding="utf-8")
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert len(rows) == len(trace) and set(rows[0]) == set(EXECUTIONS)
    for number, row in enumerate(rows):
        name = trace.name[number]
        assert row["node"] == (f"'{name}" if name == FORMULA else name)
        assert int(row["start_ns"]) == trace.start_ns[number]
        assert int(row["duration_ns"]) == trace.duration_ns[number]
        for column, absent in (
            ("wait_ns", ABSENT),
            ("in_use_bytes", ABSENT),
            ("run", NO_RUN),
            ("parent", NO_PARENT),
        ):
            value = getattr(trace, column)[number]
            assert row[column] == ("" if value == absent else str(value))
    assert sum(int(row["self_ns"]) for row in rows) == trace.self_ns.sum()


def test_csv_has_every_node(trace: Trace, result: ProfileResult, tmp_path: Path) -> None:
    text = written("nodes-csv", trace, result, tmp_path).read_text(encoding="utf-8")
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert set(rows[0]) == set(NODES)
    assert [float(row["time_ns"]) for row in rows] == [node.time_ns for node in result.nodes]
    assert [tuple(json.loads(row["originals"])) for row in rows] == [n.originals for n in result.nodes]


def test_columns_are_the_trace_and_each_is_explained(
    trace: Trace, result: ProfileResult, tmp_path: Path
) -> None:
    with np.load(written("columns", trace, result, tmp_path)) as arrays:
        assert set(arrays) == {*COLUMNS, "about"}
        assert [line.partition(": ")[0] for line in arrays["about"].tolist()] == list(COLUMNS)
        for column in ("start_ns", "duration_ns", "self_ns", "parent", "run", "thread", "wait_ns", "run_ns"):
            assert arrays[column].tolist() == getattr(trace, column).tolist()
        assert arrays["node_name"][arrays["name_code"]].tolist() == list(trace.name)
        assert arrays["op_type"][arrays["op_type_code"]].tolist() == list(trace.op_type)
        known = {node.name: node.time_ns for node in result.nodes}
        times = dict(zip(arrays["node_name"].tolist(), arrays["node_time_ns"].tolist(), strict=True))
        assert {name: ns for name, ns in times.items() if not np.isnan(ns)} == known
        lengths = {kind: {len(arrays[n]) for n, text in COLUMNS.items() if text.startswith(kind)}
                   for kind in ("executions:", "nodes:", "runs:", "kernels:")}  # fmt: skip
        assert all(len(found) == 1 for found in lengths.values())


def test_model_explorer_colours_the_users_nodes(trace: Trace, result: ProfileResult, tmp_path: Path) -> None:
    document = json.loads(written("model-explorer", trace, result, tmp_path).read_bytes())
    values = {key: found["value"] for key, found in document["results"].items()}
    assert sum(values.values()) == pytest.approx(sum(n.time_ns for n in result.nodes) / 1e6, abs=1e-4)
    for node in result.nodes:
        assert (node.originals[0] if node.originals else node.name) in values
    assert [stop["stop"] for stop in document["gradient"]] == [0, 0.25, 1]


def test_a_fused_node_is_shown_at_the_one_that_bears_its_name(trace: Trace, tmp_path: Path) -> None:
    def node(name: str, *originals: str) -> ProfiledNode:
        return ProfiledNode(name=name, op_type="Conv", time_ns=1e6, share_ratio=0.5, originals=originals)

    result = ProfileResult(
        trace=TraceInfo(path="", format="ort-json", n_events=0, n_runs=1),
        n_runs=1,
        wall_ns=3e6,
        categories=(Category(name="kernels", ns=3e6),),
        nodes=(node("relu", "conv", "relu"), node("fused_7", "add", "mul"), node("fused_8", "add")),
    )
    document = json.loads(written("model-explorer", trace, result, tmp_path).read_bytes())
    assert document["results"] == {"relu": {"value": 1.0}, "add": {"value": 2.0}}


def test_kind_comes_from_name_or_ending() -> None:
    assert export.parse(["chrome=a.json", "b.speedscope.json", "c.csv", "d.nodes.csv", "E.NPZ"]) == (
        ("chrome", Path("a.json")),
        ("speedscope", Path("b.speedscope.json")),
        ("csv", Path("c.csv")),
        ("nodes-csv", Path("d.nodes.csv")),
        ("columns", Path("E.NPZ")),
    )
    assert export.parse(["x=y.trace.json"]) == (("chrome", Path("x=y.trace.json")),)


@pytest.mark.parametrize("texts", [["a.json"], ["flame=a"], ["chrome="], ["csv=a", "columns=a"]])
def test_what_cannot_be_exported_is_one_clear_error(texts: list[str]) -> None:
    with pytest.raises(UsageError) as raised:
        export.parse(texts)
    assert raised.value.where.startswith("--export ")


def test_a_file_that_cannot_be_written_leaves_nothing(
    trace: Trace, result: ProfileResult, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="cannot be written"):
        export.write("csv", trace, result, tmp_path / "missing" / "a.csv")
    folder = tmp_path / "taken"
    folder.mkdir()
    with pytest.raises(UsageError, match="cannot be written"):
        export.write("csv", trace, result, folder)
    assert [p.name for p in tmp_path.iterdir()] == ["taken"]


def test_all_are_written_and_named(trace: Trace, result: ProfileResult, tmp_path: Path) -> None:
    wanted = export.parse([f"csv={tmp_path / 'a'}", f"csv={tmp_path / 'b'}", str(tmp_path / "c.npz")])
    done = export.write_all(wanted, trace, result)
    assert done == {
        "csv": str(tmp_path / "a"),
        "csv 2": str(tmp_path / "b"),
        "columns": str(tmp_path / "c.npz"),
    }
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b", "c.npz"]


# --- the timeline's input -------------------------------------------------------------------------------


def column(data: bytes) -> list[int]:
    return np.frombuffer(data, dtype="<u4").tolist()


def test_timeline_holds_every_execution_in_tracks_without_overlap(trace: Trace) -> None:
    found = timeline_data(trace)
    starts, durations, names = (
        column(c) for c in (found.start_ticks, found.duration_ticks, found.name_codes)
    )
    assert not found.n_left_out and not found.note and found.tick_ns == 1000
    assert len(starts) == len(trace) + len(trace.kernels.row) + trace.n_runs
    drawn = Counter((found.names[n], d * found.tick_ns) for n, d in zip(names, durations, strict=True))
    expected = Counter(zip(trace.name, trace.duration_ns.tolist(), strict=True))
    expected += Counter(zip(trace.kernels.name, trace.kernels.duration_ns.tolist(), strict=True))
    expected += Counter((f"run {n}", ns) for n, ns in enumerate(trace.run_ns.tolist()))
    assert drawn == expected
    first = 0
    for track in found.tracks:
        assert track.first == first
        first += track.count
        rows = slice(track.first, first)
        ends = [s + d for s, d in zip(starts[rows], durations[rows], strict=True)]
        assert all(end <= start + 1 for end, start in zip(ends, starts[rows][1:], strict=False))
    assert first == len(starts) and min(starts) == 0


def test_timeline_puts_bodies_below_their_node(trace: Trace) -> None:
    found = timeline_data(trace)
    names = column(found.name_codes)
    depth = {}
    for track in found.tracks:
        for row in range(track.first, track.first + track.count):
            depth[found.names[names[row]]] = (track.lane, track.depth)
    if "product" not in depth:
        assert depth["gemm"][0] == "device" and depth["run 0"][0] == "runs"
        return
    assert depth["if"][1] < depth["loop"][1] < depth["product"][1]
    assert depth["if"][0] == depth["loop"][0] == depth["product"][0]


def test_timeline_of_a_long_trace_is_its_last_runs(trace: Trace) -> None:
    whole = len(trace) + len(trace.kernels.row) + trace.n_runs
    part = timeline_data(trace, most=whole - 1)
    outside = int((trace.run == NO_RUN).sum())
    first = 0 if outside else 1  # without what is in no run, all runs fit
    assert part.note.startswith("the last" if first else "all runs") and part.n_left_out > 0
    assert {f"run {n}" for n in range(first, trace.n_runs)} <= set(part.names)
    assert first == 0 or "run 0" not in part.names
    small = timeline_data(trace, most=2)
    assert small.note.startswith("the first 1 ") and len(small.start_ticks) == 8


def test_timeline_of_nothing_and_of_what_cannot_be_drawn(tmp_path: Path) -> None:
    def read(events: list[dict[str, Any]]) -> Trace:
        path = tmp_path / "trace.json"
        path.write_text(json.dumps(events))
        return read_profile(path)

    empty = timeline_data(read([{"cat": "Session", "name": "model_loading", "ts": 1, "dur": 2}]))
    assert empty.tracks == () and empty.start_ticks == b""
    far = [{"cat": "Node", "name": f"n{i}_kernel_time", "tid": 1, "ts": ts, "dur": 1}
           for i, ts in enumerate([-(2**52), 0, 2**52])]  # fmt: skip
    found = timeline_data(read(far))
    starts = column(found.start_ticks)
    assert starts[0] == 0 and starts[1] * found.tick_ns == pytest.approx(2**52 * 1000, rel=1e-6)
    assert starts[2] == pytest.approx(2 * starts[1], abs=1)
    at_once = [{"cat": "Node", "name": "n_kernel_time", "tid": 1, "ts": 1, "dur": 100 + i} for i in range(40)]
    crowded = timeline_data(read(at_once))
    assert len(crowded.tracks) == 24 and crowded.n_left_out == 16


def test_nodes_of_one_name_keep_their_own_figures(tmp_path: Path) -> None:
    events = trace_files.node("n", "Conv", 0, 9), trace_files.node("n", "Cast", 20, 9), trace_files.run(0, 40)
    trace = read_profile(trace_files.profile(tmp_path / "p.json", *events))
    nodes = tuple(
        ProfiledNode(
            name="n", op_type=op, provider="CPUExecutionProvider", category=kind, time_ns=9e3, share_ratio=0.5
        )
        for op, kind in (("Cast", "casts-and-layout"), ("Conv", "kernels"))
    )
    result = ProfileResult(
        trace=TraceInfo(path="", format="", n_events=3, n_runs=1),
        n_runs=1,
        wall_ns=1.0,
        categories=(),
        nodes=nodes,
    )
    rows = list(csv.DictReader(written("csv", trace, result, tmp_path).open()))
    assert [row["category"] for row in rows] == ["kernels", "casts-and-layout"]
