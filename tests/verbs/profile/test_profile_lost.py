"""Profiles that lost events: said first, never called overhead, and nothing is advised from them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ortune
from facts import facts
from ortune.records import ProfileResult
from ortune.trace.events import one_event
from ortune.verbs.profile import note_words as profile_notes
from ortune.verbs.profile import words as profile_words
from trace_files import node, run

RUNS = 12
SIZES = {"stem": 900, "act": 60, "mid": 1500, "pool": 40, "fc": 120}
SPAN = 6000
"""Microseconds from the begin of a run to that of the next; a run takes 2,644."""

Events = list[dict[str, Any]]


def events(runs: int = RUNS, *, pid: int = 1, prefix: str = "", begin: int = 0) -> Events:
    """Runs of five nodes one after another."""
    found: Events = [
        session("model_loading_uri", begin - 200),
        session("session_initialization", begin - 100),
    ]
    for number in range(runs):
        start = at = begin + number * SPAN
        for index, (name, took) in enumerate(SIZES.items()):
            found.append(node(f"{prefix}{name}", "Conv", at + 4, took, node_index=str(index)))
            at += took + 4
        found += [{**run(start + 1, at + 2 - start), "name": "SequentialExecutor::Execute"}]
        found.append(run(start, at + 4 - start))
    return [{**each, "pid": pid} for each in found]


def session(name: str, start: int) -> dict[str, Any]:
    return {**run(start, 50), "name": name}


def told(path: Path, lines: list[str], end: str = "\n]\n") -> tuple[ProfileResult, list[str]]:
    """The result of a file of these lines, and what is said before any figure."""
    path.write_text("[\n" + ",\n".join(lines) + end)
    result = ortune.profile(path, store=path.parent / "store").result
    assert isinstance(result, ProfileResult)
    return result, profile_notes.damage(result)


def shares(result: ProfileResult) -> dict[str, float]:
    return {c.name: c.ns / result.wall_ns for c in result.categories}


def broken(events: Events, change: Callable[[str], str], runs: range = range(RUNS)) -> list[str]:
    """The events as lines; of "mid" in these runs a changed one."""
    lines, number = [], 0
    for each in events:
        text = json.dumps(each)
        if each["name"] == "mid_kernel_time":
            text = change(text) if number in runs else text
            number += 1
        lines.append(text)
    return lines


def test_a_comma_too_many_loses_nothing(tmp_path: Path) -> None:
    lines = broken(
        events(), lambda t: t.replace('"op_name"', '"input_type_shape": [{"float":[1,8]},], "op_name"')
    )
    result, first = told(tmp_path / "t.json", lines)
    (line,) = first
    facts(line, "damaged", f"{RUNS} events", "not JSON", "extra comma")
    assert shares(result)["kernels"] == pytest.approx(2620 / 2644)
    assert result.nodes[0].name == "mid" and result.headroom is not None


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace('"op_name":', '"op_name": {{{'),
        lambda text: text.replace('"dur":', '"length":'),
        lambda text: text[: len(text) // 2],
        lambda text: text.replace('"dur": 1500', '"dur": -1'),
    ],
    ids=["garbage", "no duration", "half a line", "a negative duration"],
)
def test_time_of_lost_events_is_no_overhead(tmp_path: Path, change: Callable[[str], str]) -> None:
    result, first = told(tmp_path / "t.json", broken(events(), change))
    facts(first[0], "damaged", f"{RUNS} events", "left out")
    assert any("lost events" in text and "unexplained" in text for text in first)
    found = shares(result)
    assert found["between-nodes"] == 0 and found["unexplained"] == pytest.approx(1524 / 2644)
    assert [f.code for f in result.stands_out] == ["MSR004", "GRA001"]
    assert "lost events" in result.stands_out[0].what
    assert result.headroom is None and result.fast_ns is None
    assert "largest recorded node" in profile_words.run_sentence(result)


@pytest.mark.parametrize("vanished", [False, True])
def test_runs_that_lost_events_are_left_out_where_most_lost_none(tmp_path: Path, vanished: bool) -> None:
    lines = broken(events(), lambda text: "" if vanished else text.replace('"ts"', '"ts'), range(3, 5))
    result, first = told(tmp_path / "t.json", [line for line in lines if line])
    facts(first[-1], "damaged", f"2 of {RUNS} runs", "left out")
    assert shares(result)["unexplained"] == 0 and result.n_runs >= RUNS - 3
    assert {n.calls for n in result.nodes} == {1.0}


@pytest.mark.parametrize("end", ["\n]\n", ""], ids=["closed", "open"])
def test_a_run_that_was_cut_off_is_said_first_and_counts_for_nothing(tmp_path: Path, end: str) -> None:
    whole = [json.dumps(each) for each in events()]
    part = [json.dumps(each) for each in events(1, begin=RUNS * SPAN)[2:5]]
    result, first = told(tmp_path / "t.json", whole + part, end)
    facts(first[-1], "damaged", "3 executions", "left out", "the run around")
    assert ("truncated" in first[0]) == (not end)
    assert shares(result)["between-nodes"] == pytest.approx(24 / 2644)


def test_a_run_whose_event_is_lost(tmp_path: Path) -> None:
    lines = [json.dumps(each) for each in events()]
    (third, *_) = [i for i, line in enumerate(lines) if '"model_run"' in line][2:]
    result, first = told(tmp_path / "t.json", lines[:third] + lines[third + 1 :])
    (line,) = first
    facts(line, "damaged", "5 executions", "left out", "the run around")
    assert shares(result)["unexplained"] == 0
    lines = [line for line in lines if '"model_run"' not in line]
    result, first = told(tmp_path / "none.json", lines)
    (line,) = first
    facts(line, "no events", "executor")
    assert result.trace.n_runs == RUNS and result.nodes[0].calls == 1
    lines = [line for line in lines if "SequentialExecutor" not in line]
    result, first = told(tmp_path / "neither.json", lines)
    assert any("one run" in text for text in first) and shares(result)["between-nodes"] == 0
    assert "as one run" in profile_words.run_sentence(result)


@pytest.mark.parametrize("pid", [1, 2])
def test_of_two_sessions_in_one_file_one_is_told(tmp_path: Path, pid: int) -> None:
    both = events() + events(pid=pid, prefix="other_", begin=3000)
    both.sort(key=lambda each: each["ts"])
    result, first = told(tmp_path / "t.json", [json.dumps(each) for each in both])
    assert len(first) == 1 and first[0].startswith("the trace has ") and "ignored" in first[0]
    assert {n.name for n in result.nodes} == {f"other_{name}" for name in SIZES}
    assert result.wall_ns == pytest.approx(2_644_000, rel=1e-3)


@pytest.mark.parametrize("numbered", [True, False])
def test_nodes_without_a_name_stay_apart_and_leave_no_hole(tmp_path: Path, numbered: bool) -> None:
    changed = []
    for each in events():
        args = {k: v for k, v in each["args"].items() if numbered or k != "node_index"}
        name = each["name"].replace("stem_", "_").replace("mid_", "  _").replace("fc_", "_")
        changed.append({**each, "name": name, "args": args})
    result, first = told(tmp_path / "t.json", [json.dumps(each) for each in changed])
    expected = ["Conv_2", "Conv_0", "Conv_4"] if numbered else [f"Conv (no name, {n})" for n in (2, 1, 3)]
    assert not first and [n.name for n in result.nodes[:3]] == expected
    assert [n.time_ns for n in result.nodes[:2]] == [1_500_000, 900_000]
    (finding,) = (f for f in result.stands_out if f.code == "GRA001")
    assert finding.what == f"one node takes 57 % of the run: {expected[0]} (Conv)"


def test_nodes_of_one_name_and_operator_stay_apart(tmp_path: Path) -> None:
    changed = [
        {**each, "name": each["name"].replace("stem_", "same_").replace("mid_", "same_")} for each in events()
    ]
    result, _ = told(tmp_path / "t.json", [json.dumps(each) for each in changed])
    assert [(n.name, n.time_ns) for n in result.nodes[:2]] == [("same", 1_500_000), ("same", 900_000)]


@pytest.mark.parametrize("replayed", [range(3, RUNS), range(1, RUNS), range(4, 7)], ids=str)
def test_runs_that_a_device_replays_lost_nothing(tmp_path: Path, replayed: range) -> None:
    changed = []
    for each in events():
        if each["cat"] != "Node":
            changed.append(each)
        elif each["ts"] // SPAN not in replayed:
            provider = {**each["args"], "provider": "CUDAExecutionProvider"}
            changed.append({**each, "args": provider})
    result, first = told(tmp_path / "t.json", [json.dumps(each) for each in changed])
    assert not [text for text in first if "damaged" in text] and result.trace.n_runs == RUNS
    lines = [json.dumps(each) for each in changed if not each["name"].startswith("mid")]
    lines += [json.dumps(each) for each in changed if each["name"].startswith("mid") and each["ts"] > SPAN]
    _, first = told(tmp_path / "lost.json", lines)
    assert bool([text for text in first if "1 of 12 runs" in text]) == (1 not in replayed)


@pytest.mark.parametrize("late", [range(7), range(2), range(11)], ids=str)
def test_a_node_of_a_body_that_seems_to_begin_after_its_loop_makes_no_run_a_damaged_one(
    tmp_path: Path, late: range
) -> None:
    lines = []
    for number in range(RUNS):
        start = number * SPAN
        loop = [node("loop", "Loop", start + 10, 90), node("body", "Add", start + 20, 5)]
        loop += [node("body", "Add", start + (100 if number in late else 90), 5)]
        lines += [json.dumps(each) for each in (*loop, node("end", "Relu", start + 120, 50), run(start, 200))]
    _, first = told(tmp_path / "t.json", lines)
    assert not first
    _, first = told(tmp_path / "lost.json", [*lines[:3], *lines[4:]])
    (line,) = first
    facts(line, "damaged", f"1 of {RUNS} runs", "left out")


@pytest.mark.parametrize("pids", [("host0", "host1"), (7, "host1"), ("host0", 7)], ids=str)
def test_processes_may_have_names(tmp_path: Path, pids: tuple[int | str, int | str]) -> None:
    both = [{**each, "pid": pids[0]} for each in events()]
    both += [{**each, "pid": pids[1]} for each in events(prefix="other_", begin=3000)]
    both.sort(key=lambda each: float(each["ts"]))
    result, first = told(tmp_path / "t.json", [json.dumps(each) for each in both])
    assert len(first) == 1 and first[0].startswith("the trace has ") and "ignored" in first[0]
    assert [n.name for n in result.nodes[:2]] == ["other_mid", "other_stem"] and result.trace.n_runs == RUNS


@pytest.mark.parametrize("change", ['"args": {"op_name": 7}, "x"', '"args": 7, "x"'])
def test_a_comma_too_many_is_told_beside_an_argument_that_is_not_as_expected(change: str) -> None:
    text = f'{{"cat": "Node", "name": "a_kernel_time", "dur": 1, "ts": 1, {change}: [],}}'
    decoded = one_event(text.encode())
    assert decoded is not None and decoded.mended
