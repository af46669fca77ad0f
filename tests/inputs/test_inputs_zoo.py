"""Real models run in ONNX Runtime with no configuration at all."""

from __future__ import annotations

import onnxruntime as ort
import pytest

import zoo
from ortune.graph.model.open import open_model
from ortune.inputs import workload

ort.set_default_logger_severity(4)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long if name in zoo.ALIKE else ()) for name in zoo.MODELS]
)
def test_runs_as_proposed(name):
    path = zoo.model_path(name)
    model = open_model(path).ir
    chosen = workload.propose(model)
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL  # loads much faster
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    for _, feeds in workload.feeds(model, chosen):
        assert session.run(None, feeds)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("ppocrv4-det", "inputs: x 1x3x640x640 float (image; H, W guessed)"),
        ("ppocrv4-rec", "inputs: x 1x3x48x320 float (image; H, W guessed)"),
        ("light-resnet50", "inputs: gpu_0/data_0 1x3x224x224 float (image)"),
        (
            "silero-vad",
            "inputs: input 1x512 float (audio; samples guessed); state 2x1x128 float (state); "
            "sr scalar int64 (sample rate; 16000 Hz)",
        ),
    ],
)
def test_choice_in_one_line(name, said):
    assert workload.describe(workload.propose(open_model(zoo.model_path(name)).ir)) == said


def test_ids_lie_below_the_vocabulary():
    (case,) = workload.propose(open_model(zoo.model_path("minilm-int8")).ir).cases
    ids = {c.name: (c.low, c.high) for c in case.inputs}
    assert ids == {"input_ids": (1, 30521), "attention_mask": (1, 1), "token_type_ids": (0, 0)}


def test_lengths_fit_the_sequence():
    chosen = workload.propose(open_model(zoo.model_path("piper-joe")).ir, dims={"phonemes": ((40, 1.0),)})
    inputs = {c.name: c for c in chosen.cases[0].inputs}
    assert inputs["input"].shape == (1, 40)
    assert inputs["input_lengths"].high == 40


def test_unknown_name_lists_the_zoo():
    with pytest.raises(zoo.ZooError, match="no model 'nope' in the zoo; there are: ppocrv4-det"):
        zoo.model_path("nope")


def test_unreachable_registry_is_one_clear_error(tmp_path, monkeypatch):
    monkeypatch.setenv("ORTUNE_MODELS", str(tmp_path))
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "")
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    with pytest.raises(zoo.ZooError, match=r"cannot fetch magika==1\.0\.3 from pypi \(is it reachable\?\)"):
        zoo.model_path("magika")
    assert not any(tmp_path.iterdir())
