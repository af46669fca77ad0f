"""NNCF in an environment of its own: its model is made, left as it is, and checked like any other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest

import made_runtimes
from onnx_text import model_of, saved
from ortune import rewrites
from ortune.graph.model.open import open_model
from ortune.inputs.feed_files import write_feeds
from ortune.records import FeedRef, Host, Plan
from ortune.runtimes import nncf
from ortune.runtimes.packages import require_recipes, wheels
from ortune.targets.tool import ToolProcess
from ortune.verbs.quantize.methods import methods_worth_testing

GRAPH = """g (float[8,64] x) => (float[8,64] y) {
    [first] m = MatMul (x, w0)  r = Relu (m)  [second] y = MatMul (r, w1)
}"""


def products(path: Path) -> Path:
    rng = np.random.default_rng(2)
    weights = {name: rng.standard_normal((64, 64)).astype(np.float32) * 0.1 for name in ("w0", "w1")}
    saved(path, model_of(GRAPH, weights=weights))
    return path


def test_nncf_makes_a_model_that_answers_as_the_float_one_and_leaves_a_layer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Apart: where the environment exists, every quantization of another test would try NNCF too.
    apart = made_runtimes.CACHE / "apart"
    monkeypatch.setenv("XDG_CACHE_HOME", str(apart))
    runtime = made_runtimes.require(nncf.NNCF, apart).runtime
    path, refs = products(tmp_path / "m.onnx"), []
    for seed in range(8):
        x = np.random.default_rng(seed).standard_normal((8, 64)).astype(np.float32)
        write_feeds(tmp_path / str(seed), {"x": x})
        refs.append(FeedRef(name=str(seed), path=str(tmp_path / str(seed))))
    tool = ToolProcess(runtime=runtime, folder=tmp_path, feeds=tuple(refs))
    spec = rewrites.parse("nncf-int8:leave=second")
    done = rewrites.rewrite_model(open_model(path), [spec], tmp_path / "made", tool)
    assert "NNCF 3.4.0 quantized" in done.steps[0].result.what
    graph = onnx.load(done.path).graph
    made_by = {output: node for node in graph.node for output in node.output}
    products_of = [node for node in graph.node if node.op_type in ("MatMul", "Gemm")]
    quantized = [made_by[node.input[1]].op_type for node in products_of if node.input[1] in made_by]
    assert len(products_of) == 2 and quantized.count("DequantizeLinear") == 1
    before, after = (
        ort.InferenceSession(str(model), providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
        for model in (path, done.path)
    )
    assert np.linalg.norm(after - before) < 0.03 * np.linalg.norm(before)


def test_the_method_is_tried_where_the_environment_exists(tmp_path: Path) -> None:
    model = open_model(products(tmp_path / "m.onnx")).ir
    host = Host(
        system="Linux", machine="x86_64", cpu="a CPU", cores=2, logical=2, affinity=2, effective_cpus=2,
        memory_bytes=1 << 33, fingerprint="0",
    )  # fmt: skip

    def methods(packages: tuple[str, ...]) -> list[str]:
        return [plan.rewrites[-1].name for plan in methods_worth_testing(model, Plan(), host, packages)[0]]

    assert "nncf-int8" not in methods(())
    assert methods(("nncf",)).count("nncf-int8") == 1


def test_its_packages_have_a_size_and_a_licence_and_send_nothing_home() -> None:
    (recipe,) = require_recipes(nncf.NNCF)
    assert set(recipe.requirements) <= set(wheels())
    assert not any("telemetry" in requirement for requirement in recipe.requirements)
