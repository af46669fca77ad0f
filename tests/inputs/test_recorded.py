"""The part of one model in the recording of an application."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import numpy as np
import onnx
import pytest

from onnx_text import model_of
from ortune.errors import InputError
from ortune.graph.model.open import OpenModel, open_model
from ortune.inputs import recorded, recording_file, workload
from ortune.records import (
    Arrival,
    RecordedCalls,
    RecordedInput,
    RecordedModel,
    RecordedProcess,
    RecordedSession,
    RecordedTensor,
    RecordedValues,
    RecordedWorkload,
    Recording,
    Workload,
)

MS = 1_000_000


@pytest.fixture
def model(tmp_path: Path) -> OpenModel:
    onnx.save(
        model_of("g (float[n,3] x, int64[n] mask) => (float[n,3] y) { y = Relu (x) }"), tmp_path / "m.onnx"
    )
    return open_model(tmp_path / "m.onnx")


def calls(key: int, n: int, count: int, **more: object) -> RecordedCalls:
    shapes = (RecordedInput(name="x", dtype="float32", shape=(n, 3)), RecordedInput(name="mask", shape=(n,)))
    return RecordedCalls(key=key, inputs=shapes, count=count, **more)  # type: ignore[arg-type]


def recording(model: OpenModel, active: int = 1) -> Recording:
    ours = RecordedSession(id=1, process=0, model=0, calls=(calls(1, 1, 30), calls(2, 8, 10)))
    again = RecordedSession(id=2, process=0, model=0, calls=(calls(3, 1, 60),))
    other = RecordedSession(id=3, process=0, model=1, calls=(calls(4, 64, 5),))
    arrivals = [
        Arrival(key=1, start_ns=30 * MS * i, took_ns=10 * MS, thread=0, active=active) for i in range(30)
    ]
    return Recording(
        processes=(RecordedProcess(pid=1, arrivals=tuple(arrivals)),),
        sessions=(ours, other, again),
        models=(RecordedModel(path="/srv/m.onnx", sha256=model.sha256), RecordedModel(sha256="ff" * 32)),
    )


def work(model: OpenModel, number: int | None = None, **more: int) -> Workload:
    return recorded.of_model(recording(model, **more), model, number, where="app.workload", seed=7)


def test_shapes_count_by_their_calls_and_those_of_other_models_do_not(model: OpenModel) -> None:
    found = work(model)
    assert [(case.name, case.weight) for case in found.cases] == [
        ("x=1x3,mask=1", pytest.approx(0.9)), ("x=8x3,mask=8", pytest.approx(0.1)),
    ]  # fmt: skip
    assert [choice.shape for choice in found.cases[1].inputs] == [(8, 3), (8,)]
    assert (found.gap_ns, found.callers, found.seed) == (20 * MS, 1, 7)


def test_one_session_is_chosen_by_its_number(model: OpenModel) -> None:
    assert [case.weight for case in work(model, 1).cases] == [0.75, 0.25]
    assert [case.name for case in work(model, 3).cases] == ["x=1x3,mask=1"]
    with pytest.raises(InputError, match=r"no session of m.onnx \(recorded: ffffffff, m.onnx\)"):
        work(model, 2)
    with pytest.raises(InputError, match="there is no session 4"):
        work(model, 4)


def test_several_callers_have_no_gap(model: OpenModel) -> None:
    found = work(model, active=4)
    assert (found.gap_ns, found.callers) == (0, 4)


def test_recorded_values_are_cases_and_the_other_shapes_are_generated(
    model: OpenModel, tmp_path: Path
) -> None:
    rows = [np.full((1, 3), value, np.float32) for value in (2.0, 5.0)]
    values = tuple(
        RecordedValues(
            model=0,
            inputs=(
                RecordedTensor(name="x", dtype="float32", shape=(1, 3), data=row.tobytes()),
                RecordedTensor(name="mask", dtype="int64", shape=(1,), data=np.int64(7).tobytes()),
            ),
        )
        for row in rows
    )
    path = tmp_path / "app.workload"
    saved = msgspec.structs.replace(recording(model), values=values)
    path.write_bytes(msgspec.json.encode(RecordedWorkload(cases=(), recording=saved)))
    found = recorded.of_model(saved, model, None, where=str(path), seed=7)
    assert [(case.name, case.weight) for case in found.cases] == [
        ("x=1x3,mask=1", pytest.approx(0.45)), ("x=1x3,mask=1 #2", pytest.approx(0.45)),
        ("x=8x3,mask=8", pytest.approx(0.1)),
    ]  # fmt: skip
    assert [choice.origin for choice in found.cases[0].inputs] == ["user", "user"]
    feeds = [values for _, values in workload.feeds(model.ir, found)]
    assert [each["x"].tolist() for each in feeds[:2]] == [row.tolist() for row in rows]  # type: ignore[union-attr]
    assert feeds[1]["mask"].tolist() == [7]  # type: ignore[union-attr]
    assert feeds[2]["x"].shape == (8, 3)  # type: ignore[union-attr]
    schedule = recorded.arrivals_of(path, model)
    assert schedule.cases[:4] == (0, 1, 0, 1)


def test_a_file_of_one_model_is_no_recording(model: OpenModel, tmp_path: Path) -> None:
    path = tmp_path / "app.workload"
    path.write_bytes(msgspec.json.encode(work(model)))
    assert recording_file.read(path) is None
    path.write_bytes(msgspec.json.encode(RecordedWorkload(cases=(), recording=recording(model))))
    assert recording_file.read(path) == recording(model)
    assert recording_file.split(path) == (path, None)
    assert recording_file.split(Path(f"{path}#12")) == (path, 12)
    named = tmp_path / "a#1"
    named.touch()
    assert recording_file.split(named) == (named, None)


def _written(path: Path, recorded_: Recording, **damage: object) -> Path:
    """Write a workload file whose first session is damaged."""
    content = json.loads(msgspec.json.encode(RecordedWorkload(cases=(), recording=recorded_)))
    content["recording"]["sessions"][0] |= damage
    path.write_text(json.dumps(content))
    return path


@pytest.mark.parametrize("field", ["process", "model", "place"])
@pytest.mark.parametrize("index", [-2, 7, 10**30])
def test_a_recording_that_refers_to_what_is_not_in_it_is_refused(
    model: OpenModel, tmp_path: Path, field: str, index: int
) -> None:
    path = _written(tmp_path / "app.workload", recording(model), **{field: index})
    with pytest.raises(InputError, match=r"recording is damaged.*no " + field) as raised:
        recording_file.read(path)
    assert "ortune record" in raised.value.do
    with pytest.raises(InputError):
        recorded.arrivals_of(path, model)


def test_a_recording_of_another_type_is_damaged_and_other_files_are_none(
    model: OpenModel, tmp_path: Path
) -> None:
    with pytest.raises(InputError):
        recording_file.read(_written(tmp_path / "a.workload", recording(model), calls=3))
    for text in (b"", b"[1]", b'{"cases": 3}', b'{"recording": null}', b"\xff\x00"):
        (tmp_path / "b.workload").write_bytes(text)
        assert recording_file.read(tmp_path / "b.workload") is None


def test_a_workload_without_shapes_is_refused(tmp_path: Path) -> None:
    (tmp_path / "w.json").write_bytes(b'{"cases": []}')
    with pytest.raises(InputError, match="no shapes"):
        workload.load(tmp_path / "w.json")
