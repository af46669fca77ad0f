"""Nodes that ONNX Runtime numbers anew in each process are the same by their order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ortune.trace.naming import NodeSurroundings, assigned, in_order, is_numbered, stable_names, stem
from ortune.trace.ort_profile import read_profile
from ortune.trace.table import Trace
from trace_files import node, profile, run


def process(path: Path, *names: tuple[str, str]) -> Trace:
    """Two runs of these nodes, one after the other."""
    events: list[dict[str, Any]] = []
    for start in (0, 1000):
        events += [node(name, op, start + 10 * i, 5) for i, (name, op) in enumerate(names)]
        events.append(run(start, 500))
    return read_profile(profile(path, *events))


def test_numbers_are_told_from_names() -> None:
    assert stem("ReorderInput_token_159") == "ReorderInput" and stem("conv_token") == "conv_token"
    assert is_numbered("a_token_7") and not is_numbered("a_token_7_b") and not is_numbered("Conv_7")


def test_the_same_node_has_the_same_key_in_all_processes(tmp_path: Path) -> None:
    a = process(
        tmp_path / "a.json",
        ("R_token_9", "R"),
        ("conv", "Conv"),
        ("R_token_2", "R"),
        ("Cast_71", "Cast"),
        ("R", "R"),
    )
    b = process(
        tmp_path / "b.json",
        ("R", "R"),
        ("conv", "Conv"),
        ("R_token_9", "R"),
        ("Cast_80", "Cast"),
        ("R_token_4", "R"),
    )
    one, two = (
        [keys[trace.name.texts.index(name)] for name in names]
        for trace, keys, names in zip(
            (a, b),
            stable_names([a, b]),
            (("conv", "Cast_71"), ("conv", "Cast_80")),
            strict=True,
        )
    )
    assert one == two
    keys = stable_names([a, b])
    assert [len(set(each)) for each in keys] == [5, 5]
    # Of three such nodes the first is the first, whatever it is called; one of them has no number at all.
    for trace, same, names in (
        (a, keys[0], ("R_token_9", "R_token_2", "R")),
        (b, keys[1], ("R", "R_token_9", "R_token_4")),
    ):
        assert [same[trace.name.texts.index(name)] for name in names] == [("R", "R", i) for i in range(3)]


def test_a_process_alone_has_its_names(tmp_path: Path) -> None:
    trace = process(tmp_path / "a.json", ("x", "Conv"), ("Cast_3", "Cast"))
    assert stable_names([trace]) == [["x", "Cast_3"]]
    assert stable_names([]) == []


def test_order_is_that_of_the_first_start(tmp_path: Path) -> None:
    events = [
        node("body", "Add", 12, 2),
        node("loop", "Loop", 10, 9),
        node("first", "Conv", 1, 2),
        run(0, 30),
    ]
    trace = read_profile(profile(tmp_path / "p.json", *events))
    assert [trace.name.texts[n] for n in in_order(trace)] == ["first", "loop", "body"]
    assert [trace.name.texts[n] for n in in_order(trace, main_graph=True)] == ["first", "loop"]


PLACES = tuple(
    NodeSurroundings(
        kind=("R", "R"), before=(f"conv{i}",), after=(f"relu{i}",), reads=(f"conv{i}",), feeds=(f"relu{i}",)
    )
    for i in range(3)
)


def branches(path: Path, *order: str) -> Trace:
    """Three branches of a convolution, an inserted node and a Relu; of each branch the shapes are its own."""
    events: list[dict[str, Any]] = []
    shapes = {"0": [{"float": [1, 8]}], "1": [{"float": [1, 8]}], "2": [{"float": [1, 4]}]}
    for at, text in enumerate(order):
        name, _, branch = text.partition(":")
        branch = branch or name[-1]
        op = "R" if name.startswith("R") else name[:-1]
        shape = {"input_type_shape": shapes[branch], "output_type_shape": shapes[branch]}
        events.append(node(name, op, 10 * at, 8, **shape))
    return read_profile(profile(path, *events, run(0, 10 * len(order))))


def test_nodes_are_where_what_they_read_was_made_and_what_they_make_is_read(tmp_path: Path) -> None:
    """The branches come in another order, and the numbers are others; the places are the same."""
    one = branches(
        tmp_path / "1.json",
        "conv0",
        "R_token_1:0",
        "relu0",
        "conv1",
        "conv2",
        "R:2",
        "R_token_7:1",
        "relu2",
        "relu1",
    )
    two = branches(
        tmp_path / "2.json",
        "conv2",
        "conv1",
        "R_token_7:1",
        "relu1",
        "R_token_1:2",
        "conv0",
        "relu2",
        "R:0",
        "relu0",
    )
    assert assigned(one, PLACES) == {"R_token_1": 0, "R": 2, "R_token_7": 1}
    assert assigned(two, PLACES) == {"R_token_7": 1, "R_token_1": 2, "R": 0}
    keys = stable_names([one, two], PLACES)
    same = [
        dict(zip(each, trace.name.texts, strict=True)) for each, trace in zip(keys, (one, two), strict=True)
    ]
    assert [same[0]["place", i] for i in range(3)] == ["R_token_1", "R_token_7", "R"]
    assert [same[1]["place", i] for i in range(3)] == ["R", "R_token_7", "R_token_1"]


def test_what_is_needed_first_comes_first(tmp_path: Path) -> None:
    # Both fit both places; were the first one given to the branch whose Relu comes last, the second would fit none.
    trace = branches(tmp_path / "1.json", "conv0", "conv1", "R_token_3:0", "relu1", "R:0", "relu0")
    assert assigned(trace, PLACES[:2]) == {"R_token_3": 1, "R": 0}


def test_what_fits_no_place_is_left_out(tmp_path: Path) -> None:
    trace = branches(tmp_path / "1.json", "conv0", "relu0", "R:0", "conv2", "R_token_3:2", "relu2")
    assert assigned(trace, PLACES[::2]) == {"R_token_3": 1}
    assert assigned(trace, ()) == {}
