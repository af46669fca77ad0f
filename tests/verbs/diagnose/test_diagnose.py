"""Why a model is slow: findings with their fixes measured."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import ortune
from onnx_text import assemble, model_of, saved
from ortune.errors import UsageError
from ortune.measuring.watcher import Watcher
from ortune.records import Envelope
from ortune.show import markdown, sides, terminal
from ortune.verbs.diagnose import run as diagnose
from ortune.verbs.diagnose import words as diagnose_words
from ortune.verbs.diagnose.result import DiagnoseResult
from simulated_answers import model_name
from simulated_machine import Lab, measuring_on

LAYERS, WIDTH = 6, 64


def activations(path: Path, *, weights_are_inputs: bool) -> Path:
    """Products with a Gelu written out, one after another; their weights graph inputs as old exporters wrote them."""
    rng = np.random.default_rng(3)
    weights = [
        numpy_helper.from_array(np.array(v, np.float32), n)
        for n, v in (("root", 2**0.5), ("one", 1), ("half", 0.5))
    ]
    products = [
        numpy_helper.from_array(0.2 * rng.standard_normal((WIDTH, WIDTH)).astype("f"), f"w{i}")
        for i in range(LAYERS)
    ]
    nodes, x = [], "x"
    for i in range(LAYERS):
        steps = (
            ("MatMul", (x, f"w{i}"), "m"), ("Div", (f"m{i}", "root"), "d"), ("Erf", (f"d{i}",), "e"),
            ("Add", (f"e{i}", "one"), "a"), ("Mul", (f"m{i}", f"a{i}"), "p"), ("Mul", (f"p{i}", "half"), "h"),
        )  # fmt: skip
        nodes += [
            helper.make_node(op, list(inputs), [f"{out}{i}"], name=f"{op}_{out}{i}")
            for op, inputs, out in steps
        ]
        x = f"h{i}"
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [8, WIDTH])]
    if weights_are_inputs:
        inputs += [helper.make_tensor_value_info(w.name, TensorProto.FLOAT, w.dims) for w in products]
    output = helper.make_tensor_value_info(x, TensorProto.FLOAT, None)
    onnx.save(assemble(nodes, inputs, [output], [*weights, *products]), path)
    return path


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Envelope[DiagnoseResult]:
    folder = tmp_path_factory.mktemp("diagnose")
    model = activations(folder / "m.onnx", weights_are_inputs=True)

    # Without the six nodes for one that the rewrite brings, a run takes a tenth longer.
    lab = Lab(1, differ=False, slower_model=model_name(str(model)))
    with measuring_on(lab):
        asked = ["level=disable", "intra=1"]
        return ortune.diagnose(model, set=asked, budget=120, store=folder / "store")


def test_each_fix_is_measured_alone_and_together(found: Envelope[DiagnoseResult]) -> None:
    result = found.result
    tried = {each.codes: each for each in result.tried}
    assert set(tried) == {("GRA002",), ("SES002",)}
    for each in tried.values():
        assert each.comparison is not None and each.comparison.n_blocks >= 9
        assert each.outputs is not None and each.outputs.ok
        assert each.command.startswith("ortune compare ") and "--set level=disable" in each.command
    assert result.together is not None and sorted(result.together.codes) == ["GRA002", "SES002"]
    verified = {f.code: f.verified for f in result.findings if f.verified}
    assert verified == {code: each.comparison for (code,), each in tried.items()}


def test_what_pays_comes_first_in_words_and_in_the_document(found: Envelope[DiagnoseResult]) -> None:
    result = found.result
    assert result.findings[0].verified is not None and result.findings[0].verified.verdict == "faster"
    text = terminal.render(diagnose_words.document(found))
    assert text is not None
    page = markdown.render(diagnose_words.document(found))
    of = sides.statistic_name(result.statistic)
    level = f"{100 * result.findings[0].verified.level:.3g} %"
    assert f"x in {of} ({level} interval " in page.splitlines()[0] + page.splitlines()[2]
    assert "faster: " in page.splitlines()[0] + page.splitlines()[2]
    assert f"| {of} |" in page
    assert "all together" in page and "its fix helps" in page
    told = ortune.show(result.session, store=found.store).summary()
    assert diagnose_words.headline(result) in " ".join(told.split())


def test_a_budget_that_holds_no_race_is_kept_and_said(tmp_path: Path) -> None:
    model = activations(tmp_path / "m.onnx", weights_are_inputs=True)
    said: list[str] = []
    watcher = Watcher(say=said.append, step=lambda step: said.append(step.text))
    # On a simulated clock rules take no time, whatever else the machine does.
    with measuring_on(Lab(1)):
        found = ortune.diagnose(model, budget="1s", store=tmp_path / "store", watcher=watcher)
    assert found.status == "ok" and found.result.tried
    assert all(each.comparison is None for each in found.result.tried)
    assert all("--budget" in each.failed for each in found.result.tried)
    assert any("not measured: budget too small" in line for line in said)
    assert not any("calibrating" in line or "blocks of" in line for line in said)


def test_a_healthy_model_has_nothing_to_fix(tmp_path: Path) -> None:
    model = activations(tmp_path / "m.onnx", weights_are_inputs=False)
    result = ortune.diagnose(model, budget="60s", store=tmp_path / "store").result  # it ends long before
    assert result.tried == () and result.together is None
    assert not [f for f in result.findings if f.plan is not None]
    assert result.figures is not None and result.profile is not None


def test_a_rewrite_that_fits_is_offered_where_no_other_rule_names_it(tmp_path: Path) -> None:
    text = 'g (float[2,3,4] x, float[2,4,5] w) => (float[2,3,5] y) { y = Einsum <equation = "bij,bjk->bik"> (x, w) }'
    path = saved(tmp_path / "m.onnx", model_of(text))
    with measuring_on(Lab(1)):
        found = ortune.diagnose(path, budget="1s", store=tmp_path / "store")
    (fix,) = found.result.tried
    assert fix.codes == ("GRA027",) and "--b-rewrite einsum-to-matmul" in fix.command
    checked = ortune.check(path).result
    assert checked is not None and checked.models[0].findings == ()


def test_options_are_read_before_anything_runs() -> None:
    with pytest.raises(UsageError, match="not a valid value for --allow"):
        diagnose.Options(model="m.onnx", allow=["everything"])
    with pytest.raises(UsageError, match="not a severity"):
        diagnose.Options(model="m.onnx", fail_on="all")
