"""Pages that are soaked: a real Chromium whose page calls a model with new values and counts its memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest

import ortune
from onnx_text import saved
from ortune.inputs import feed_files
from ortune.records import FeedRef, FreshInput, Plan, ProviderSpec, TrialRequest, Value
from ortune.targets.machine import Machine
from ortune.targets.soak_runner import prepared
from ortune.targets.soaking import Soaking, SoakTask
from ortune.targets.task import TrialTask
from ortune.targets.turns import load
from ortune.verbs.soak import words
from targets_here import runtimes_here
from web_models import needs

MODEL = """
    <ir_version: 8, opset_import: ["": 17]>
    g (float[n,64] x, int64[n] i) => (float[n,64] y) { t = Gather (x, i)  y = Relu (t) }
"""
FRESH = (FreshInput(name="x", kind="floats"), FreshInput(name="i", kind="integers", low=0, high=900))


def started(folder: Path, provider: str, settings: dict[str, Value], **more: Any) -> Soaking:
    """A page that has loaded the model, with inputs of two sizes."""
    model = saved(folder / "gather.onnx", onnx.parser.parse_model(MODEL))
    feeds = []
    for rows in (640, 16):
        place = folder / f"feed-{rows}"
        x, i = np.ones((rows, 64), np.float32), np.zeros(rows, np.int64)
        feed_files.write_feeds(place, {"x": x, "i": i})
        feeds.append(FeedRef(name=f"n={rows}", path=str(place)))
    work = folder / "work"
    work.mkdir()
    task = TrialTask(
        plan=Plan(settings=settings, providers=(ProviderSpec(name=provider),)),
        runtime=runtimes_here()[0],
        request=TrialRequest(model=str(model), feeds=tuple(feeds)),
        folder=work,
        scratch=folder,
    )
    page = prepared(SoakTask(task=task, fresh=FRESH, seed=3, **more), Machine(), [])
    assert isinstance(page, Soaking)
    assert load([page], lambda: False)
    return page


@pytest.mark.xdist_group("browser")
def test_a_page_reports_the_parts_of_its_memory(tmp_path: Path) -> None:
    needs("web-wasm")
    page = started(tmp_path, "wasm", {}, recreate=15)
    try:
        for calls in (0, 1, 40):
            page.turn(calls)
        page.conclude()
    finally:
        page.close()
    assert page.failure is None, page.failure
    none, first, last = page.points
    assert [point.calls for point in page.points] == [0, 1, 41]
    assert [point.sessions for point in page.points] == [1, 1, 3]
    for point in page.points:
        assert point.heap_bytes > 1 << 20 and point.wasm_bytes >= 16 << 20 and point.gpu_bytes == 0
        assert point.held_bytes == point.heap_bytes + point.wasm_bytes
        assert point.resident_bytes > 100 << 20  # of the whole browser
    assert first.latency_ns > 0 and last.active_ns > first.active_ns > none.active_ns
    done = page.done
    assert done is not None and 0 < done.base_bytes < 16 << 20  # before WebAssembly was loaded
    assert done.fixed == ("i",)  # indices beyond the 16 rows are refused
    assert [step.calls for step in done.steps] != [0, 41] and sum(step.calls for step in done.steps) == 41
    assert done.steps[1].first_call == 1  # the smallest


@pytest.mark.long
@pytest.mark.xdist_group("browser")
def test_the_buffers_of_outputs_on_the_gpu_are_counted_and_given_back(tmp_path: Path) -> None:
    needs("web-webgpu")
    page = started(tmp_path, "webgpu", {"web_build": "asyncify", "web_output_location": "gpu-buffer"})
    try:
        for calls in (1, 20, 20):
            page.turn(calls)
        page.conclude()
    finally:
        page.close()
    assert page.failure is None, page.failure
    _, early, late = page.points
    assert early.gpu_buffers > 0 and early.gpu_bytes > 0
    assert late.gpu_buffers <= early.gpu_buffers + 2


@pytest.mark.long
@pytest.mark.xdist_group("browser")
def test_a_soak_in_a_browser_ends_in_a_verdict(tmp_path: Path) -> None:
    needs("web-wasm")
    model = saved(tmp_path / "gather.onnx", onnx.parser.parse_model(MODEL))
    envelope = ortune.soak(model, target="web-wasm", dim={"n": "16"}, budget="40s", store=tmp_path / "st")
    result = envelope.result
    assert result.verdict in ("flat", "undecided"), result.growth
    assert result.points[-1].wasm_bytes >= 16 << 20
    assert {"JavaScript heap", "WebAssembly memory"} <= {name for name, _ in words._figures(result)}
