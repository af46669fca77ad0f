"""``--metric``: a function of the user's own, called with outputs and inputs in a process of its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ortune
import zoo
from ortune.errors import UsageError
from ortune.graph.model.open import open_model
from ortune.inputs import user_feeds
from planted import convolutions

NAMES = ("affine-into-weights",)


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORTUNE_LOCK", str(tmp_path / "lock"))
    monkeypatch.chdir(tmp_path)
    convolutions(tmp_path / "m.onnx")


def evaluate(body: str) -> None:
    Path("evaluate.py").write_text(
        f"import numpy as np\n\ndef score(outputs, inputs):\n    {body}\n", encoding="utf-8"
    )


def test_a_metric_is_held_against_the_bases_own() -> None:
    evaluate("print('told'); return 2.0 + inputs['x'].shape[0] + 0 * outputs['y'].sum()")
    answer = ortune.rewrite("m.onnx", *NAMES, metric="evaluate:score", tolerance="metric>=99%")
    assert answer.verdict == "written"
    assert (answer.result.outputs.metric_base, answer.result.outputs.metric) == (3.0, 3.0)


def test_a_metric_below_its_limit_refuses(tmp_path: Path) -> None:
    evaluate("return float(np.abs(outputs['y']).max() > 0)")
    answer = ortune.rewrite("m.onnx", *NAMES, metric="evaluate:score", tolerance="metric>=1.5")
    assert answer.verdict == "wrong-output"
    assert "the metric is 1, 1 for the baseline; limit 1.5" in answer.result.outputs.what
    assert not list(tmp_path.glob("*rewritten*"))
    evaluate("return float('nan')")
    answer = ortune.rewrite("m.onnx", *NAMES, metric="evaluate:score", tolerance="metric>=0")
    assert (answer.verdict, answer.result.outputs.metric) == ("wrong-output", None)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("return 'good'", "instead of a number"),
        ("return outputs['z']", "KeyError"),
        ("import nowhere", "nowhere"),
    ],
)
def test_a_metric_that_fails_is_the_users_to_mend(body: str, said: str) -> None:
    evaluate(body)
    with pytest.raises(UsageError, match=said) as raised:
        ortune.rewrite("m.onnx", *NAMES, metric="evaluate:score", tolerance="metric>=0")
    assert "dictionaries of arrays" in raised.value.do


@pytest.mark.parametrize(
    ("metric", "tolerance"),
    [
        ("evaluate:score", None),
        ("evaluate:score", 0.1),
        (None, "metric>=1"),
        ("evaluate.py", "metric>=1"),
        ("a:b:c", "metric>=1"),
    ],
)
def test_a_metric_and_its_limit_come_together(metric: str | None, tolerance: str | float | None) -> None:
    with pytest.raises(UsageError):
        ortune.rewrite("m.onnx", *NAMES, metric=metric, tolerance=tolerance)


def test_a_built_in_metric_says_which_outputs_it_takes() -> None:
    with pytest.raises(UsageError, match="rows of scores"):
        ortune.rewrite("m.onnx", *NAMES, metric="accuracy", tolerance="metric>=99%")


def test_text_of_a_real_recogniser() -> None:
    model = zoo.model_path("ppocrv4-rec")
    answer = ortune.rewrite(
        model, "hard-swish", metric="ctc", tolerance="metric>=99%", shape="x:1x3x48x96", output="rec.onnx"
    )
    assert answer.verdict == "written"
    outputs = answer.result.outputs
    assert (outputs.judged_by, outputs.metric_base, outputs.metric) == ("ctc", 1.0, 1.0)
    assert [(each.slice, each.value) for each in outputs.task] == [("", 1.0), ("input 0", 1.0)]


def test_labels_of_the_data_are_no_inputs(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    x = onnx_shape("m.onnx")
    np.savez(tmp_path / "data" / "0.npz", x=np.zeros(x, np.float32), label=np.asarray([3]))
    np.savez(tmp_path / "data" / "1.npz", x=np.ones(x, np.float32))
    model = open_model(Path("m.onnx")).ir
    assert [list(each) for each in user_feeds.load(tmp_path / "data", model)] == [["x"], ["x"]]
    (_, first), (_, second) = user_feeds.labelled(tmp_path / "data", model, "--data")
    assert first is not None and first.tolist() == [3] and second is None


def onnx_shape(path: str) -> list[int]:
    """Of the only input, with 1 for what is open."""
    (value,) = open_model(Path(path)).ir.graph.inputs
    assert value.shape is not None
    return [size if isinstance(size, int) else 1 for size in value.shape]
