"""What is written of real models, with their weights in a file of their own, loads and gives the same."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

import ortune
import zoo
from ortune import rewrites
from ortune.graph.model.open import open_model

ALL = [pytest.param(name, marks=() if name == "ppocrv2-cls" else pytest.mark.long) for name in zoo.MODELS]


@pytest.fixture
def model(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy whose weights lie in a folder of their own."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "weights").mkdir()
    path = tmp_path / "m.onnx"
    onnx.save(
        onnx.load(zoo.model_path(request.param)), path, save_as_external_data=True, location="weights/m.data"
    )
    return path


@pytest.mark.parametrize("model", ALL, indirect=True)
def test_a_fixed_model_is_equal(model: Path) -> None:
    (checked,) = ortune.check(model, fix=True).result.models
    assert checked.error is None
    if checked.fixed is not None:
        assert checked.fixed.verification is not None
        assert checked.fixed.verification.status == "equal", checked.fixed.verification
        assert Path(checked.fixed.path).is_file()


@pytest.mark.parametrize("model", ALL, indirect=True)
def test_a_model_after_its_row_of_exact_rewrites_is_equal(model: Path) -> None:
    row = rewrites.pipeline(open_model(model).ir)
    if row:
        answer = ortune.rewrite(model, *(spec.name for spec in row))
        assert answer.verdict in ("written", "unchanged"), answer.summary()
        assert answer.verdict == "unchanged" or (answer.result.outputs and answer.result.outputs.ok)
