"""Sources cannot leave their process: tried from inside on each verb that opens one, and where no fence is."""

from __future__ import annotations

import errno
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from onnxruntime import datasets

import leaving
import made_runtimes
import ortune
from facts import facts
from leaving import REFUSING
from ortune.errors import OrtuneError, UsageError
from ortune.runtimes.converters import SKLEARN, TENSORFLOW, TORCH, Converter
from ortune.worker import fence
from simulated_machine import Lab, measuring_on

fenced = pytest.mark.skipif(bool(fence.missing()), reason=f"NOT TESTED: {fence.missing()}")

FITTED = """
def model():
    import numpy as np
    from sklearn.ensemble import RandomForestClassifier
    rows = np.random.default_rng(0).normal(size=(200, 6)).astype(np.float32)
    return RandomForestClassifier(4, n_jobs=2, random_state=0).fit(rows, rows[:, 0] > 0.1), rows[:16]
"""
OF_TORCH = """
def model():
    import torch
    return torch.nn.Sequential(torch.nn.Linear(6, 3), torch.nn.ReLU()), (torch.ones(2, 6),)
"""
OF_KERAS = """
def model():
    import keras
    keras.utils.set_random_seed(0)
    return keras.Sequential([keras.Input((6,)), keras.layers.Dense(3, activation="relu")])
"""


def python_of(converter: Converter) -> str:
    return made_runtimes.require(converter.name).runtime.python


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """What must stay as it is; the current folder is a source's."""
    (work := tmp_path / "work").mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setenv("ORTUNE_LOCK", str(tmp_path / "lock"))
    with leaving.watched(tmp_path / "outside", work):
        yield tmp_path / "outside"


@fenced
@pytest.mark.long
@pytest.mark.parametrize(
    ("converter", "body"),
    [(SKLEARN, FITTED), (TORCH, OF_TORCH), (TENSORFLOW, OF_KERAS)],
    ids=lambda value: getattr(value, "name", ""),
)
def test_a_source_cannot_leave_where_it_is_converted_verified_and_compared(
    outside: Path, converter: Converter, body: str
) -> None:
    framework = {SKLEARN: "sklearn", TORCH: "pytorch", TENSORFLOW: "tensorflow"}[converter]
    Path("mine.py").write_text(leaving.MODULE + body)
    python = python_of(converter)
    more = {"framework": framework, "source_python": python}
    answer = ortune.convert("mine:model", output="model.onnx", **more)
    assert answer.verdict == "written", answer.summary()
    assert ortune.convert("mine:model", "model.onnx", verify=True, **more).verdict == "equal"
    with measuring_on(Lab(3)):
        compared = ortune.compare(
            "mine:model", "model.onnx", store="store", budget="5m", max_blocks=6, a_runtime=python,
            framework=framework,
        )  # fmt: skip
    assert compared.result.comparison is not None and compared.result.outputs.ok
    assert not compared.result.base.runtime.source.trusted
    if converter is TORCH:
        facts(" ".join(compared.result.notes), "torch.compile", "--trust-source")


@fenced
def test_what_a_confined_function_lacks_is_told_and_trust_gives_it(outside: Path) -> None:
    body = FITTED.replace(
        "    import numpy", f"    open({str(outside / 'secret')!r}).close()\n    import numpy"
    )
    Path("mine.py").write_text(body)
    more = {"framework": "sklearn", "source_python": python_of(SKLEARN), "output": "model.onnx"}
    with pytest.raises(OrtuneError) as error:
        ortune.convert("mine:model", **more)
    assert "secret" in error.value.what and "trust_source=True" in error.value.do
    answer = ortune.convert("mine:model", trust_source=True, **more)
    assert answer.verdict == "written"


CLI = REFUSING + "del sys.argv[1:3]\nfrom ortune.cli.main import main\nsys.exit(main())\n"


@fenced
@pytest.mark.parametrize("error", [errno.ENOSYS, errno.EPERM])
@pytest.mark.parametrize("verb", ["convert", "compare"])
def test_without_a_fence_nothing_is_opened_unless_the_source_is_trusted(
    outside: Path, verb: str, error: int
) -> None:
    Path("mine.py").write_text("open('ran', 'w')\nimport sklearn\ndef model(): ...\n")
    Path("model.onnx").write_bytes(b"")
    words = ["convert", "mine:model"] if verb == "convert" else ["compare", "mine:model", "model.onnx"]
    command = [sys.executable, "-c", CLI, str(error), str(fence._CREATE_RULESET), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    facts(done.stderr, "Landlock", "--trust-source")
    assert not Path("ran").exists()


def test_a_plan_or_a_file_of_defaults_cannot_trust_a_source(outside: Path) -> None:
    Path("plan.json").write_text('{"settings": {}, "trust_source": true}')
    shutil.copy(datasets.get_example("sigmoid.onnx"), "model.onnx")
    with pytest.raises(UsageError, match="trust_source"):
        ortune.compare("model.onnx", "plan.json")
