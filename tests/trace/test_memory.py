"""Memory of a run from real traces, and from lifetimes counted by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

from onnx_text import assemble
from ortune.trace.memory import BEFORE, POINTS, Lifetime, Resident, liveness, memory
from ortune.trace.ort_profile import read_profile
from ortune.trace.table import Trace
from trace_files import node, profile, run

ROWS = 1 << 18
MIB = 1 << 20


def traced(folder: Path, runs: int, *, pattern: bool = True, n_nodes: int = 4) -> Trace:
    """x (1 MiB) is doubled by concatenating it with itself, node by node, and reduced at the end."""
    nodes = [helper.make_node("Concat", ["x", "x"], ["v0"], name="c0", axis=0)]
    for i in range(1, n_nodes - 1):
        nodes.append(helper.make_node("Concat", [f"v{i - 1}", "x"], [f"v{i}"], name=f"c{i}", axis=0))
    nodes.append(helper.make_node("ReduceSum", [f"v{n_nodes - 2}", "axes"], ["y"], name="sum", keepdims=0))
    model = assemble(nodes, f"float[{ROWS}] x", "float y", {"axes": np.array([0])})
    onnx.save(model, folder / "m.onnx")
    options = onnxruntime.SessionOptions()
    options.enable_profiling = True
    options.enable_mem_pattern = pattern
    options.profile_file_prefix = str(folder / "p")
    session = onnxruntime.InferenceSession(folder / "m.onnx", options, providers=["CPUExecutionProvider"])
    for _ in range(runs):
        session.run(None, {"x": np.ones(ROWS, np.float32)})
    return read_profile(Path(session.end_profiling()))


def peak_of(trace: Trace, run: int, **options: Any) -> Any:
    found = memory(trace, run, **options)
    assert found is not None
    return found


def test_the_peak_and_what_holds_it(tmp_path: Path) -> None:
    trace = traced(tmp_path, 1, pattern=False)
    found = peak_of(trace, 0)
    # Beside the input, which is the caller's: 3 MiB that c1 made (the arena may give a chunk of 4) and 4 MiB of c2.
    assert found.peak_node == "c2"
    assert 7 * MIB <= found.peak_bytes < 8.1 * MIB
    assert found.at_peak == (("c2", 4 * MIB), ("c1", 3 * MIB))
    assert found.held_bytes >= found.peak_bytes
    assert [p.node for p in found.points] == ["c0", "c1", "c2", "sum"]
    assert max(p.in_use_bytes for p in found.points) == found.peak_bytes


def test_a_planned_block_does_not_hide_the_nodes(tmp_path: Path) -> None:
    trace = traced(tmp_path, 4)
    last = trace.in_use_bytes[trace.run == 3]
    assert np.ptp(last) < MIB, "ONNX Runtime plans no block any more: this test proves nothing"
    found = peak_of(trace, 3)
    assert found.peak_node == "c2"
    assert found.at_peak[0] == ("c2", 4 * MIB)
    assert found.run == 0 and found == peak_of(trace, 0)
    # Later runs hold what they planned, which may be more; what they have beyond the values is told as that.
    assert sum(owner.bytes for owner in found.owners) == found.total_bytes == found.peak_bytes
    planned = sum(owner.bytes for owner in found.owners if owner.kind == "planned")
    assert planned == found.peak_bytes - trace.in_use_bytes[trace.run == 0].max()
    assert found.peak_bytes == trace.in_use_bytes.max()
    assert max(p.in_use_bytes for p in found.points) == trace.in_use_bytes[trace.run == 0].max()


def figures(path: Path, *runs: tuple[tuple[int, int, int], ...], provider: str = "") -> Trace:
    """Runs whose nodes have an output of so many bytes, so many in use, and so many held."""
    events = []
    for number, nodes in enumerate(runs):
        start = 1000 * number
        for i, (output, in_use, held) in enumerate(nodes):
            sizes = {"output_size": str(output), "activation_size": "0", "parameter_size": "0"}
            memory = {"mem_bytes_in_use": str(in_use), "mem_arena_held": str(held)}
            events.append(node(f"n{i}", "Add", start + 10 * i, 5, **sizes, **memory))
        if provider:
            host = {"provider": provider, "mem_bytes_in_use": "10", "mem_arena_held": "99999"}
            events.append(node("host", "Add", start + 500, 5, **host))
        events.append(run(start, 900))
    return read_profile(profile(path / "p.json", *events))


def test_a_first_run_of_other_shapes_is_not_told(tmp_path: Path) -> None:
    other = ((512, 9000, 9000), (512, 9500, 9500), (512, 9900, 9900))
    first = ((256, 1000, 4000), (256, 1500, 4000), (256, 1800, 4000))
    planned = ((256, 2000, 4000), (256, 2000, 4000), (256, 2000, 4000))
    trace = figures(tmp_path, other, first, planned, planned)
    found = peak_of(trace, 3)
    # Of the runs with these shapes the first is told; its own most is less than what was planned from it.
    assert (found.run, found.peak_bytes, found.peak_node) == (1, 2000, "n2")
    assert [p.in_use_bytes for p in found.points] == [1000, 1500, 1800]
    alone = peak_of(figures(tmp_path, other, planned), 1)
    assert (alone.run, alone.peak_bytes) == (1, 2000)


def test_what_is_held_is_of_the_allocator_that_is_told(tmp_path: Path) -> None:
    nodes = ((256, 1000, 4000), (256, 1500, 4000))
    assert peak_of(figures(tmp_path, nodes, provider="OtherExecutionProvider"), 0).held_bytes == 4000


def test_lifetimes_name_values(tmp_path: Path) -> None:
    values = [
        Lifetime(name="x", bytes=MIB, first=BEFORE, last=2),
        Lifetime(name="v0", bytes=2 * MIB, first=0, last=1),
        Lifetime(name="v1", bytes=3 * MIB, first=1, last=2),
        Lifetime(name="v2", bytes=4 * MIB, first=2, last=3),
    ]
    trace = traced(tmp_path, 1, pattern=False)
    named = peak_of(trace, 0, nodes=["c0", "c1", "c2", "sum"], values=values, weights_bytes=8)
    assert named.at_peak == (("v2", 4 * MIB), ("v1", 3 * MIB))
    assert named.weights_bytes == 8
    owners = {owner.name or owner.kind: owner.bytes for owner in named.owners}
    assert (owners["v2"], owners["v1"], owners["weights"], owners["inputs"]) == (4 * MIB, 3 * MIB, 8, MIB)
    # What the arena gave beyond what was asked for has a row of its own, and all rows are the whole.
    assert owners["rounding"] == named.peak_bytes - 7 * MIB - owners.get("session", 0)
    assert named.total_bytes == sum(owners.values()) == named.peak_bytes + MIB + 8
    watched = peak_of(
        trace, 0, nodes=["c0", "c1", "c2", "sum"], values=values, weights_bytes=8,
        resident=Resident(peak_bytes=90 * MIB, base_bytes=40 * MIB),
    )  # fmt: skip
    assert watched.total_bytes == sum(owner.bytes for owner in watched.owners) == 90 * MIB
    assert {owner.kind: owner.bytes for owner in watched.owners}["libraries"] == 40 * MIB
    # The graph that ran has no such nodes: then the allocator's figures tell.
    assert peak_of(trace, 0, nodes=["other"], values=values).at_peak[0][0] == "c2"


def test_points_are_few_and_keep_the_peak(tmp_path: Path) -> None:
    values = [Lifetime(name=f"v{i}", bytes=256 + (i == 777), first=i, last=i) for i in range(2000)]
    names = [f"n{i}" for i in range(2000)]
    found = liveness(names, values)
    assert len(found.points) == POINTS
    assert found.peak_node == "n777"
    assert [p.in_use_bytes for p in found.points].count(found.peak_bytes) == 1


def test_an_old_trace_has_no_figures(tmp_path: Path) -> None:
    path = tmp_path / "old.json"
    path.write_text(
        '[{"cat":"Node","pid":1,"tid":1,"dur":5,"ts":10,"ph":"X","name":"a_kernel_time","args":{"op_name":"Relu"}},\n'
        '{"cat":"Session","pid":1,"tid":1,"dur":9,"ts":8,"ph":"X","name":"model_run","args":{}}]\n'
    )
    assert memory(read_profile(path), 0) is None


def test_liveness_by_hand() -> None:
    found = liveness(
        ["a", "b", "c"],
        [
            Lifetime(name="x", bytes=100, first=BEFORE, last=0),
            Lifetime(name="u", bytes=10, first=0, last=2),
            Lifetime(name="v", bytes=50, first=1, last=2),
            Lifetime(name="unread", bytes=30, first=1, last=1),
            Lifetime(name="y", bytes=5, first=2, last=3),
        ],
        weights_bytes=7,
    )
    assert [p.in_use_bytes for p in found.points] == [110, 190, 165]
    assert (found.source, found.peak_bytes, found.peak_node) == ("liveness", 190, "b")
    assert found.at_peak == (("x", 100), ("v", 50), ("unread", 30), ("u", 10))
    assert (found.held_bytes, found.weights_bytes) == (None, 7)


@pytest.mark.parametrize("values", [[], [Lifetime(name="x", bytes=3, first=BEFORE, last=0)]])
def test_a_graph_without_nodes(values: list[Lifetime]) -> None:
    found = liveness([], values)
    assert found.peak_bytes == sum(v.bytes for v in values)
    assert found.points == ()
