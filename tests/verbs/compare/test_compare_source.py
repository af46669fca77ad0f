"""``ortune compare`` with a side that its own framework runs: the same blocks, outputs, threads and words.

The source here tries to leave its process wherever it is opened or timed.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import leaving
import made_runtimes
import ortune
import ten_sources
from ortune import monotonic
from ortune.errors import OrtuneError, UsageError
from ortune.records import Envelope
from ortune.runtimes.converters import SKLEARN, TENSORFLOW, TORCH, Converter
from ortune.targets.source import SourceProcessFailed
from ortune.verbs._shared.quantities import seconds
from ortune.verbs.compare import run as compare
from ortune.worker import fence
from simulated_machine import Lab, measuring_on

FITTED = f"""
{leaving.MODULE if not fence.missing() else ""}
import numpy as np
from sklearn.linear_model import LogisticRegression


def model():
    rows = np.random.default_rng(0).normal(size=(200, 6)).astype(np.float32)
    return LogisticRegression().fit(rows, rows[:, 0] > 0.1), rows[:16]


def wider():
    rows = np.random.default_rng(0).normal(size=(200, 9)).astype(np.float32)
    return LogisticRegression().fit(rows, rows[:, 0] > 0.1), rows[:16]


def endless():
    while True:
        pass


def other():
    rows = np.random.default_rng(1).normal(size=(200, 6)).astype(np.float32)
    return LogisticRegression().fit(rows, rows[:, 1] > 0.1), rows[:16]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (work := tmp_path / "work").mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setenv("ORTUNE_LOCK", str(tmp_path / "lock"))
    Path("fitted.py").write_text(FITTED)
    with leaving.watched(tmp_path / "outside", work):
        yield work


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The fitted model as ONNX."""
    place = tmp_path_factory.mktemp("fitted")
    (place / "work").mkdir()
    (place / "work" / "fitted.py").write_text(FITTED)
    with pytest.MonkeyPatch.context() as patch, leaving.watched(place / "outside", place / "work"):
        patch.chdir(place / "work")
        answer = ortune.convert("fitted:model", output="model.onnx", source_python=python_of(SKLEARN))
    assert answer.verdict == "written", answer.summary()
    return place / "work" / "model.onnx"


def python_of(converter: Converter) -> str:
    return made_runtimes.require(converter.name).runtime.python


def compared(*sides: str, **more: object) -> Envelope[object]:
    with measuring_on(Lab(3)):
        return ortune.compare(*sides, store="store", budget="5m", max_blocks=12, **more)


def test_a_fitted_model_takes_turns_with_its_conversion(folder: Path, converted: Path) -> None:
    python = python_of(SKLEARN)
    shutil.copy(converted, folder)
    answer = compared("fitted:model", "model.onnx", a_runtime=python)
    result = answer.result
    assert result.comparison is not None and result.comparison.n_blocks >= 6
    assert result.outputs.ok and result.base.runtime.source is not None
    assert result.base.model.format == "source" and result.base.model.path == "fitted:model"
    headline = " ".join(answer.summary().split())
    assert "A is scikit-learn 1.8.0, B is onnxruntime " in headline
    assert any("n_jobs" in note for note in result.notes)
    # Another model's outputs are told as those of any other side.
    wrong = compared("model.onnx", "fitted:other", b_runtime=python)
    assert not wrong.result.outputs.ok and compare.exit_code(wrong) in (0, 1)
    assert wrong.result.outputs.relative_l2 > 0.01
    with pytest.raises(OrtuneError, match="9 features"):
        compared("model.onnx", "fitted:wider", b_runtime=python)


def test_what_is_of_onnxruntime_alone_is_refused(folder: Path, converted: Path) -> None:
    python = python_of(SKLEARN)
    with pytest.raises(UsageError, match="with an ONNX model"):
        compared("fitted:model", a_runtime=python)
    with pytest.raises(UsageError, match="with an ONNX model"):
        compared("fitted:model", "fitted:other", a_runtime=python, b_runtime=python)
    shutil.copy(converted, folder)
    with pytest.raises(UsageError, match="allow_spinning"):
        compared("model.onnx", "fitted:model", b_runtime=python, b_set={"spin": 0})
    with pytest.raises(UsageError, match="ONNX Runtime runs"):
        compared("model.onnx", "fitted:model", b_runtime=python, b_target="cpu")
    Path("model.pt").write_bytes(b"x")
    with pytest.raises(OrtuneError, match="pickle"):
        compared("model.onnx", "model.pt")
    Path("plan.json").write_text('{"settings": {}, "source": "fitted:model"}')
    with pytest.raises(UsageError, match="has no field 'source'"):
        compared("model.onnx", "plan.json")


@pytest.mark.parametrize(("budget", "least_s", "most_s"), [("20s", 60, 60), ("5m", 60, 300)])
def test_opening_counts_against_the_budget(
    budget: str, least_s: int, most_s: int, folder: Path, converted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A source that never opens ends with the budget, or after a minute, which a framework may need."""
    python = python_of(SKLEARN)
    shutil.copy(converted, folder)
    real_s, began_s = monotonic.now_s, monotonic.now_s()
    monkeypatch.setattr(monotonic, "now_s", lambda: began_s + 60 * (real_s() - began_s))
    with pytest.raises(SourceProcessFailed, match="opening the source took more than") as error:
        ortune.compare("model.onnx", "fitted:endless", b_runtime=python, store="store", budget=budget)
    (waited_s,) = map(int, re.findall(r"more than (\d+) s", error.value.what))
    (suggested,) = re.findall(r"budget='(\d+[sm])'", error.value.do)
    assert error.value.where == "fitted:endless" and least_s <= waited_s <= most_s
    assert "loops" in error.value.do and seconds(suggested, "--budget") > max(
        waited_s, seconds(budget, "--budget")
    )


