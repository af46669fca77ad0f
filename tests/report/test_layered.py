"""Where the nodes of a graph are drawn: rows, order, what is left out; and data that is no graph."""

from __future__ import annotations

import itertools
import random

from ortune.report.html.layered import layout


def test_a_node_stands_below_all_that_it_reads() -> None:
    reads = {"out": ("left", "right"), "left": ("in",), "right": ("deep",), "deep": ("in",), "in": ()}
    found = layout(reads, set(reads))
    rows = {name: row for name, (_, row) in found.places.items()}
    assert rows == {"in": 0, "left": 1, "deep": 1, "right": 2, "out": 3}
    assert {edge[:2] for edge in found.edges} == {(a, b) for b, those in reads.items() for a in those}
    assert not any(through for *_, through in found.edges)


def test_a_chain_is_a_straight_line() -> None:
    names = [f"n{i}" for i in range(50)]
    found = layout({name: names[i - 1 : i] if i else () for i, name in enumerate(names)}, set(names))
    assert {column for column, _ in found.places.values()} == {0.0}
    assert (found.columns, found.rows) == (1.0, 50)


def test_no_two_nodes_of_a_row_overlap() -> None:
    rng = random.Random(11)
    names = [f"n{i}" for i in range(300)]
    reads = {
        name: tuple(rng.sample(names[max(0, i - 20) : i], min(i, rng.randint(0, 3))))
        for i, name in enumerate(names)
    }
    found = layout(reads, set(names))
    for row in range(found.rows):
        columns = sorted(column for column, at in found.places.values() if at == row)
        assert all(b - a > 1 - 1e-9 for a, b in itertools.pairwise(columns))
        assert columns and columns[0] >= 0 and columns[-1] <= found.columns - 1


def test_what_is_left_out_is_passed_through() -> None:
    reads = {"c": ("b2", "a"), "b2": ("b1",), "b1": ("a", "z"), "a": (), "z": ()}
    found = layout(reads, {"a", "c", "z"})
    assert sorted(found.edges) == [("a", "c", False), ("z", "c", True)]
    assert found.places["c"][1] == 1


def test_what_is_no_graph_is_drawn_all_the_same() -> None:
    circle = {"a": ("b", "a", "nobody"), "b": ("c",), "c": ("a",)}
    found = layout(circle, {"a", "b", "c"})
    assert set(found.places) == {"a", "b", "c"}
    assert all(found.places[start][1] < found.places[end][1] for start, end, _ in found.edges)
    assert layout({}, set()).rows == 0
    deep = {f"n{i}": (f"n{i + 1}",) for i in range(20_000)}
    assert layout(deep, {"n0", "n19999"}).edges == (("n19999", "n0", True),)


def test_many_readers_of_what_is_left_out_keep_the_drawing_small() -> None:
    reads: dict[str, tuple[str, ...]] = {f"a{i}": () for i in range(200)}
    reads["hub"] = tuple(reads)
    reads |= {f"b{i}": ("hub",) for i in range(200)}
    found = layout(reads, set(reads) - {"hub"})
    assert len(found.edges) <= 200 * 24
