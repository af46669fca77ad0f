"""A program that creates a session for each call: recorded, played again, tuned, and run with the answer."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import msgspec
import onnx
import pytest
from programs import recorded

import ortune
from ortune import files
from ortune.records import RecordedWorkload
from within import program

APP = """
import sys
import numpy as np
import onnxruntime as ort
for _ in range(8):
    session = ort.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
    session.run(None, {"data_0": np.ones((1, 3, 224, 224), np.float32)})
"""


@pytest.mark.long
def test_a_session_per_call_is_shared_and_the_bundle_applies(tmp_path: Path) -> None:
    model = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light" / "light_squeezenet.onnx"
    shutil.copy(model, tmp_path / "m.onnx")
    (tmp_path / "app.py").write_text(APP)
    command = [sys.executable, str(tmp_path / "app.py"), str(tmp_path / "m.onnx")]
    recording = recorded(command)
    assert len(recording.sessions) == 8
    workload = tmp_path / "app.workload"
    files.write(workload, msgspec.json.encode(RecordedWorkload(cases=(), recording=recording)))
    played = ortune.bench(workload, arrival="recorded", processes=3, store=tmp_path / "store").result
    assert played.played.calls == 8 and played.played.open_loop
    result = ortune.tune(workload, budget="90s", output=tmp_path, store=tmp_path / "store").result
    assert result.verdict == "faster", result.headline
    assert result.share and result.confirmation.cpu.high < 0.9
    assert result.confirmation.outputs.ok
    code, _, said = program(["run", "--with", result.bundle, "--", *command])
    assert code == 0, said
    assert "7 of 8 sessions shared" in said
