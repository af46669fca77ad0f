"""Exports against what the formats' own specifications and readers ask for, written down here as facts.

- Chrome's trace events, as Perfetto's importer takes them: ``ts`` and ``dur`` in microseconds, ``pid`` and ``tid`` from
  0 to 2^32 - 1, metadata events with ``args.name``. Complete events of one track that overlap without one being in the
  other are dropped; of those that start at the same time the longest is the outermost.
- speedscope's file format: what is required, which units there are, events that never go back in time and are balanced.
- model-explorer's node data: a file of one graph has ``results`` at its top, and is taken for one of several graphs
  where ``results`` holds a node of that name; a gradient has stops from 0 to 1, between two different values.
"""

from __future__ import annotations

import gzip
import io
import json
from collections import defaultdict
from typing import Any

import pytest

from damaged_traces import GOLDEN
from ortune.records import ProfiledNode, ProfileResult, TraceInfo
from ortune.trace.export import chrome, model_explorer, speedscope
from ortune.trace.read import read_trace
from ortune.trace.table import Trace
from trace_files import node, profile, run

FILES = [path for path in sorted(GOLDEN.iterdir()) if not path.name.endswith(".answers.json")]
NOTHING = ProfileResult(
    trace=TraceInfo(path="t.json", format="ort-json", n_events=0, n_runs=0),
    n_runs=0,
    wall_ns=0.0,
    categories=(),
)
METADATA = {"process_name", "thread_name", "process_labels", "process_sort_index", "thread_sort_index"}
UNITS = {"none", "nanoseconds", "microseconds", "milliseconds", "seconds", "bytes"}


def kernel(name: str, start: float, took: float) -> dict[str, Any]:
    return {
        "cat": "Kernel",
        "pid": -1,
        "tid": 0,
        "ts": start,
        "dur": took,
        "ph": "X",
        "name": name,
        "args": {},
    }


