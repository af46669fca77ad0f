"""Matching the nodes of two sides, and telling change from noise."""

from __future__ import annotations

import numpy as np
import pytest

from ortune.stats.multiplicity import widths_together
from ortune.trace import difference as module
from ortune.trace.difference import SideTimes, difference, parts
from ortune.trace.matching import SideNode, match


def side(label: str, nodes: list[tuple[str, str, tuple[str, ...], float]], *, seed: int = 0) -> SideTimes:
    """Five processes; a node's time varies by one percent."""
    rng = np.random.default_rng(seed)
    made = [
        SideNode(name=name, op_type=op, originals=origins, ns=ns * (1 + 0.01 * rng.standard_normal(5)))
        for name, op, origins, ns in nodes
    ]
    wall = np.sum([node.ns for node in made], axis=0)
    return SideTimes(label=label, processes=5, wall_ns=wall, categories={"kernels": wall}, nodes=made)


def test_a_fused_node_meets_its_parts() -> None:
    a = side(
        "a", [("conv", "Conv", ("c",), 100.0), ("relu", "Relu", ("r",), 20.0), ("x", "Add", ("x",), 5.0)]
    )
    b = side("b", [("fused c", "FusedConv", ("c", "r"), 90.0), ("x", "Add", ("x",), 5.0)], seed=1)
    found = difference(a, b, widths_together)
    (row,) = found.nodes
    assert (row.name, row.op_type) == ("c fused with r", "Conv + Relu -> FusedConv")
    assert (row.a_nodes, row.b_nodes) == (("conv", "relu"), ("fused c",))
    assert row.difference_ns == pytest.approx(-30, abs=3)
    assert row.high_ns is not None and row.high_ns < 0
    assert found.same_ns == pytest.approx(0, abs=0.2)
    # Rows and noise together are the whole difference.
    assert sum(r.difference_ns for r in found.nodes) + found.same_ns == pytest.approx(
        found.b_wall_ns - found.a_wall_ns
    )


def test_what_appeared_and_vanished_is_named() -> None:
    a = side("a", [("m", "MatMul", (), 50.0), ("gone", "Cast", (), 8.0)])
    b = side("b", [("m", "MatMul", (), 50.0), ("new", "Reorder", (), 9.0)])
    found = difference(a, b, widths_together)
    assert (found.only_a, found.only_b) == (("gone",), ("new",))
    assert {r.name: (r.a_ns is None, r.b_ns is None) for r in found.nodes} == {
        "gone": (False, True),
        "new": (True, False),
    }


def test_nodes_of_other_names_are_matched_by_operator_in_order() -> None:
    a = side("a", [("1", "Conv", (), 1.0), ("2", "Conv", (), 2.0), ("same", "Relu", (), 3.0)])
    b = side("b", [("same", "Relu", (), 3.0), ("x", "Conv", (), 1.0), ("y", "Conv", (), 2.0)])
    pairs = {(mine[0].name, theirs[0].name) for mine, theirs in match(a.nodes, b.nodes).groups}
    assert pairs == {("1", "x"), ("2", "y"), ("same", "same")}


def pairs(a: SideTimes, b: SideTimes) -> set[tuple[tuple[str, ...], tuple[str, ...]]]:
    return {
        (tuple(n.name for n in mine), tuple(n.name for n in theirs))
        for mine, theirs in match(a.nodes, b.nodes).groups
    }


def test_a_side_without_origins_meets_the_other_by_its_names() -> None:
    """As a model in ORT format: its nodes bear names of the model, or those that the optimiser gave."""
    a = side(
        "a.onnx",
        [
            ("y_nchwc", "Conv", ("conv1", "relu1"), 9.0),
            ("fused sum", "FusedAdd", ("add1",), 2.0),
            ("gone", "Cast", ("cast1",), 1.0),
            ("Reorder_1", "ReorderInput", (), 1.0),
        ],
    )
    b = side(
        "b.ort",
        [
            ("conv1", "FusedConv", (), 8.0),
            ("fused sum", "FusedAdd", (), 2.0),
            ("Reorder_7", "ReorderInput", (), 1.0),
            ("new", "Gather", (), 1.0),
        ],
    )
    assert pairs(a, b) == {
        (("y_nchwc",), ("conv1",)),
        (("fused sum",), ("fused sum",)),
        (("gone",), ()),
        (("Reorder_1",), ("Reorder_7",)),
        ((), ("new",)),
    }
    found = difference(a, b, widths_together)
    assert (found.by_name, found.by_order) == (2, 1)
    assert (found.only_a, found.only_b) == (("gone",), ("new",))


