"""Profiles that are damaged, of another layout or of several models: what can be read of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ort_events import event, node, profile, run

from ortune.errors import UsageError
from ortune.trace.ort_profile import read_profile


def test_what_is_no_kernel_is_left_out_and_damage_is_counted(tmp_path: Path) -> None:
    path = profile(
        tmp_path / "p.json",
        event("c_fence_before", 10, 1, op="Conv"),
        node("c", "Conv", 11, 10),
        event("session_initialization", 0, 9, cat="Session"),
        run(10, 20),
    )
    lines = path.read_text().splitlines()
    lines.insert(3, '{"cat" : "Node", "name" : "unescaped " quote_kernel_time"},')
    path.write_text("\n".join(lines) + "\n")
    trace = read_profile(path)
    assert list(trace.name) == ["c"]
    assert (trace.n_unreadable, trace.complete) == (1, True)


@pytest.mark.parametrize("cut", [None, 5, 7])
def test_events_in_the_order_of_their_starts(tmp_path: Path, cut: int | None) -> None:
    events = [
        run(0, 50), node("loop", "Loop", 1, 40), node("x", "Add", 2, 10), node("y", "Mul", 12, 9),
        run(60, 50), node("loop", "Loop", 61, 40), node("x", "Add", 62, 10), node("y", "Mul", 72, 9),
    ]  # fmt: skip
    path = profile(tmp_path / "p.json", *events[:cut])
    if cut:
        path.write_text(path.read_text().removesuffix("\n]\n") + ",\n")
    trace = read_profile(path)
    loops = [row for row, name in enumerate(trace.name) if name == "loop"]
    for row, name in enumerate(trace.name):
        assert (trace.parent[row] in loops) == (name != "loop")
    assert trace.self_ns[loops[0]] == 21_000
    # A run whose nodes were cut off is none that was recorded to its end.
    assert (trace.n_runs, trace.complete) == ((2, True) if cut is None else (1, False))


def test_lines_across_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events = [each for i in range(9) for each in (node(f"n{i}", "Add", 20 * i + 1, 9), run(20 * i, 15))]
    path = profile(tmp_path / "p.json", *events)
    whole = read_profile(path)
    for size in (7, 100, 1000):
        monkeypatch.setattr("ortune.trace.ort_profile.BLOCK_BYTES", size)
        trace = read_profile(path)
        assert list(trace.name) == list(whole.name) and trace.run.tolist() == whole.run.tolist()
        assert (trace.n_runs, trace.n_unreadable, trace.complete) == (9, 0, True)


def test_only_events_of_the_host_reach_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ortune.trace.builder.MOST_EVENTS", 3)
    kernels = [event(f"k{i}", 50 + i, 1, cat="Kernel", thread=-1) for i in range(3)]
    few = read_profile(profile(tmp_path / "p.json", node("a", "Add", 1, 5), run(0, 9), *kernels))
    assert few.n_events == 5 and not any("host events" in text for text in few.missing)
    many = [node("a", "Add", 1, 5), event("a_fence_after", 6, 1), run(0, 9)]
    found = read_profile(profile(tmp_path / "q.json", *many)).missing
    assert any("after 3 host events" in text for text in found)


@pytest.mark.parametrize("cut", [False, True])
@pytest.mark.parametrize("loaded", [False, True])
@pytest.mark.parametrize("layout", ["lines", "blocks"])
def test_of_two_profiles_in_one_file_the_last_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: str, loaded: bool, cut: bool
) -> None:
    def written(name: str, *events: dict[str, Any]) -> str:
        loading = [event("model_loading_uri", 0, 5, cat="Session")] * loaded
        return profile(tmp_path / name, *loading, *events).read_text()

    one = written("1", node("a", "Add", 10, 5), run(8, 9), node("a", "Add", 20, 5), run(18, 9))
    two = written("2", node("b", "Mul", 11, 6), node("model_loading", "Mul", 17, 1), run(9, 10))
    if cut:
        one = one[:-60] + "\n"
    if layout == "blocks":
        monkeypatch.setattr("ortune.trace.ort_profile.BLOCK_BYTES", len(one))
    path = tmp_path / "both.json"
    path.write_text(one + two)
    trace = read_profile(path)
    assert (list(trace.name), trace.run_ns.tolist(), trace.complete) == (
        ["b", "model_loading"],
        [10_000],
        True,
    )
    assert [text for text in trace.missing if "earlier profiles" in text and text.endswith(" 1")]


def test_another_layout_of_the_same_events(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text(json.dumps([node("c", "Conv", 11, 10), run(10, 20)], indent=2))
    trace = read_profile(path)
    assert (list(trace.name), trace.n_runs, trace.complete) == (["c"], 1, True)


@pytest.mark.parametrize("text", ["", "[\n]\n", "not a profile\n", '{"a": [1, 2]}\n[3]'])
def test_what_is_no_profile_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "p.json"
    path.write_text(text)
    with pytest.raises(UsageError, match="not an ONNX Runtime profile"):
        read_profile(path)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        read_profile(tmp_path / "none.json")
