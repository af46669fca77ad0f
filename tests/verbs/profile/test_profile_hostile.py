"""Damaged and hostile traces through the whole verb: a clear error, or a document that every format can show."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console

import ortune
from damaged_traces import GOLDEN, WAYS
from facts import facts
from ortune.errors import UsageError
from ortune.records import ProfileResult
from ortune.show import markdown, terminal
from ortune.verbs.profile import words as profile_words
from trace_files import node, profile, run

SEEDS = ("loop-1.31.1.json", "callers-1.31.1.json", "parallel-1.31.1.json", "web-native-1.30.0.log")


def shown(path: Path, folder: Path, **options: Any) -> ProfileResult:
    """The result, after every format has shown it and the store has kept it."""
    envelope = ortune.profile(path, store=folder / "store", **options)
    result = envelope.result
    assert isinstance(result, ProfileResult)
    text = msgspec.json.encode(envelope)
    again = msgspec.convert(msgspec.json.decode(text)["result"], type=ProfileResult, str_keys=True)
    assert sum(c.ns for c in again.categories) == pytest.approx(again.wall_ns, rel=1e-6, abs=1.0)
    page = io.StringIO()
    Console(file=page, width=100).print(terminal.render(profile_words.document(envelope)))
    assert markdown.render(profile_words.document(envelope)) and page.getvalue()
    assert ortune.show("newest", store=folder / "store").result.sessions[0].state == "done"
    return result


@pytest.mark.parametrize("way", range(len(WAYS)), ids=lambda i: f"{i}-{WAYS[i].__name__}")
@pytest.mark.parametrize("name", SEEDS)
def test_damage(name: str, way: int, tmp_path: Path) -> None:
    rng = random.Random(f"verb {name} {way}")
    path = tmp_path / "trace.json"
    path.write_bytes(WAYS[way]((GOLDEN / name).read_bytes(), rng))
    try:
        shown(
            path,
            tmp_path,
            report=tmp_path / "page.html",
            export=[f"chrome={tmp_path / 'c'}", f"speedscope={tmp_path / 's'}"],
        )
    except UsageError as error:
        assert error.what and error.where == str(path)


def test_shapes_that_are_none(tmp_path: Path) -> None:
    deep: Any = 1
    for _ in range(300):
        deep = [deep]
    shapes = [
        [{"float": ["x", "y"]}], [{"float": [2**62, 2**62]}], [{"float": [-1]}], deep, [{"float": deep}], "text", 7,
        [{"float": [10**300]}], [{"string": [3]}], [{"int64": [10**18] * 200}],
    ]  # fmt: skip
    events = [
        node(f"n{i}", "Add", 10 * i, 5, output_type_shape=s, input_type_shape=s) for i, s in enumerate(shapes)
    ]
    result = shown(profile(tmp_path / "t.json", *events, run(0, 200)), tmp_path)
    assert len(result.nodes) == len(shapes)
    assert all(n.output_bytes is None or n.output_bytes >= 0 for n in result.nodes)


def test_names_of_megabytes_stay_out_of_sentences(tmp_path: Path) -> None:
    name = "x" * 2_000_000
    path = profile(tmp_path / "t.json", node(name, "Conv" * 9, 10, 80, wait=40), run(0, 100))
    result = shown(path, tmp_path)
    assert result.nodes[0].name == name
    assert max(map(len, result.findings)) < 400
    assert result.headroom is None or len(result.headroom.sentence) < 400


def test_kernels_without_nodes_and_runs_without_anything(tmp_path: Path) -> None:
    kernel = {"cat": "Kernel", "pid": 1, "tid": 1, "ts": 5, "dur": 9, "ph": "X", "name": "gemm", "args": {}}
    result = shown(profile(tmp_path / "k.json", kernel, run(0, 100)), tmp_path)
    assert result.device_ns == {"device": 9000.0} and result.nodes == ()
    assert shown(profile(tmp_path / "r.json", run(0, 100)), tmp_path).wall_ns == 100_000
    assert shown(profile(tmp_path / "z.json", run(0, 0), run(5, 0)), tmp_path).wall_ns == 0


def test_a_process_that_died_in_its_first_run_is_told_as_far_as_it_came(tmp_path: Path) -> None:
    events = [node("a", "Conv", 10, 70), node("b", "Gemm", 85, 10)]
    text = profile(tmp_path / "t.json", *events).read_text()
    cut = tmp_path / "cut.json"
    cut.write_text(text[: text.rindex("}")] + "},\n")
    result = shown(cut, tmp_path)
    assert [n.name for n in result.nodes] == ["a", "b"] and result.wall_ns == 85_000
    told = " ".join(result.trace.missing)
    for part in ("no run was recorded completely", "as one run", "truncated"):
        assert part in told
    assert json.loads(msgspec.json.encode(result))["n_runs"] == 1


def test_two_damaged_traces_can_be_compared(tmp_path: Path) -> None:
    rng = random.Random(1)
    paths = []
    for number, name in enumerate(("loop-1.31.1.json", "ort-1.10.0.json")):
        paths.append(tmp_path / f"{number}.json")
        data = (GOLDEN / name).read_bytes()
        paths[-1].write_bytes(data[: len(data) - rng.randrange(400, 900)])
    result = shown(paths[0], tmp_path, against=paths[1])
    assert result.against is not None
    total = (
        sum(row.difference_ns for row in result.against.nodes)
        + result.against.same_ns
        + result.against.rest_ns
    )
    beside = {row.name: row.difference_ns for row in result.against.categories}
    outside = sum(beside.get(n, 0.0) for n in ("between-nodes", "device-wait", "outside-run", "unexplained"))
    assert total + outside == pytest.approx(result.against.b_wall_ns - result.against.a_wall_ns)
    assert any(text.startswith("B: ") for text in result.notes)


def test_more_memory_than_there_is_can_be_drawn(tmp_path: Path) -> None:
    events = [
        node("a", "Conv", 10, 5, mem_bytes_in_use=str(2**62), mem_arena_held="0", output_size=str(2**62)),
        node("b", "Conv", 20, 5, mem_bytes_in_use="-1", mem_arena_held=str(2**62), output_size="7"),
    ]
    result = shown(profile(tmp_path / "t.json", *events, run(0, 40)), tmp_path, report=tmp_path / "page.html")
    assert result.memory is not None and result.memory.peak_bytes == 2**62


def test_of_two_traces_the_node_that_differs_is_told_and_in_how_few_processes(tmp_path: Path) -> None:
    paths = []
    for side, times in enumerate(((400, 300, 200), (400, 300, 260))):
        rng, events, at = random.Random(side), [], 0
        for _ in range(60):
            start = at
            for name, us in zip("abc", times, strict=True):
                took = round(us * rng.gauss(1.0, 0.03))
                events.append(node(name, "Conv", at, took))
                at += took
            events.append(run(start, at - start))
            at += 100
        paths.append(profile(tmp_path / f"{side}.json", *events))
    found = shown(paths[0], tmp_path, against=paths[1]).against
    assert found is not None
    (row,) = found.nodes
    assert row.name == "c" and row.difference_ns == pytest.approx(60_000, rel=0.1)
    assert found.low_ns is not None and found.high_ns is not None
    assert 0 < found.low_ns < 60_000 < found.high_ns
    facts(found.sentence, " more than A", "two processes", f"c (+{row.difference_ns / 1000:.1f} us)")