def test_nodes_of_two_models_meet_in_order_and_those_of_one_do_not() -> None:
    a = side("a", [("c0", "Conv", ("c0",), 1.0), ("c1", "Conv", ("c1",), 2.0)])
    other = side("b", [("x0", "Conv", ("x0",), 1.0), ("x1", "Conv", ("x1",), 2.0)])
    assert pairs(a, other) == {(("c0",), ("x0",)), (("c1",), ("x1",))}
    # Of one model: c1 has gone, and c9 is none of it.
    same = side("b", [("c0", "Conv", ("c0",), 1.0), ("c9", "Conv", ("c9",), 2.0)])
    assert pairs(a, same) == {(("c0",), ("c0",)), (("c1",), ()), ((), ("c9",))}


def test_inserted_nodes_meet_by_what_they_are_for_and_not_by_their_numbers() -> None:
    def made(nodes: list[tuple[str, str]], *, known: bool) -> SideTimes:
        inserted = [
            SideNode(
                name=name,
                op_type="ReorderInput",
                originals=(),
                purpose=purpose if known else "",
                ns=np.ones(3),
            )
            for name, purpose in nodes
        ]
        conv = SideNode(name="c", op_type="Conv", originals=("c",) if known else (), ns=np.ones(3))
        return SideTimes(label="", processes=1, wall_ns=np.ones(3), categories={}, nodes=[conv, *inserted])

    a = [
        ("ReorderInput_token_5", "for conv1"),
        ("ReorderInput_token_3", "for conv2"),
        ("ReorderInput", "for conv4"),
    ]
    b = [
        ("ReorderInput_token_3", "for conv1"),
        ("ReorderInput_token_5", "for conv3"),
        ("ReorderInput", "for conv2"),
    ]
    assert pairs(made(a, known=True), made(b, known=True)) == {
        (("c",), ("c",)),
        (("ReorderInput_token_5",), ("ReorderInput_token_3",)),
        (("ReorderInput_token_3",), ("ReorderInput",)),
        (("ReorderInput",), ()),
        ((), ("ReorderInput_token_5",)),
    }
    names = {
        row.name for row in difference(made(a, known=True), made(a[:1], known=True), widths_together).nodes
    }
    assert names == {"inserted: for conv2", "inserted: for conv4"}
    # Of traces the order alone is known.
    assert pairs(made(a, known=False), made(b, known=False)) == {
        (("c",), ("c",)),
        *(((one,), (other,)) for (one, _), (other, _) in zip(a, b, strict=True)),
    }


def test_nodes_of_two_models_meet_by_what_they_are_in_each() -> None:
    """B has a node more, and an exporter that counts."""
    a = side("a", [("c_0", "Conv", ("Conv_0",), 9.0), ("c_1", "Conv", ("Conv_1",), 8.0)])
    b = side(
        "b",
        [
            ("c_0", "Conv", ("Conv_0",), 9.0),
            ("c_1", "Conv", ("Conv_1",), 5.0),
            ("c_2", "Conv", ("Conv_2",), 8.0),
        ],
    )
    found = difference(a, b, widths_together, {"Conv_0": "Conv_0", "Conv_2": "Conv_1"})
    (row,) = (row for row in found.nodes if row.a_ns is None)
    assert (row.name, row.b_nodes, found.only_a, found.only_b) == ("Conv_1", ("c_1",), (), ("c_1",))
    assert {(r.a_nodes, r.b_nodes) for r in found.nodes if r.a_ns is not None} <= {
        (("c_0",), ("c_0",)),
        (("c_1",), ("c_2",)),
    }


def test_other_work_is_told_whatever_the_clock_says() -> None:
    rng = np.random.default_rng(0)

    def made(flops: float, *more: SideNode) -> SideTimes:
        nodes = [
            SideNode(
                name=f"n{i}",
                op_type="Conv",
                originals=(f"n{i}",),
                ns=100.0 + 50 * rng.standard_normal(5),
                work=(flops if i == 3 else 1e6, 1e4),
            )
            for i in range(9)
        ]
        return SideTimes(
            label="", processes=5, wall_ns=np.full(5, 900.0), categories={}, nodes=[*nodes, *more]
        )

    new = SideNode(
        name="new", op_type="Cast", originals=("new",), ns=np.array([9.0, 0, 0, 0, 0]), work=(0.0, 5e3)
    )
    found = difference(made(1e6), made(3e6, new), widths_together)
    assert {row.name for row in found.nodes} == {"n3", "new"}
    wide, cast = sorted(found.nodes, key=lambda row: row.name)
    assert (wide.a_flops, wide.b_flops, wide.work_ratio) == (1e6, 3e6, 3.0)
    assert (cast.a_bytes, cast.b_bytes, cast.b_ns) == (None, 5e3, pytest.approx(1.8))


def test_nodes_beyond_the_list_are_summed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_ROWS", 2)
    a = side("a", [(f"n{i}", "Conv", (), 100.0) for i in range(6)])
    b = side("b", [(f"n{i}", "Conv", (), 200.0 + 50 * i) for i in range(6)], seed=1)
    found = difference(a, b, widths_together)
    assert [row.name for row in found.nodes] == ["n5", "n4"]
    assert found.rest_ns == pytest.approx(250 + 200 + 150 + 100, rel=0.05)
    total = sum(row.difference_ns for row in found.nodes) + found.rest_ns + found.same_ns
    assert total == pytest.approx(found.b_wall_ns - found.a_wall_ns)


