"""Matching the nodes of two sides, and telling change from noise."""

from __future__ import annotations

import numpy as np
import pytest

from ortune.stats.processes import t_quantile
from ortune.trace.difference import SideNode, SideTimes, difference, match


def quantile(degrees: float) -> float:
    return t_quantile(0.975, max(1, int(degrees)))


def side(label: str, nodes: list[tuple[str, str, tuple[str, ...], float]], *, seed: int = 0) -> SideTimes:
    """Five processes; a node's time varies by one percent."""
    rng = np.random.default_rng(seed)
    made = [
        SideNode(name=name, op_type=op, originals=origins, ns=ns * (1 + 0.01 * rng.standard_normal(5)))
        for name, op, origins, ns in nodes
    ]
    wall = np.sum([node.ns for node in made], axis=0)
    return SideTimes(label=label, wall_ns=wall, categories={"kernels": wall}, nodes=made)


def test_a_fused_node_meets_its_parts() -> None:
    a = side(
        "a", [("conv", "Conv", ("c",), 100.0), ("relu", "Relu", ("r",), 20.0), ("x", "Add", ("x",), 5.0)]
    )
    b = side("b", [("fused c", "FusedConv", ("c", "r"), 90.0), ("x", "Add", ("x",), 5.0)], seed=1)
    found = difference(a, b, quantile)
    (row,) = found.nodes
    assert (row.name, row.op_type) == ("c (+1)", "Conv + Relu -> FusedConv")
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
    found = difference(a, b, quantile)
    assert (found.only_a, found.only_b) == (("gone",), ("new",))
    assert {r.name: (r.a_ns is None, r.b_ns is None) for r in found.nodes} == {
        "gone": (False, True),
        "new": (True, False),
    }


def test_nodes_of_other_names_are_matched_by_operator_in_order() -> None:
    a = side("a", [("1", "Conv", (), 1.0), ("2", "Conv", (), 2.0), ("same", "Relu", (), 3.0)])
    b = side("b", [("same", "Relu", (), 3.0), ("x", "Conv", (), 1.0), ("y", "Conv", (), 2.0)])
    pairs = {(mine[0].name, theirs[0].name) for mine, theirs in match(a.nodes, b.nodes)}
    assert pairs == {("1", "x"), ("2", "y"), ("same", "same")}


def test_noise_is_not_told_as_change() -> None:
    told = 0
    for seed in range(40):
        names = [(f"n{i}", "Conv", (), 100.0) for i in range(10)]
        told += len(
            difference(side("a", names, seed=2 * seed), side("b", names, seed=2 * seed + 1), quantile).nodes
        )
    assert told / 400 < 0.09  # 5 % and its error


def test_a_single_process_has_no_interval_and_tells_every_row() -> None:
    one = SideTimes(
        label="a",
        wall_ns=np.array([10.0]),
        categories={},
        nodes=[SideNode(name="n", op_type="Conv", originals=(), ns=np.array([10.0]))],
    )
    (row,) = difference(one, one, quantile).nodes
    assert (row.low_ns, row.high_ns, row.difference_ns) == (None, None, 0.0)
