"""Every export, read back and compared with the trace that it was written from."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import trace_files
from ortune.errors import UsageError
from ortune.records import Category, ProfiledNode, ProfileResult, TraceInfo
from ortune.trace import export
from ortune.trace.attribution import attribute
from ortune.trace.export.columns import COLUMNS
from ortune.trace.export.csv import EXECUTIONS, NODES
from ortune.trace.operators import by_node, by_operator, run_time_ns
from ortune.trace.ort_profile import read_profile
from ortune.trace.table import ABSENT, NO_PARENT, NO_RUN, Trace
from trace_files import FORMULA


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
