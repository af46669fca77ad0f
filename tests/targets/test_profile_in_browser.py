"""A profile of a page: real Chromium, real onnxruntime-web; whose the nodes are, and what lies outside of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import ortune
from chromium import hardly_warm
from onnx_text import assemble
from ortune.engines.profiling import stored_peaks
from ortune.records import ProfileResult
from ortune.show import transfer_words
from ortune.verbs.profile import words as profile_words
from web_models import RNG, needs, web_inputs, web_net


@pytest.mark.xdist_group("browser")
@pytest.mark.parametrize(
    "build", ["jsep", *(pytest.param(native, marks=pytest.mark.long) for native in ("asyncify", "jspi"))]
)
def test_the_graph_that_ran_on_a_gpu_tells_whose_its_nodes_are(
    build: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hardly_warm(monkeypatch)
    needs("web-webgpu")
    result = ortune.profile(
        web_net(tmp_path / "m.onnx"), inputs=web_inputs(tmp_path), target="web-webgpu", set=[f"web_build={build}"],
        budget=20, store=tmp_path / "st",
    ).result  # fmt: skip
    assert isinstance(result, ProfileResult)
    run = result.gpu_run
    assert run is not None and run.input_bytes == run.output_bytes == 4 * 8 * 16 * 16 and run.n_runs >= 5
    assert run.device_ns > 0 and run.upload_ns + run.device_ns + run.read_back_ns == pytest.approx(
        run.whole_ns
    )
    assert ("functional only" in transfer_words.split(run)) == run.software
    assert result.software == run.software == (result.stands_out[0].code == "MSR006")
    assert profile_words.headline(result).startswith("functional only") == run.software
    # What is nobody's time needs no second page beside, and is held against nothing.
    assert run.software == (result.slowdown_ratio is None)
    assert (tmp_path / "st" / stored_peaks.FILE).exists() != run.software
    parts = result.page_parts
    assert parts is not None and parts.queued and 0 < parts.operators_ns + parts.outputs_ns < parts.whole_ns
    assert not result.unmapped and not [note for note in result.notes if "nodes come from" in note]
    copies = {node.op_type for node in result.nodes if node.purpose}
    assert copies == {"MemcpyToHost", "MemcpyFromHost"}
    found = {node.op_type: node.originals for node in result.nodes if not node.purpose}
    assert found == {"Mul": ("first",), "Relu": ("act",), "Shrink": ("shrink",), "Add": ("last",)}


@pytest.mark.long  # whose the nodes of a GPU are stands above, with nodes that are not fused
@pytest.mark.xdist_group("browser")
def test_fused_nodes_in_another_layout_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hardly_warm(monkeypatch)
    needs("web-webgpu")
    nodes, last = [], "x"
    for i in range(2):
        nodes.append(
            helper.make_node("Conv", [last, f"w{i}"], [f"c{i}"], name=f"conv{i}", kernel_shape=[3, 3])
        )
        nodes.append(helper.make_node("Relu", [f"c{i}"], [last := f"r{i}"], name=f"relu{i}"))
    weights = [RNG.standard_normal((8, 8, 3, 3)).astype(np.float32) for _ in range(2)]
    path = tmp_path / "m.onnx"
    onnx.save(
        assemble(
            nodes,
            "float[1,8,16,16] x",
            "float[1,8,12,12] r1",
            [numpy_helper.from_array(w, f"w{i}") for i, w in enumerate(weights)],
            opset=13,
        ),
        path,
    )
    result = ortune.profile(
        path, inputs=web_inputs(tmp_path), target="web-webgpu", set=["web_build=asyncify"], budget=20, no_peak=True,
        store=tmp_path / "st",
    ).result  # fmt: skip
    assert isinstance(result, ProfileResult)
    found = sorted(node.originals for node in result.nodes if node.op_type == "Conv")
    assert found == [("conv0", "relu0"), ("conv1", "relu1")]


@pytest.mark.xdist_group("browser")
@pytest.mark.parametrize(
    ("target", "version", "told"),
    [
        ("web-wasm", "", True),
        *(
            pytest.param(target, "1.22.0", False, marks=pytest.mark.long)
            for target in ("web-wasm", "web-webgpu")
        ),
    ],
)
def test_what_of_a_run_is_outside_of_the_operators(
    target: str, version: str, told: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By onnxruntime-web's own marks; 1.22 prints none."""
    hardly_warm(monkeypatch)
    needs(target)
    result = ortune.profile(
        web_net(tmp_path / "m.onnx"), inputs=web_inputs(tmp_path), target=target, ort_web=version, budget=1,
        no_peak=True, store=tmp_path / "st",
    ).result  # fmt: skip
    assert isinstance(result, ProfileResult)
    parts = result.page_parts
    assert (parts is not None) == told
    if parts is not None:
        assert parts.n_runs == result.n_runs and not parts.queued
        assert 0 < parts.operators_ns < parts.whole_ns and min(parts.inputs_ns, parts.outputs_ns) >= 0
        assert "returning outputs" in profile_words.page_parts(parts)
