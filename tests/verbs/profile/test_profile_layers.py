"""In which layer a fused node is, with real ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

import ortune
from onnx_text import assemble, dims


@pytest.mark.usefixtures("few_runs")
def test_a_convolution_with_its_activation_is_in_the_layer_of_the_convolution(tmp_path: Path) -> None:
    weights = np.random.default_rng(0).standard_normal((16, 16, 3, 3)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="stage/conv/Conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["y"], name="stage/activation/Relu"),
    ]
    shape = [1, 16, 32, 32]
    path = tmp_path / "m.onnx"
    onnx.save(assemble(nodes, f"float[{dims(shape)}] x", f"float[{dims(shape)}] y", {"w": weights}), path)
    result = ortune.profile(path, no_peak=True, store=tmp_path / "store").result
    fused = next(node for node in result.nodes if len(node.originals) == 2)
    assert set(fused.originals) == {"stage/conv/Conv", "stage/activation/Relu"}
    assert fused.layer == "stage/conv"
