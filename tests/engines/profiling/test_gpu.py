"""Kernels on a GPU, out of profiles that onnxruntime-web really printed: how many, and what they took by node."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import ortune
from damaged_traces import GOLDEN
from ortune.engines.profiling.gpu import gpu_difference
from ortune.engines.profiling.kernels import kernels_a_run
from ortune.engines.profiling.nodes import NodeOrigins
from ortune.engines.profiling.processes import MachineLoad, ProfiledProcess
from ortune.records import ProfileDifference, Sensors
from ortune.show import difference_tables, difference_words, profile_nodes, transfer_words
from ortune.trace.attribution import attribute
from ortune.trace.read import read_trace
from ortune.trace.table import Trace
from ortune.verbs.profile import words as profile_words

NATIVE, JSEP, KERNELS_ALONE, WASM = (
    GOLDEN / f"web-{name}-1.30.0.log" for name in ("native", "jsep", "kernels", "wasm")
)
CONV = "/body/conv/Conv_token_5"


def process(trace: Trace) -> ProfiledProcess:
    found = attribute(trace, range(1, trace.n_runs))
    return ProfiledProcess(
        path=Path(), trace=trace, warmup=1, attribution=found, latency_ns=1.0, slowdown=None,
        state=MachineLoad(sensors=Sensors(), elapsed_ns=1),
    )  # fmt: skip


def longer(trace: Trace, name: str, times: int) -> Trace:
    """The same with the kernels of a node so many times as long."""
    mine = [trace.name[row] == name for row in trace.kernels.row]
    took = np.where(mine, times * trace.kernels.duration_ns, trace.kernels.duration_ns)
    return replace(trace, kernels=replace(trace.kernels, duration_ns=took))


@pytest.mark.parametrize(("path", "count"), [(NATIVE, 7), (JSEP, 8), (KERNELS_ALONE, 8), (WASM, None)])
def test_kernels_of_a_run_without_what_its_first_run_did_besides(path: Path, count: int | None) -> None:
    assert kernels_a_run(read_trace(path)) == count


@pytest.mark.parametrize("path", [NATIVE, JSEP])
def test_the_kernels_of_a_node_are_what_it_took(path: Path) -> None:
    trace = read_trace(path)
    slower = longer(trace, CONV, 3)
    mine = np.array([trace.name[row] == CONV and trace.run[row] > 0 for row in trace.kernels.row])
    more_ns = 2 * trace.kernels.duration_ns[mine].sum() / (trace.n_runs - 1)
    assert more_ns > 0
    sides = ([process(trace)] * 3, [process(slower)] * 3)
    found = gpu_difference(sides, (NodeOrigins(), NodeOrigins()), None)
    assert found is not None and found.a_kernels == found.b_kernels
    assert found.b_ns - found.a_ns == pytest.approx(more_ns)
    (row,) = found.nodes
    assert (row.name, row.difference_ns) == (CONV, pytest.approx(more_ns))
    told = ProfileDifference(a="a", b="b", a_wall_ns=found.a_ns, b_wall_ns=found.b_ns, gpu=found)
    assert (
        CONV in "\n".join(difference_words.brief(told))
        and "kernels per run" in difference_words.brief(told)[1]
    )
    assert any(table.title == "on the GPU, by node" for table in difference_tables.tables(told))


@pytest.mark.parametrize("path", [KERNELS_ALONE, WASM])
def test_there_is_no_second_table_where_nodes_tell_it_or_nothing_does(path: Path) -> None:
    mine = [process(read_trace(path))] * 3
    assert gpu_difference((mine, mine), (NodeOrigins(), NodeOrigins()), None) is None


def test_kernels_and_copies_of_cuda_stand_beside_the_host(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(gzip.decompress((GOLDEN / "cuda-cupti-1.31.1.json.gz").read_bytes()))
    result = ortune.profile(path, store=tmp_path / "st").result
    (kernels_ns,) = result.device_ns.values()
    assert sum(node.device_ns or 0.0 for node in result.nodes) == pytest.approx(
        kernels_ns, rel=0.02
    )  # nodes copy and clear too
    # A ResNet-50: one image of 224x224 in, and 1,000 numbers out.
    ways = {row.way: row for row in result.transfers if not row.of_nodes}
    assert ways["to-device"].bytes == 3 * 224 * 224 * 4 and ways["to-host"].bytes == 4000
    assert ways["to-device"].count == ways["to-host"].count == 1
    first = max(result.nodes, key=lambda node: node.device_ns or 0.0)
    assert first.name in profile_words.headline(result) and "the GPU computes for" in profile_words.headline(
        result
    )
    table = profile_nodes.nodes(result, 5)
    assert [column.head for column in table.columns][:3] == ["node", "on the device", "of it"]
    assert "to the device 588 KiB" in dict(transfer_words.rows(result))["copies"]