@pytest.fixture(scope="module", params=[*(path.name for path in FILES), "streams"])
def trace(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """What each runtime wrote, and a device that does several things at once beside threads of large numbers."""
    if request.param.endswith(".gz"):
        path = tmp_path_factory.mktemp("golden") / "t.json"
        path.write_bytes(gzip.decompress((GOLDEN / request.param).read_bytes()))
        return read_trace(path)
    if request.param != "streams":
        return read_trace(GOLDEN / request.param)
    path = profile(
        tmp_path_factory.mktemp("streams") / "t.json",
        node("a", "Conv", 10, 20, thread=2**40),
        kernel("one", 15, 30),
        kernel("two", 20, 30),
        kernel("three", 46, 10),
        node("b", "Conv", 31, 20, thread=-5),
        node("c", "Conv", 52, 4, thread=7),
        run(5, 60, thread=2**40),
    )
    return read_trace(path)


def written(writer: Any, trace: Trace, result: ProfileResult = NOTHING) -> Any:
    file = io.BytesIO()
    writer.write(trace, result, file)
    return json.loads(file.getvalue())


def test_chrome_events_are_what_perfetto_takes(trace: Trace) -> None:
    events = written(chrome, trace)
    assert isinstance(events, list) and len(events) > len(trace)
    tracks: dict[tuple[int, int], list[tuple[float, float]]] = defaultdict(list)
    named = set()
    for event in events:
        assert isinstance(event["name"], str) and event["name"] and isinstance(event["args"], dict)
        place = (event["pid"], event["tid"])
        assert all(isinstance(number, int) and 0 <= number < 2**32 for number in place)
        if event["ph"] == "M":
            assert event["name"] in METADATA and event["args"]["name"]
            named |= {place} if event["name"] == "thread_name" else set()
            continue
        assert event["ph"] == "X" and isinstance(event["cat"], str)
        assert (
            not isinstance(event["ts"], bool) and isinstance(event["ts"], int | float) and event["dur"] >= 0
        )
        tracks[place].append((event["ts"], event["ts"] + event["dur"]))
    assert set(tracks) <= named | {(1, 0)}  # a run without a node has no thread that is known
    for spans in tracks.values():
        around: list[float] = []
        for start, end in sorted(spans, key=lambda span: (span[0], -span[1])):
            while around and around[-1] <= start:
                around.pop()
            assert not around or end <= around[-1], "Perfetto drops an event that overlaps another"
            around.append(end)
    groups = {event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert groups == {"ONNX Runtime", *(["device"] if len(trace.kernels.row) else [])}
    assert sum(map(len, tracks.values())) == len(trace) + len(trace.kernels.row) + trace.n_runs


def test_speedscope_has_what_its_schema_asks_for(trace: Trace) -> None:
    document = written(speedscope, trace)
    assert {"$schema", "shared", "profiles"} <= set(document)
    assert document["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    assert set(document) <= {"$schema", "shared", "profiles", "name", "activeProfileIndex", "exporter"}
    assert 0 <= document["activeProfileIndex"] < len(document["profiles"])
    frames = document["shared"]["frames"]
    for frame in frames:
        assert isinstance(frame["name"], str) and set(frame) <= {"name", "file", "line", "col"}
    for each in document["profiles"]:
        assert {"type", "name", "unit", "startValue", "endValue"} <= set(each)
        assert each["unit"] in UNITS and each["startValue"] <= each["endValue"]
        if each["type"] == "sampled":
            assert len(each["samples"]) == len(each["weights"])
            assert all(0 <= frame < len(frames) for stack in each["samples"] for frame in stack)
            continue
        assert each["type"] == "evented"
        now, stack = each["startValue"], []
        for event in each["events"]:
            assert set(event) == {"type", "at", "frame"} and event["type"] in ("O", "C")
            assert now <= event["at"] <= each["endValue"] and 0 <= event["frame"] < len(frames)
            now = event["at"]
            if event["type"] == "O":
                stack.append(event["frame"])
            else:
                assert stack.pop() == event["frame"]
        assert not stack


def nodes(*named: tuple[str, float]) -> ProfileResult:
    made = [ProfiledNode(name=name, op_type="Conv", time_ns=ns, share_ratio=0.1) for name, ns in named]
    return ProfileResult(trace=NOTHING.trace, n_runs=1, wall_ns=1e6, categories=(), nodes=tuple(made))


def test_node_data_is_what_model_explorer_takes() -> None:
    trace = read_trace(GOLDEN / "ort-1.31.1.json")
    document = written(model_explorer, trace, nodes(("a", 1e6), ("b", 2e6), ("results", 3e6)))
    assert set(document) <= {"name", "results", "thresholds", "gradient"}
    assert set(document["results"]) == {"a", "b"}, (
        "a node of that name would change what the file is taken for"
    )
    for found in document["results"].values():
        assert isinstance(found["value"], int | float) and set(found) <= {"value", "bgColor", "textColor"}
    stops = [stop["stop"] for stop in document["gradient"]]
    assert stops == sorted(stops) and stops[0] == 0 and stops[-1] == 1
    for stop in document["gradient"]:
        assert set(stop) <= {"stop", "bgColor", "textColor"}
        assert len(stop["bgColor"]) == 7 and int(stop["bgColor"][1:], 16) >= 0


def test_nodes_of_equal_times_are_coloured_one_by_one() -> None:
    trace = read_trace(GOLDEN / "ort-1.31.1.json")
    same = written(model_explorer, trace, nodes(("a", 1e6), ("b", 1e6)))
    assert {found["bgColor"] for found in same["results"].values()} == {"#c0392b"}
    assert "bgColor" not in written(model_explorer, trace, nodes(("a", 1e6), ("b", 2e6)))["results"]["a"]


def test_nodes_in_the_branches_of_an_if_are_called_as_its_adapter_calls_them() -> None:
    trace = read_trace(GOLDEN / "ort-1.31.1.json")
    made = {
        (name, op, inside): ProfiledNode(name=name, op_type=op, inside=inside, time_ns=1e6, share_ratio=0.1)
        for name, op, inside in [
            ("outer", "If", ""), ("inner", "If", "outer"), ("conv", "Conv", "inner"),
            ("loop", "Loop", ""), ("check", "If", "loop"), ("add", "Add", "check"), ("mul", "Mul", "loop"),
            ("around", "If", "around"),
        ]
    }  # fmt: skip
    result = ProfileResult(
        trace=NOTHING.trace, n_runs=1, wall_ns=1e6, categories=(), nodes=tuple(made.values())
    )
    keys = set(written(model_explorer, trace, result)["results"])
    branches = ("then_branch", "else_branch")
    unfolded = {f"outer/{one}/inner/{other}/conv" for one in branches for other in branches}
    unfolded |= {f"outer/{one}/inner" for one in branches} | {f"check/{one}/add" for one in branches}
    assert keys == {name for name, _, _ in made} | unfolded, "a body of a loop is a graph of its own"
