"""What a profile says in sentences: drift, wrong floors, kernels without a host; and that names decide no floor."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import msgspec
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import ortune
from damaged_traces import GOLDEN
from facts import facts
from onnx_text import assemble
from ortune import rules
from ortune.engines.profiling import processes
from ortune.records import (
    Category,
    CategoryName,
    MachinePeak,
    ProfiledNode,
    ProfileResult,
    RunVariance,
    TraceInfo,
)
from ortune.show import profile_nodes
from ortune.verbs.profile import note_words as profile_notes
from ortune.verbs.profile import run as flow
from ortune.verbs.profile import words as profile_words

NAMES = get_args(CategoryName)


def result(**fields: Any) -> ProfileResult:
    """A run of 100 ns, all of it in kernels."""
    return ProfileResult(
        trace=TraceInfo(path="", format="ort-json", n_events=0, n_runs=1), n_runs=1, wall_ns=100.0,
        categories=tuple(Category(name=n, ns=100.0 if n == "kernels" else 0.0) for n in NAMES), **fields,
    )  # fmt: skip


def findings(result: ProfileResult) -> list[str]:
    return [found.sentence() for found in rules.findings(rules.Facts(profile=result))]


def test_runs_that_took_no_time_were_recorded_all_the_same() -> None:
    coarse = msgspec.structs.replace(result(), wall_ns=0.0)
    assert "too coarse" in profile_words.run_sentence(coarse)
    assert "recorded completely" in profile_words.run_sentence(msgspec.structs.replace(coarse, n_runs=0))


def drifting(by: float, left_out: int = 0) -> str:
    """What is found where the times of thirty runs change by that share; the ones left out are ten times as long."""
    rng = np.random.default_rng(3)
    times = 1e6 * (1 + 0.002 * rng.standard_normal(30)) * np.linspace(1, 1 + by, 30)
    runs = (*np.full(left_out, 1e7), *times)
    return " ".join(
        findings(result(variance=RunVariance(warmup_runs=0, left_out_runs=left_out, runs_ns=runs)))
    )


def test_runs_that_become_slower_or_faster_are_told() -> None:
    facts(drifting(0.2), "last third", "13 % slower", "frequency")
    facts(drifting(-0.2), "last third", "faster", "warm-up")
    assert "last third" not in drifting(0.02) + drifting(0.0)
    assert drifting(0.0, left_out=12) == "", "runs that are left out are no drift"


def test_nodes_faster_than_the_machine_are_named() -> None:
    def node(name: str, floor_ns: float) -> ProfiledNode:
        return ProfiledNode(name=name, op_type="Conv", time_ns=5e6, share_ratio=0.2, floor_ns=floor_ns)

    wrong = result(nodes=(*(node(f"over{i}", 9e6) for i in range(4)), node("under", 4e6)))
    beyond = "MSR005 nodes faster than the measured peak allows are excluded from the headroom: over0, "
    "over1, over2 and 1 more"
    assert any(text.startswith(beyond) for text in findings(wrong))
    assert not any("MSR005" in text for text in findings(result(nodes=(node("under", 4e6),))))


@pytest.mark.parametrize("starts", [True, False])
def test_kernels_without_a_host_are_not_told_as_a_host(tmp_path: Path, starts: bool) -> None:
    at = "start time: {} ns, " if starts else ""
    lines = [
        f'[profiling] kernel "1|Conv|/{name}|C" {at.format(1000 * (2 * run + i))}execution time: 500 ns'
        for run in range(4)
        for i, name in enumerate("ab")
    ]
    path = tmp_path / "page.log"
    path.write_text("\n".join(lines) + "\n")
    found = ortune.profile(path, store=tmp_path / "store").result
    assert isinstance(found, ProfileResult)
    assert found.trace.device_only and found.headroom is None and found.device_ns == {}
    share = {c.name: c.ns / found.wall_ns for c in found.categories if c.ns}
    # Two kernels of 500 ns start 1000 ns apart.
    assert share == pytest.approx({"kernels": 2 / 3, "device-idle": 1 / 3} if starts else {"kernels": 1.0})
    assert any("33 % " in text and "idle" in text for text in found.findings) == starts
    assert "on the device" not in dict(profile_notes.notes(found))
    assert profile_nodes.absent_categories(found) == "", "nothing is known of the host"


def test_a_log_with_a_host_has_its_kernels_beside(tmp_path: Path) -> None:
    found = ortune.profile(GOLDEN / "web-native-1.30.0.log", store=tmp_path / "store").result
    assert isinstance(found, ProfileResult)
    assert not found.trace.device_only and found.headroom is not None and found.device_ns


def products(path: Path, *, named: bool) -> Path:
    """Three products of matrices, with weights of different sizes."""
    rng = np.random.default_rng(0)
    sizes = (64, 512, 256, 1024)
    weights = [
        numpy_helper.from_array(rng.standard_normal(shape, dtype=np.float32), f"w{i}")
        for i, shape in enumerate(pairwise(sizes))
    ]
    nodes = [
        helper.make_node("MatMul", [f"x{i}", f"w{i}"], [f"x{i + 1}"], name=f"product{i}" if named else "")
        for i in range(len(weights))
    ]
    onnx.save(
        assemble(
            nodes, f"float[4,{sizes[0]}] x0", f"float[4,{sizes[-1]}] x{len(weights)}", weights, opset=13
        ),
        path,
    )
    return path


def test_nodes_have_the_same_floors_with_and_without_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    peak = MachinePeak(
        cpu="x",
        flops_per_s={1: 1e15},
        int8_ops_per_s={1: 1e15},
        bytes_per_s={1: 1e13},  # beyond any machine: a peak that nodes exceed is measured again
        cache_bytes=1 << 18,
    )
    monkeypatch.setattr(flow, "load_peak", lambda *_: peak)
    monkeypatch.setattr(processes, "runs_within", lambda *_: 16)

    def floors(*, named: bool) -> list[float]:
        path = products(tmp_path / f"{named}.onnx", named=named)
        found = ortune.profile(path, set=["intra=1"], processes=1, store=tmp_path / "store").result
        assert isinstance(found, ProfileResult)
        assert found.variance is not None and found.variance.left_out_runs >= 4
        assert (
            len(found.variance.runs_ns) == found.trace.n_runs == found.variance.left_out_runs + found.n_runs
        )
        return sorted(n.floor_ns or 0.0 for n in found.nodes if n.op_type == "MatMul")

    with_names = floors(named=True)
    assert with_names[0] > 0 and floors(named=False) == pytest.approx(with_names)


def test_waiting_tells_imbalance_from_sharing_out_work() -> None:
    node = ProfiledNode(
        name="a", op_type="Conv", time_ns=90.0, wait_ns=40.0, imbalance_ns=30.0, share_ratio=1.0
    )
    shares = {"kernels": 60.0, "thread-wait": 40.0}
    times = tuple(Category(name=name, ns=shares.get(name, 0.0)) for name in NAMES)

    def found(pieces: tuple[int, ...]) -> str:
        return " ".join(
            findings(msgspec.structs.replace(result(nodes=(node,), pieces=pieces), categories=times))
        )

    facts(found((1000, 900)), "40 % of the run", "in a (75 %", "late threads", "25 % distributing work) ->")
    facts(found((1000, 500, 10)), "from 10 to 1,000)")
