"""Why a model is slow on a GPU: one finding with the causes that hold, out of profiles."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import onnx
import onnx.parser
import pytest
from rule_facts import CPU, plain

from damaged_traces import GOLDEN
from facts import facts
from ortune import rules
from ortune.engines.profiling.nodes import NodeOrigins
from ortune.engines.profiling.result import result_of
from ortune.graph.model.open import open_model
from ortune.records import Finding, GpuRun, MachinePeak, PageSeen, Plan, ProfileResult
from ortune.rules import Facts
from ortune.trace.attribution import attribute
from ortune.trace.read import read_trace
from ortune.trace.table import Trace
from ortune.verbs.profile import words as profile_words
from trace_files import node, profile, run

CUDA = "CUDAExecutionProvider"
SMALL = {"input_type_shape": [{"float": [1, 8]}], "output_type_shape": [{"float": [1, 8]}]}


def told(trace: Trace) -> ProfileResult:
    return result_of("", trace, attribute(trace, range(1, trace.n_runs)), 1, NodeOrigins())


def found(result: ProfileResult, **known: Any) -> list[Finding]:
    return [*rules.findings(Facts(profile=result, **known))]


def executor(start: float, took: float) -> dict[str, Any]:
    return run(start, took) | {"name": "SequentialExecutor::Execute"}


def on_cuda(folder: Path, nodes: Sequence[tuple[str, str, str]], took: float, end: float) -> ProfileResult:
    """Runs of nodes (name, operator, provider) of so many microseconds each, and so many of waiting at the end."""
    events = []
    for number in range(6):
        start = 100_000.0 * number
        for place, (name, op, provider) in enumerate(nodes):
            events.append(node(name, op, start + 5 + place * took, took - 1, provider=provider, **SMALL))
        inside = len(nodes) * took + 10
        events += [executor(start + 2, inside), run(start, inside + end)]
    return told(read_trace(profile(folder / "p.json", *events)))


def faster(trace: Trace, times: int) -> Trace:
    """The same as a GPU so many times as fast would have computed it: runs end that much earlier."""
    kernels = trace.kernels
    shorter = kernels.duration_ns // times
    saved = np.zeros_like(trace.run_ns)
    np.add.at(saved, trace.run[kernels.row], kernels.duration_ns - shorter)
    return replace(trace, kernels=replace(kernels, duration_ns=shorter), run_ns=trace.run_ns - saved)


@pytest.mark.parametrize(
    "name",
    ["web-native-1.30.0.log", "web-jsep-1.30.0.log", "web-kernels-1.30.0.log", "webgpu-plugin-0.4.0.json"],
)
def test_a_gpu_that_computes_all_the_time_is_not_told_of(name: str) -> None:
    assert "PLC007" not in {finding.code for finding in found(told(read_trace(GOLDEN / name)))}


@pytest.mark.parametrize("name", ["native", "jsep"])
def test_what_is_left_of_a_run_on_a_gpu_that_is_faster_is_told_in_one_finding(name: str) -> None:
    trace = faster(read_trace(GOLDEN / f"web-{name}-1.30.0.log"), 100)
    result = told(trace)
    (idle,) = [finding for finding in found(result) if finding.code in ("PLC002", "PLC007", "GRA005")]
    assert idle.code == "PLC007"
    share = sum(result.device_ns.values()) / result.wall_ns
    assert idle.share_ratio == pytest.approx(1 - share) and f"{100 * share:.0f} % of the run" in idle.what
    assert "transfer of inputs" in idle.evidence
    assert idle.fix.endswith("--a-target web-webgpu --b-target web-wasm")
    page = PageSeen(browser="Chromium", isolated=True, software=True)
    assert "PLC007" not in {finding.code for finding in found(result, page=page)}


def test_a_run_that_lasts_as_long_as_its_nodes_are_handed_over(tmp_path: Path) -> None:
    nodes = [(f"n{i}", "Relu", CUDA) for i in range(40)]
    (idle,) = found(on_cuda(tmp_path, nodes, took=30, end=60))
    assert idle.code == "PLC007" and "at most" in idle.what
    assert "launching 40 nodes" in idle.evidence and "larger batches" in idle.fix
    assert "in nodes, by the host's clock" in profile_words.run_sentence(on_cuda(tmp_path, nodes, 30, 60))
    assert next(iter(found(on_cuda(tmp_path, nodes, took=30, end=60_000)))).code == "PLC002"
    counting = [(name, "NonZero", provider) for name, _, provider in nodes]
    assert "PLC007" not in {each.code for each in found(on_cuda(tmp_path, counting, took=30, end=60))}


@pytest.mark.parametrize(
    ("dim", "when"), [("n", "for each new input shape"), (8, "once")], ids=["open", "fixed"]
)
def test_the_first_run_with_a_shape_is_a_term_of_the_sum(tmp_path: Path, dim: str | int, when: str) -> None:
    result = on_cuda(tmp_path, [(f"n{i}", "Relu", CUDA) for i in range(40)], took=30, end=60)
    assert result.variance is not None
    _, *later = result.variance.runs_ns
    (idle,) = found(result)
    assert "the first run" not in idle.evidence  # as short as the others
    slow = msgspec.structs.replace(result.variance, runs_ns=(later[0] + 750e6, *later))
    path = tmp_path / "m.onnx"
    text = f'<ir_version: 8, opset_import: ["": 17]> g (float[{dim}] x) => (float[{dim}] y) {{ y = Relu(x) }}'
    onnx.save(onnx.parser.parse_model(text), path)
    asked = {"model": open_model(path), "target": "cuda"}
    idle = next(
        f for f in found(msgspec.structs.replace(result, variance=slow), **asked) if f.code == "PLC007"
    )
    assert "takes 750 ms more" in idle.evidence and when in idle.evidence


def test_nodes_on_the_cpu_in_the_middle_are_its_first_cause(tmp_path: Path) -> None:
    nodes = [
        ("a", "Conv", CUDA), ("down", "MemcpyToHost", CUDA), ("places", "NonZero", CPU), ("more", "Unique", CPU),
        ("up", "MemcpyFromHost", CUDA), ("b", "Conv", CUDA),
    ]  # fmt: skip
    result = on_cuda(tmp_path, nodes, took=100, end=20)
    before = {name: (earlier,) for (earlier, _, _), (name, _, _) in itertools.pairwise(nodes)}
    linked = [msgspec.structs.replace(each, reads=before.get(each.name, ())) for each in result.nodes]
    (idle,) = found(msgspec.structs.replace(result, nodes=tuple(linked)))
    assert idle.code == "PLC007" and {*idle.where} == {"places", "more"}
    facts(
        idle.evidence.partition("; ")[0],
        "2 nodes on the CPU between nodes on CUDA",
        "with 2 copies between devices",
    )
    assert "ortune tune model.onnx --targets cpu,cuda; " in idle.fix


@pytest.mark.parametrize("dim", [8, "n"])
def test_the_fix_of_the_largest_cause_has_the_command_that_measures_it(
    tmp_path: Path, dim: str | int
) -> None:
    path = tmp_path / "m.onnx"
    text = f'<ir_version: 8, opset_import: ["": 17]> g (float[{dim}] x) => (float[{dim}] y) {{ y = Relu(x) }}'
    onnx.save(onnx.parser.parse_model(text), path)
    asked = {"model": open_model(path), "target": "cuda"}
    launches = on_cuda(tmp_path, [(f"n{i}", "Relu", CUDA) for i in range(40)], took=30, end=60)
    (idle,) = found(launches, **asked)
    words = f"ortune compare {path} --target cuda --b-set cuda_graph=1 --b-set call_style=device_binding; "
    # A graph is captured for one shape.
    assert (words in idle.fix) == (dim == 8)
    # Other settings than the default's would not be compared with these.
    plan = Plan(settings={"cuda_tf32": "0"})
    assert "--b-set" not in next(iter(found(launches, plan=plan, **asked))).fix
    assert "cuda_graph" not in next(iter(found(launches))).fix


def test_transfer_is_told_as_it_was_measured_without_the_profiler(tmp_path: Path) -> None:
    result = on_cuda(tmp_path, [(f"n{i}", "Relu", CUDA) for i in range(40)], took=5, end=60)
    apart = GpuRun(whole_ns=50e3, fed_ns=20e3, device_ns=10e3, input_bytes=4, output_bytes=4, n_runs=9)
    idle = next(f for f in found(msgspec.structs.replace(result, gpu_run=apart)) if f.code == "PLC007")
    assert "0.04 of 0.05 ms (80 %) is the transfer of inputs and outputs" in idle.evidence
    assert "--target cuda --b-set call_style=device_binding" in idle.fix
    assert idle.fix.endswith("--a-target cuda --b-target cpu")


def test_times_of_an_emulated_device_have_no_causes(tmp_path: Path) -> None:
    result = on_cuda(tmp_path, [(f"n{i}", "Relu", CUDA) for i in range(40)], took=30, end=60)
    codes = {finding.code for finding in found(result, emulated=CUDA)}
    assert "PLC007" not in codes and "MSR006" in codes


def test_little_work_and_what_a_cpu_takes_for_it_are_told(tmp_path: Path) -> None:
    result = on_cuda(tmp_path, [(f"n{i}", "Relu", CUDA) for i in range(10)], took=100, end=20)
    counted = msgspec.structs.replace(
        result, nodes=tuple(msgspec.structs.replace(each, flops=2e5) for each in result.nodes)
    )
    (idle,) = found(counted)
    assert "a run has 2 million operations" in idle.evidence
    peak = MachinePeak(cpu="Box", flops_per_s={1: 1e10, 2: 2e10}, int8_ops_per_s={}, bytes_per_s={})
    (idle,) = found(msgspec.structs.replace(counted, peak=peak))
    assert "only 10 % of the run" in idle.evidence


def test_who_asks_for_one_cause_by_its_code_gets_it(tmp_path: Path) -> None:
    result = on_cuda(tmp_path, [(f"n{i}", "Relu", CUDA) for i in range(40)], took=30, end=200)
    asked = rules.Selection(select=["PLC002"]).rules()
    assert [finding.code for finding in rules.found_by(asked, Facts(profile=result))] == ["PLC002"]


def test_the_model_and_the_target_that_were_named_stand_in_the_command(tmp_path: Path) -> None:
    result = on_cuda(tmp_path, [(f"n{i}", "Relu", CUDA) for i in range(40)], took=30, end=60)
    model = plain(tmp_path).model
    idle = next(f for f in found(result, model=model, target="cuda") if f.code == "PLC007")
    assert idle.fix.endswith(f"ortune compare {tmp_path / 'm.onnx'} --a-target cuda --b-target cpu")
