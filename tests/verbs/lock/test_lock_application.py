"""``ortune lock app.workload``: a program, its lock, and the same program after an update."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import msgspec
import onnxruntime as ort
import pytest

from facts import facts
from ortune import files
from ortune.engines.locks.application import app_differences, snapshot_of
from ortune.recorder.program import record
from ortune.records import LockChange, RecordedWorkload, Recording
from within import program

APP = """
import sys
import numpy as np
import onnxruntime as ort
from onnxruntime import datasets
options = ort.SessionOptions()
options.intra_op_num_threads = 1 + ("thread" in sys.argv)
path = datasets.get_example("sigmoid.onnx")
keep = [ort.InferenceSession(path, options) for _ in range(1 + ("copy" in sys.argv))]
for session in keep:
    session.run(None, {"x": np.ones((3, 4, 5), np.float32)})
if "session" in sys.argv:
    other = ort.InferenceSession(datasets.get_example("logreg_iris.onnx"), options)
    other.run(None, {"float_input": np.ones((3, 2), np.float32)})
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("app")
    (folder / "app.py").write_text(APP)
    return folder


def recording(folder: Path, *words: str) -> Recording:
    return record([sys.executable, str(folder / "app.py"), *words], given={})


def workload(folder: Path, *words: str) -> str:
    place = folder / "app.workload"
    files.write(place, msgspec.json.encode(RecordedWorkload(cases=(), recording=recording(folder, *words))))
    return str(place)


def test_a_lock_is_kept_and_what_an_update_adds_fails(folder: Path) -> None:
    code, out, said = program(["lock", workload(folder)])
    assert code == 0, said
    facts(out, "1 session", "sigmoid.onnx", "app.workload.lock.json", "--check")
    assert json.loads((folder / "app.workload.lock.json").read_text())["schema"] == "ortune/app-snapshot/1"
    code, out, said = program(["lock", workload(folder), "--check"])
    assert code == 0, said
    facts(out, "unchanged")
    code, out, _ = program(["lock", workload(folder, "copy", "thread", "session"), "--check", "--json"])
    assert code == 1
    answer = json.loads(out)
    assert (answer["schema"], answer["verdict"]) == ("ortune/app-lock/1", "changed")
    found = {
        (c["part"], c.get("was"), c.get("now")) for c in answer["result"]["changes"] if c.get("fails", True)
    }
    assert found == {("model", 0, 1), ("sessions", 1, 2), ("copies", 1, 2), ("threads", 1, 2)}
    code, out, _ = program(["lock", workload(folder), "--check", "--shape", "x:1"])
    assert code == 2


def changes(was: Recording, now: Recording, *, strict: bool = False) -> list[LockChange]:
    return list(app_differences(snapshot_of(was), snapshot_of(now), strict=strict))


def test_what_is_less_or_another_version_is_reported_alone(folder: Path) -> None:
    one, two = recording(folder), recording(folder, "copy", "thread")
    fewer = changes(two, one)
    assert {change.part for change in fewer} == {"sessions", "copies", "threads"}
    assert not any(change.fails for change in fewer)
    assert all(change.fails for change in changes(two, one, strict=True))
    older = msgspec.structs.replace(
        one, processes=(msgspec.structs.replace(one.processes[0], onnxruntime="1.0"),)
    )
    assert [(c.part, c.was, c.now) for c in changes(older, one)] == [("ort-version", "1.0", ort.__version__)]


def test_a_default_number_of_threads_is_compared_on_equal_machines_alone(folder: Path) -> None:
    was = recording(folder)
    (session,) = was.sessions
    usual = msgspec.structs.replace(session, options=None, threads=1)
    wide = msgspec.structs.replace(usual, threads=7)
    was = msgspec.structs.replace(was, sessions=(usual,))
    now = msgspec.structs.replace(was, sessions=(wide,))
    assert [(c.part, c.now, c.fails) for c in changes(was, now)] == [("threads", 8, True)]
    elsewhere = msgspec.structs.replace(now, logical_cpus=was.logical_cpus + 6)
    assert [(c.part, c.fails) for c in changes(was, elsewhere)] == [("not-compared", False)]


def test_the_lock_of_a_model_is_none_of_an_application(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text('{"schema": "ortune/snapshot/1"}')
    code, _, said = program(["lock", workload(folder), "--check", str(tmp_path / "other.json")])
    assert code == 2
    facts(said, "ortune/snapshot/1", "ortune lock")
