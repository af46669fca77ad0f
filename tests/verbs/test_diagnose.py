"""Why a model is slow: findings with their fixes measured."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import ortune
from ortune.errors import UsageError
from ortune.records import DiagnoseResult, Envelope
from ortune.report import diagnose_words, markdown, sides, terminal
from ortune.verbs import diagnose

LAYERS, WIDTH = 4, 64


def convolutions(path: Path, *, weights_are_inputs: bool) -> Path:
    """Convolutions one after another, their weights graph inputs as old exporters wrote them."""
    rng = np.random.default_rng(3)
    nodes, weights, value = [], [], "x"
    for i in range(LAYERS):
        weights.append(
            numpy_helper.from_array(0.05 * rng.standard_normal((WIDTH, WIDTH, 3, 3)).astype("f"), f"w{i}")
        )
        nodes.append(
            helper.make_node("Conv", [value, f"w{i}"], [f"c{i}"], name=f"conv{i}", pads=[1, 1, 1, 1])
        )
        nodes.append(helper.make_node("Relu", [f"c{i}"], [f"r{i}"], name=f"relu{i}"))
        value = f"r{i}"
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, WIDTH, 40, 40])]
    if weights_are_inputs:
        inputs += [helper.make_tensor_value_info(w.name, TensorProto.FLOAT, w.dims) for w in weights]
    output = helper.make_tensor_value_info(value, TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "g", inputs, [output], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Envelope[DiagnoseResult]:
    folder = tmp_path_factory.mktemp("diagnose")
    model = convolutions(folder / "m.onnx", weights_are_inputs=True)
    return ortune.diagnose(model, set="intra=16", budget="15s", store=folder / "store")


@pytest.mark.xdist_group("measuring")
def test_each_fix_is_measured_alone_and_together(found: Envelope[DiagnoseResult]) -> None:
    result = found.result
    tried = {each.codes: each for each in result.tried}
    assert set(tried) == {("GRA002",), ("THR001",)}
    for each in tried.values():
        assert each.comparison is not None and each.comparison.n_blocks >= 9
        assert each.outputs is not None and each.outputs.ok
        assert each.command.startswith("ortune compare ") and "--set intra=16" in each.command
    assert result.together is not None and sorted(result.together.codes) == ["GRA002", "THR001"]
    verified = {f.code: f.verified for f in result.findings if f.verified}
    assert verified == {code: each.comparison for (code,), each in tried.items()}


@pytest.mark.xdist_group("measuring")
def test_what_pays_comes_first_in_words_and_in_the_document(found: Envelope[DiagnoseResult]) -> None:
    result = found.result
    # Sixteen threads on a few cores that wait for each other, and kernels without packed weights: multiples.
    assert result.findings[0].verified is not None and result.findings[0].verified.verdict == "faster"
    text = terminal.render(diagnose_words.document(found))
    assert text is not None
    page = markdown.render(diagnose_words.document(found))
    of = sides.statistic(result.estimand)
    assert f"x faster in {of} (" in page.splitlines()[0] + page.splitlines()[2]
    assert f"| {of} |" in page
    assert "all together" in page and "its fix pays" in page
    told = ortune.report(result.session, store=found.store).summary()
    assert diagnose_words.headline(result) in " ".join(told.split())


@pytest.mark.xdist_group("measuring")
def test_a_healthy_model_has_nothing_to_fix(tmp_path: Path) -> None:
    model = convolutions(tmp_path / "m.onnx", weights_are_inputs=False)
    result = ortune.diagnose(model, budget="5s", store=tmp_path / "store").result
    assert result.tried == () and result.together is None
    assert not [f for f in result.findings if f.plan is not None]
    assert result.figures is not None and result.profile is not None


def test_options_are_read_before_anything_runs() -> None:
    with pytest.raises(UsageError, match="no class of fixes"):
        diagnose.Options(model="m.onnx", allow=["everything"])
    with pytest.raises(UsageError, match="no severity"):
        diagnose.Options(model="m.onnx", fail_on="all")