def test_many_nodes_of_one_operator_are_matched_at_once() -> None:
    n = 5_000
    times = np.array([1.0])
    one = [SideNode(name=f"a{i}", op_type="Conv", originals=(), ns=times) for i in range(n)]
    two = [SideNode(name=f"b{i}", op_type=f"Conv{i}", originals=(), ns=times) for i in range(n)]
    assert len(match(one, one).groups) == n and len(match(one, two).groups) == 2 * n
    sides = [
        SideTimes(label="", processes=1, wall_ns=times, categories={}, nodes=nodes) for nodes in (two, two)
    ]
    assert len(difference(sides[0], sides[1], widths_together).operators) == n


def noisy(times: np.ndarray, rng: np.random.Generator, *, own: float, common: float) -> SideTimes:
    """Five processes of nodes that vary each by itself and all with their process, by these shares."""
    ns = times[:, None] * np.exp(
        own * rng.standard_normal((len(times), 5)) + common * rng.standard_normal((1, 5))
    )
    nodes = [SideNode(name=f"n{i}", op_type=f"Op{i % 7}", originals=(), ns=row) for i, row in enumerate(ns)]
    return SideTimes(
        label="", processes=5, wall_ns=ns.sum(axis=0), categories={"kernels": ns.sum(axis=0)}, nodes=nodes
    )


@pytest.mark.parametrize("n", [pytest.param(40, marks=pytest.mark.long), 12])
def test_of_a_thousand_nodes_that_are_the_same_none_is_told(n: int) -> None:
    rng = np.random.default_rng(3)
    times = np.exp(rng.normal(9.0, 1.5, 1000))
    tellers = sum(
        bool(
            difference(
                noisy(times, rng, own=0.05, common=0.03),
                noisy(times, rng, own=0.05, common=0.03),
                widths_together,
            ).nodes
        )
        for _ in range(n)
    )
    assert tellers <= 0.05 * n + 2 * (0.05 * 0.95 * n) ** 0.5  # 5 % and two standard errors


@pytest.mark.parametrize("n", [pytest.param(40, marks=pytest.mark.long), 20])
@pytest.mark.parametrize("noise", [0.03, 0.08])
def test_a_node_that_takes_three_times_as_long_is_found_among_three_hundred(noise: float, n: int) -> None:
    rng = np.random.default_rng(4)
    found = false = 0
    for _ in range(n):
        times = np.exp(rng.normal(9.0, 1.0, 300))
        dear = times.copy()
        dear[7] *= 3
        told = {
            row.name
            for row in difference(
                noisy(times, rng, own=noise, common=noise),
                noisy(dear, rng, own=noise, common=noise),
                widths_together,
            ).nodes
        }
        found += "n7" in told
        false += len(told - {"n7"})
    assert found >= 0.9 * n
    assert false <= 0.3 * n  # a twentieth of all that is told, and what chance adds


@pytest.mark.parametrize("n", [pytest.param(200, marks=pytest.mark.long), 80])
def test_the_whole_run_has_an_interval_that_holds_its_true_difference(n: int) -> None:
    rng = np.random.default_rng(5)
    times = np.full(20, 1e4)
    held = 0
    for _ in range(n):
        found = difference(
            noisy(times, rng, own=0.02, common=0.03),
            noisy(1.1 * times, rng, own=0.02, common=0.03),
            widths_together,
        )
        assert found.low_ns is not None and found.high_ns is not None
        held += found.low_ns <= 2e4 <= found.high_ns
    assert held >= 0.95 * n - 2 * (0.05 * 0.95 * n) ** 0.5  # 95 %, and two standard errors


def test_runs_of_one_process_are_taken_together_in_parts() -> None:
    by_run = np.arange(2.0 * 23).reshape(2, 23)
    found = parts(by_run)
    assert found.shape == (2, module.PARTS)
    assert found.mean(axis=1) == pytest.approx(by_run.mean(axis=1))
    assert parts(by_run[:, :4]).shape == (2, 4) and parts(by_run[:, :0]).tolist() == [[0.0], [0.0]]
    # Every second hundred runs is slow: a single run seems to tell more than it does, a part does not.
    waves = 100.0 + 10.0 * (np.arange(1000) // 100 % 2)
    assert parts(waves[None]).std() == pytest.approx(5.0)


def test_a_single_process_has_no_interval_and_tells_every_row() -> None:
    one = SideTimes(
        label="a",
        processes=1,
        wall_ns=np.array([10.0]),
        categories={},
        nodes=[SideNode(name="n", op_type="Conv", originals=(), ns=np.array([10.0]))],
    )
    (row,) = difference(one, one, widths_together).nodes
    assert (row.low_ns, row.high_ns, row.difference_ns) == (None, None, 0.0)
