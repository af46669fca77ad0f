"""Traces for the tests of what is made of one: of a nested model in both execution modes, and one by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest
from ort_events import nested_model

from ortune.records import ProfiledNode, ProfileResult, TraceInfo
from ortune.trace.attribution import attribute
from ortune.trace.ort_profile import read_profile
from ortune.trace.table import Trace
from trace_files import RUNS, synthetic


@pytest.fixture(scope="module", params=["nested", "parallel", "synthetic"])
def trace(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """Traces of a nested model in both execution modes, and one by hand."""
    folder = tmp_path_factory.mktemp("trace")
    if request.param == "synthetic":
        path = folder / "synthetic.json"
        path.write_text(synthetic())
        return read_profile(path)
    options = ort.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(folder / request.param)
    if request.param == "parallel":
        options.execution_mode = ort.ExecutionMode.ORT_PARALLEL
        options.inter_op_num_threads = 2
    session = ort.InferenceSession(nested_model(), options, providers=["CPUExecutionProvider"])
    for _ in range(RUNS):
        session.run(None, {"x": np.ones((16, 16), np.float32)})
    return read_profile(Path(session.end_profiling()))


@pytest.fixture(scope="module")
def result(trace: Trace) -> ProfileResult:
    """The mean run, with an origin for every other node."""
    found = attribute(trace, range(trace.n_runs))
    times = found.by_node.mean(axis=1)
    nodes = [
        ProfiledNode(
            name=name,
            op_type=trace.nodes.op_type[number],
            provider=trace.nodes.provider[number],
            layer=f"block.{number}/inner",
            time_ns=float(times[number]),
            share_ratio=0.1,
            originals=(f"/user/{number}", f"/user/{number}/b") if number % 2 else (),
            flops=1e6 * number,
        )
        for number, name in enumerate(trace.name.texts)
        if found.calls[number]
    ]
    return ProfileResult(
        trace=TraceInfo(path="trace.json", format=trace.format, n_events=trace.n_events, n_runs=trace.n_runs),
        n_runs=trace.n_runs,
        wall_ns=found.mean_wall_ns,
        categories=found.categories(),
        nodes=tuple(nodes),
    )
