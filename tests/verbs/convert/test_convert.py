"""``ortune convert``: what a source is, what is refused, and a small fitted model converted and checked for real."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import onnx
import pytest

import made_runtimes
import ortune
from facts import facts
from ortune.engines.conversion import axes
from ortune.engines.conversion.kinds import kind_of
from ortune.errors import ModelError, UsageError
from ortune.records import SourceInput
from ortune.runtimes.converters import SKLEARN
from ortune.verbs.convert import run as convert
from simulated_machine import Lab, measuring_on
from within import program

FITTED = """
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler


def model():
    rows = np.random.default_rng(0).normal(size=(200, 6)).astype(np.float32)
    return make_pipeline(StandardScaler(), LogisticRegression()).fit(rows, rows[:, 0] > 0.1), rows[:16]
"""


@pytest.mark.parametrize("name", ["net.pt", "net.pth", "net.pkl", "net.joblib", "net.h5", "net.safetensors"])
def test_a_pickle_is_refused_with_the_reason(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"x")
    with pytest.raises(ModelError) as error:
        kind_of(str(tmp_path / name))
    assert error.value.code == "unsafe-source" and error.value.do


def test_a_function_is_of_the_framework_that_its_module_imports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text("from sklearn.svm import SVC\ndef model(): ...\n")
    (tmp_path / "both.py").write_text("import torch, sklearn\ndef model(): ...\n")
    assert kind_of("mine:model").converter is SKLEARN
    assert kind_of("both:model", "pytorch").kind == "torch"
    for text in ("both:model", "absent:model"):
        with pytest.raises(UsageError, match="framework could not be detected"):
            kind_of(text)


def test_names_of_axes() -> None:
    inputs = (
        SourceInput(name="ids", type="int64", shape=(2, 12)),
        SourceInput(name="image", type="float", shape=(1, 3, 8, 9)),
    )
    assert axes.requested_axes("batch,seq", inputs[:1]) == {"ids": {0: "batch", 1: "seq"}}
    assert axes.requested_axes("height,width", inputs) == {"image": {2: "height", 3: "width"}}
    assert axes.requested_axes("image:1=planes", inputs) == {"image": {1: "planes"}}
    for text in ("colour", "image:7=x", "other:0=x"):
        with pytest.raises(UsageError):
            axes.requested_axes(text, inputs)
    assert axes.other_sizes(1) == (3, 2) and axes.other_sizes(16) == (33, 8, 18, 17)


def test_options_that_contradict() -> None:
    with pytest.raises(UsageError, match="--verify"):
        convert.Options(source="a:b", verify=True)
    with pytest.raises(UsageError, match="--verify"):
        convert.Options(source="a:b", model="m.onnx")
    with pytest.raises(UsageError, match="is not a supported format"):
        convert.Options(source="a:b", to="tflite")


def test_a_fitted_model_is_converted_checked_and_told_from_a_wrong_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = made_runtimes.require(SKLEARN.name).runtime.python
    monkeypatch.chdir(tmp_path)
    Path("fitted.py").write_text(FITTED)
    answer = ortune.convert("fitted:model", output="model.onnx", source_python=python)
    (conversion,) = answer.result.conversions
    assert answer.verdict == "written", conversion.failed or answer.summary()
    assert conversion.ok and {case.level for case in conversion.cases} == {"all", "disable"}
    assert {case.name for case in conversion.cases} >= {"example", "usual", "zeros"}
    assert [(axis.name, axis.status) for axis in conversion.axes] == [("batch", "open")]
    model = onnx.load("model.onnx")
    source = json.loads(next(entry.value for entry in model.metadata_props if entry.key == "ortune.source"))
    assert source["exporter"] == "skl2onnx" and source["versions"]["scikit-learn"]

    for node in model.graph.node:  # weights of somebody else's
        for attribute in node.attribute:
            if attribute.name == "coefficients":
                attribute.floats[0] += 1.0
    onnx.save(model, "wrong.onnx")
    answer = ortune.convert("fitted:model", "wrong.onnx", verify=True, source_python=python)
    assert answer.verdict == "wrong-output" and convert.exit_code(answer) == 1
    fault = answer.result.conversions[0].fault
    assert fault is not None and fault.kind == "values" and fault.node is not None
    assert fault.node.at is not None and fault.node.at.operator.endswith("LinearClassifier")
    # What is suggested works as it is pasted, and names the same node; model.onnx is in the way of neither.
    again, bisect = (shlex.split(line) for line in answer.result.again)
    for line in answer.result.again:
        assert line in answer.summary()
    assert program(again[1:])[0] == 0
    _, out, _ = program([*bisect[1:], "--json"])
    parted = json.loads(out)["result"]["partings"][0]
    assert parted["at"]["operator"].endswith("LinearClassifier")


def test_a_bundle_says_where_its_model_came_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = made_runtimes.require(SKLEARN.name).runtime.python
    monkeypatch.chdir(tmp_path)
    Path("fitted.py").write_text(FITTED)
    with measuring_on(Lab(2)):
        answer = ortune.convert(
            "fitted:model", output="model.onnx", source_python=python, tune=True, budget="1m"
        )
    assert answer.verdict == "written" and answer.result.tuned is not None
    (conversion,) = answer.result.conversions
    about = json.loads((Path(answer.result.tuned.bundle) / "ortune.json").read_text())
    source = about["source"]
    assert (source["source"], source["kind"]) == ("fitted:model", "fitted estimator")
    assert (source["exporter"], source["opset"]) == ("skl2onnx", conversion.opset)
    assert source["versions"] == answer.result.versions and {"scikit-learn", "skl2onnx"} <= {
        *source["versions"]
    }
    sets = len({case.name for case in conversion.cases})
    facts(source["checked"], f"{sets} sets of inputs", "batch")
    # A bundle that is made of the file later says the same, as does the model itself.
    model = onnx.load(Path(answer.result.tuned.bundle) / about["model"])
    told = json.loads(next(entry.value for entry in model.metadata_props if entry.key == "ortune.source"))
    assert told == source
