"""Values of inputs: recorded on request, and played again."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import onnx
import pytest
from programs import recorded, written

from facts import facts
from onnx_text import model_of
from ortune import files
from ortune.recorder import values
from ortune.records import RecordedTensor, RecordedValues, RecordedWorkload, Recording
from within import program

SQUARES = "g (float[4] x, int64[2] s) => (float[a,b] y) { u = Abs (s) v = Mul (u, u) y = Reshape (x, v) }"
APP = """
session = ort.InferenceSession(sys.argv[1])
for sizes in ([1, 2], [1, 2], [2, 1], [-2, 1]):
    session.run(None, {"x": np.arange(4, dtype=np.float32), "s": sizes})
"""


@pytest.fixture(scope="module", autouse=True)
def own_lock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ORTUNE_LOCK", str(tmp_path_factory.mktemp("lock") / "lock"))
        yield


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    folder = tmp_path_factory.mktemp("app")
    onnx.save(model_of(SQUARES), folder / "m.onnx")
    return recorded([sys.executable, written(folder, APP), folder / "m.onnx"], with_inputs=3)


def bench(folder: Path, recording: Recording) -> tuple[int, str, str]:
    place = folder / "app.workload"
    files.write(place, msgspec.json.encode(RecordedWorkload(cases=(), recording=recording)))
    return program(["bench", str(place), "--processes", "1", "--store", str(folder / "store"), "--json"])


def test_inputs_of_the_first_calls_are_recorded_and_equal_ones_once(recording: Recording) -> None:
    sizes = [{value.name: value for value in each.inputs}["s"] for each in recording.values]
    assert [value.dtype for value in sizes] == ["int64", "int64"]
    assert [np.frombuffer(value.data, "<i8").tolist() for value in sizes] == [[1, 2], [2, 1]]
    assert {each.model for each in recording.values} == {0}


def test_a_truncated_call_of_one_process_costs_the_others_nothing(tmp_path: Path) -> None:
    head = (
        json.dumps({"row": 1, "inputs": [["x", "<f4", [2]]], "outputs": [["y", "<f4", [1]]]}).encode() + b"\n"
    )
    whole = head + np.float32([1, 2, 3]).tobytes()
    for name, content in (("1", whole + whole[:-4]), ("2", whole)):
        (tmp_path / f"{name}.values").write_bytes(content)
        (tmp_path / f"{name}.log").write_bytes(b"")
    found = list(values.calls(tmp_path))
    assert [call.inputs["x"].tolist() for call in found] == [[1, 2], [1, 2]]


def test_they_are_played_where_generated_ones_do_not_run(recording: Recording, tmp_path: Path) -> None:
    code, _, said = bench(tmp_path, msgspec.structs.replace(recording, values=()))
    assert code == 2
    facts(said, "'s'")
    code, out, said = bench(tmp_path, recording)
    assert code == 0, said
    assert json.loads(out)["result"]["played"]["calls"] == 4


def test_a_model_alone_is_measured_with_them(recording: Recording, tmp_path: Path) -> None:
    place = tmp_path / "app.workload"
    files.write(place, msgspec.json.encode(RecordedWorkload(cases=(), recording=recording)))
    words = ["bench", recording.models[0].path, "--workload", str(place), "--processes", "3"]
    code, out, said = program([*words, "--store", str(tmp_path / "store"), "--json"])
    assert code == 0, said
    work = json.loads(out)["workload"]
    assert work["inputs_path"] == f"{place}#1"
    assert [case["name"] for case in work["cases"]] == ["x=4,s=2", "x=4,s=2 #2"]


@pytest.mark.parametrize(("dtype", "data"), [("object", bytes(16)), ("int64", bytes(4))])
def test_damaged_values_are_refused(recording: Recording, tmp_path: Path, dtype: str, data: bytes) -> None:
    first, *others = recording.values
    inputs = tuple(
        RecordedTensor(name=v.name, dtype=dtype, shape=v.shape, data=data) if v.name == "s" else v
        for v in first.inputs
    )
    changed = (RecordedValues(model=0, inputs=inputs), *others)
    code, _, said = bench(tmp_path, msgspec.structs.replace(recording, values=changed))
    assert code == 2
    facts(said, "'s'")
