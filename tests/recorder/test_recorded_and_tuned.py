"""A program that creates a session for each call: recorded, played again, tuned, and run with the answer."""

from __future__ import annotations

import math
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import msgspec
import onnx
import pytest
import real_programs as applications
from programs import python_with, recorded

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


@dataclass(frozen=True, kw_only=True)
class Gain:
    """What sharing a session gains in a whole program: upper ends of CPU time and peak memory, changed / recorded.

    Attributes:
        budgets: Those of tune and of compare on a quiet machine.
    """

    cpu: float
    memory: float = math.inf
    budgets: tuple[str, str]


GAINS = {
    "markitdown": Gain(cpu=0.75, budgets=("5m", "4m")),
    "chromadb": Gain(cpu=0.95, budgets=("12m", "10m")),
    "pipecat": Gain(cpu=0.95, memory=0.75, budgets=("8m", "8m")),
}
"""About half of the gains in docs/results.md, since machines differ."""


@pytest.mark.long
@pytest.mark.parametrize("name", GAINS)
def test_the_gain_of_a_shared_session_is_confirmed_in_the_unchanged_application(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "chromadb":
        monkeypatch.setenv("HOME", str(tmp_path))
        python, source = applications.chromadb_with_a_model(tmp_path), applications.CHROMADB
    elif name == "pipecat":
        python, source = python_with(("pipecat-ai[silero]==1.14.0",), "pipecat"), applications.PIPECAT
    else:
        packages = f"applications-py3.{sys.version_info.minor}"
        python, source = python_with(applications.PACKAGES, packages), applications.MARKITDOWN
    app = tmp_path / "app.py"
    app.write_text(source, encoding="utf-8")
    workload, store, gain = tmp_path / "app.workload", tmp_path / "store", GAINS[name]
    recording = recorded([python, app], limit_s=600)
    files.write(workload, msgspec.json.encode(RecordedWorkload(cases=(), recording=recording)))
    tuned = ortune.tune(workload, budget=gain.budgets[0], output=tmp_path, store=store).result
    assert tuned.verdict == "faster" and tuned.share, tuned.headline
    compared = ortune.compare(app=f"{python} {app}", b_with=tuned.bundle, budget=gain.budgets[1], store=store)
    figures, said = compared.result.app, compared.summary()
    assert compared.result.outputs.comparable and figures.n_outputs > 0, said
    assert figures.cpu.ratio_high is not None and figures.cpu.ratio_high < gain.cpu, said
    assert figures.memory.ratio < gain.memory, said
