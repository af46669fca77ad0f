"""A bundle that is measured again is fed what it was tuned with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onnx_text import model_of, saved
from ortune.errors import InputError
from ortune.inputs import workload
from ortune.records import Case, InputChoice, Workload
from simulated_machine import Lab, measuring_on
from within import program

MODEL = "net (float[batch,32] x) => (float[batch,32] y) { a = MatMul (x, w)  y = Relu (a) }"


def ortune(folder: Path, *words: str) -> dict[str, Any]:
    """The document of a command on a simulated machine."""
    with measuring_on(Lab(1)):
        code, out, said = program([*words, "--json", "--store", str(folder / "store")])
    assert code == 0, said
    document: dict[str, Any] = json.loads(out)
    return document


def fed(document: dict[str, Any]) -> tuple[list[int], str]:
    """The shape of the one input, and where it is from."""
    ((choice,),) = (case["inputs"] for case in document["workload"]["cases"])
    return choice["shape"], document["workload"]["inputs_path"]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a tuning with inputs of its user's."""
    folder = tmp_path_factory.mktemp("again")
    net = saved(folder / "net.onnx", model_of(MODEL, 13, {"w": np.eye(32, dtype=np.float32)}))
    np.save(folder / "x.npy", np.ones((5, 32), np.float32))
    done = ortune(
        folder, "tune", str(net), "--inputs", str(folder / "x.npy"), "--budget", "60s", "--targets", "cpu",
        "--output", str(folder),
    )  # fmt: skip
    return Path(done["result"]["bundle"])


@pytest.mark.parametrize("verb", ["compare", "bench"])
def test_a_bundle_is_measured_with_the_inputs_that_it_was_tuned_with(
    bundle: Path, verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    again = ortune(tmp_path, verb, str(bundle), "--budget", "20s")
    assert fed(again) == ([5, 32], str(bundle / "inputs"))


def test_what_the_user_says_counts_before_what_a_bundle_was_tuned_with(bundle: Path, tmp_path: Path) -> None:
    other = ortune(tmp_path, "compare", str(bundle), "--dim", "batch=2", "--budget", "20s")
    assert fed(other) == ([2, 32], "")


def test_the_inputs_of_a_workload_file_are_those_beside_it(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ("--workload", str(bundle / "workload.json"), "--budget", "5s")
    assert fed(ortune(tmp_path, "look", str(bundle.parent / "net.onnx"), *words))[0] == [5, 32]


def test_a_bundle_reads_no_inputs_of_another_folder(tmp_path: Path) -> None:
    choice = InputChoice(name="x", dtype="float", shape=(5, 32), role="data", origin="user")
    away = Workload(cases=(Case(name="default", inputs=(choice,)),), inputs_path="../x.npy")
    workload.save(tmp_path / "w.json", away)
    assert workload.load(tmp_path / "w.json").inputs_path == "../x.npy"
    with pytest.raises(InputError, match="in another folder"):
        workload.load(tmp_path / "w.json", inside=True)


def test_inputs_that_a_bundle_has_not_are_not_those_of_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bundle").mkdir()
    (tmp_path / "here" / "inputs").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here")
    path = tmp_path / "bundle" / "w.json"
    workload.save(path, Workload(cases=(Case(name="default", inputs=()),), inputs_path="inputs"))
    assert workload.load(path, inside=True).inputs_path == str(tmp_path / "bundle" / "inputs")
