"""ORT format at each level and in both styles: written by ONNX Runtime's converter, equal in ONNX Runtime."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest
from rewrite_corpus import CORPUS, OUT

from ortune import rewrites
from ortune.errors import ModelError, UsageError
from ortune.graph.model.open import open_model
from ortune.records import Runtime
from ortune.targets.tool import ToolProcess
from ortune.verbs.rewrite import run as verb
from web_models import convolutions

BY_NAME = {sample.name: sample for sample in CORPUS}
SAMPLES = ("external", "branches", "loop", "function", "half")
ort.set_default_logger_severity(4)


@pytest.fixture
def tool(tmp_path: Path) -> ToolProcess:
    return ToolProcess(runtime=Runtime(python=sys.executable, ort_version=ort.__version__), folder=tmp_path)


def run(path: Path, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    return ort.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, feeds)


@pytest.mark.parametrize("style", ["fixed", "runtime"])
@pytest.mark.parametrize("level", ["basic", "extended", "all"])
def test_what_each_level_and_style_holds(level: str, style: str, tmp_path: Path, tool: ToolProcess) -> None:
    source = open_model(convolutions(tmp_path / "net.onnx"))
    made = rewrites.rewrite_model(
        source, [rewrites.parse(f"ort-format:level={level},style={style}")], tmp_path / "made", tool
    )
    (step,) = made.steps
    assert step.result.modified and f"level {level}, style {style}" in step.result.what
    assert made.path.name == "net.ort" and not made.settings and not made.hardware_bound
    written = open_model(made.path)
    assert written.facts.format == "ort"
    assert rewrites.made_by(written.ir) == ("ort-format",)
    fused = written.op_counts["com.microsoft.FusedConv"]
    # Four convolutions, one without a Relu of its own: the residual goes into it at the last level.
    expected = 0 if style == "runtime" or level == "basic" else {"extended": 3, "all": 4}[level]
    assert fused == expected, dict(written.op_counts)
    assert not written.op_counts["BatchNormalization"]
    feeds = {"x": np.random.default_rng(1).standard_normal((1, 3, 64, 64), dtype=np.float32)}
    for ours, theirs in zip(run(made.path, feeds), run(source.path, feeds), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", SAMPLES)
def test_models_of_every_kind(name: str, tmp_path: Path, tool: ToolProcess) -> None:
    sample = BY_NAME[name]
    source = open_model(sample.write(tmp_path))
    made = rewrites.rewrite_model(source, [rewrites.parse("ort-format")], tmp_path / "made", tool)
    assert made.modified and not list(tmp_path.glob("*.config"))
    for ours, theirs in zip(run(made.path, sample.feeds), run(source.path, sample.feeds), strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_it_is_the_last_of_a_row(tmp_path: Path, tool: ToolProcess) -> None:
    source = open_model(BY_NAME["old-exporter"].write(tmp_path))
    specs = [rewrites.parse(text) for text in (OUT, "ort-format", OUT)]
    made = rewrites.rewrite_model(source, specs, tmp_path / "made", tool)
    assert [step.result.modified for step in made.steps] == [True, True, False]
    assert "ORT format" in made.steps[2].result.reasons[0]
    written = open_model(made.path)
    assert rewrites.made_by(written.ir) == (OUT, "ort-format")
    assert [spec.name for spec in rewrites.in_order(reversed(specs[:2]))] == [OUT, "ort-format"]
    with pytest.raises(ModelError, match="ORT format"):
        rewrites.rewrite_model(written, [rewrites.parse("ort-format")], tmp_path / "again", tool)


def test_it_is_proposed_where_it_loads_faster_and_is_safe() -> None:
    rewrite = rewrites.find("ort-format")
    assert rewrite.pays("cold-start", "web-wasm")
    assert not rewrite.pays("latency", "web-wasm")
    assert not rewrite.pays("cold-start", "web-webgpu")
    assert not rewrite.pays("cold-start", "cpu")
    # The graph as ONNX Runtime optimises it here is a process's, with the optimiser off.
    assert rewrites.find("ort-optimized-model").pays("cold-start", "cpu")
    assert not rewrites.find("ort-optimized-model").pays("cold-start", "web-wasm")


def test_by_hand_it_is_written_and_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = convolutions(tmp_path / "net.onnx")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="ORT format"):
        verb.run(verb.Options(model=model, names=["ort-format"], output="out.onnx"))
    with pytest.raises(UsageError):
        verb.run(verb.Options(model=model, names=[OUT], output="out.ort"))
    told = verb.run(verb.Options(model=model, names=["ort-format:level=extended"]))
    assert told.verdict == "written"
    assert told.result is not None and told.result.outputs is not None and told.result.outputs.ok
    assert open_model(tmp_path / "net-rewritten.ort").facts.format == "ort"