SOURCES = Path(__file__).resolve().parents[2] / "sources"


@pytest.mark.parametrize(
    ("source", "framework"),
    [
        ("forest", "scikit-learn "),
        # Trees as well, by libraries that the same process asks in the same way.
        pytest.param("boosted", "lightgbm ", marks=pytest.mark.long),
        pytest.param("boosted_regression", "xgboost ", marks=pytest.mark.long),
    ],
)
def test_trees_of_each_library_take_turns_with_their_conversion(
    source: str, framework: str, folder: Path
) -> None:
    shutil.copy(SOURCES / "fitted_sources.py", folder)
    a_side_is_its_conversion(f"fitted_sources:{source}", SKLEARN, framework)


def a_side_is_its_conversion(source: str, converter: Converter, framework: str) -> None:
    """A source is converted, takes turns with the result, and has the same outputs."""
    python = python_of(converter)
    converted = ortune.convert(source, output="model.onnx", force=True, source_python=python)
    assert converted.verdict == "written", converted.summary()
    answer = compared(source, "model.onnx", a_runtime=python)
    result = answer.result
    assert result.comparison is not None and result.comparison.n_blocks >= 6
    assert result.outputs.ok
    assert result.base.runtime.source is not None
    assert result.base.runtime.build.startswith(framework)


@pytest.fixture(scope="module")
def keras_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of Keras and TensorFlow, and the module that wrote them."""
    place = tmp_path_factory.mktemp("keras")
    ten_sources.write(place, python_of, TENSORFLOW)
    return place


@pytest.mark.long
@pytest.mark.parametrize(
    ("source", "framework"),
    [
        ("cnn.keras", "TensorFlow "), ("cnn", "TensorFlow "), ("detector", "TensorFlow "),
        ("cnn.tflite", "TensorFlow Lite"), ("keras_sources:cnn", "TensorFlow "),
    ],
)  # fmt: skip
def test_each_kind_of_tensorflow_takes_turns_with_its_conversion(
    source: str, framework: str, keras_files: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(keras_files)
    a_side_is_its_conversion(source, TENSORFLOW, framework)


@pytest.mark.long
def test_pytorch_is_two_sides_with_the_same_threads(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(SOURCES / "torch_sources.py", folder)
    python = python_of(TORCH)
    converted = ortune.convert(
        "torch_sources:resnet", dynamic="batch", output="net.onnx", source_python=python
    )
    assert converted.verdict == "written"
    answer = compared(
        "torch_sources:resnet",
        "net.onnx",
        a_runtime=python,
        a_set={"intra": 2},
        b_set={"intra": 2},
        trust_source=True,
    )
    sides = {side.name: side for side in answer.result.candidates}
    assert set(sides) == {"B", "C"} and all(side.outputs.ok for side in sides.values())
    assert sides["C"].side.runtime.source.style == "torch.compile"
    assert answer.result.base.runtime.source.style == "eager"
    assert [(r.knob, r.ok, r.seen) for r in sides["C"].read_back] == [
        ("intra_op_num_threads", True, "2 threads")
    ]
    assert any("2 threads per operator" in note for note in answer.result.notes)
    # Without a compiler that is told, and eager is compared.
    monkeypatch.setenv("PATH", str(folder))
    answer = compared("torch_sources:resnet", "net.onnx", a_runtime=python, trust_source=True)
    assert not answer.result.candidates and answer.result.outputs.ok
    assert any("torch.compile" in note and "compiler" in note for note in answer.result.notes)
