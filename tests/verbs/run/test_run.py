"""``ortune run`` as users run it."""

from __future__ import annotations

import hashlib
import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from onnxruntime import datasets

import ortune
from facts import facts
from ortune.bundle import digests
from ortune.bundle.app import SCHEMA
from ortune.errors import UsageError

SIGMOID = Path(datasets.get_example("sigmoid.onnx"))
APP = """
import os, sys
import numpy as np
import onnxruntime as ort
from onnxruntime import datasets
X = {"x": np.ones((3, 4, 5), np.float32)}
def per_call(): return ort.InferenceSession(datasets.get_example("sigmoid.onnx")).run(None, X)
for _ in range(4): per_call()
print("out:", sys.stdin.read() if "read" in sys.argv else "")
print("err", file=sys.stderr)
"""


def bundle(folder: Path, content: bytes | None = None, **session: Any) -> Path:
    path = folder / "app.ortune"
    path.mkdir(exist_ok=True)
    digest = hashlib.sha256(SIGMOID.read_bytes() if content is None else content).hexdigest()
    entry = {"name": "sigmoid.onnx", "sha256": [digest], "share": True, **session}
    index = {"schema": SCHEMA, "sessions": [entry], "contains": "CPU time 2x lower", "command": ["rm", "-r"]}
    (path / "ortune.json").write_text(json.dumps(index), encoding="utf-8")
    digests.write(path)
    return path


def run(
    folder: Path,
    body: str,
    *options: str,
    words: Sequence[str] = (),
    stdin: str = "",
    made: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    (folder / "app.py").write_text(APP + body, encoding="utf-8")
    command = [sys.executable, "-m", "ortune", "run", "--with", str(made or bundle(folder)), *options, "--"]
    words = [sys.executable, str(folder / "app.py"), *words]
    return subprocess.run([*command, *words], cwd=folder, capture_output=True, text=True, input=stdin)


def test_one_line_says_what_was_changed_and_the_program_keeps_its_streams(tmp_path: Path) -> None:
    done = run(tmp_path, "", words=["read"], stdin="typed")
    assert (done.returncode, done.stdout) == (0, "out: typed\n")
    first, *lines = done.stderr.splitlines()
    assert first == "err"
    assert len(lines) == 1
    facts(lines[0], "applied", "sigmoid.onnx", "3 of 4 sessions shared")


def test_a_variable_for_all_sessions_is_said_and_set(tmp_path: Path) -> None:
    made = bundle(tmp_path)
    index = {"schema": SCHEMA, "variables": {"ORT_INTRA_OP_NUM_THREADS": "1"}}
    (made / "ortune.json").write_text(json.dumps(index), encoding="utf-8")
    digests.write(made)
    done = run(tmp_path, "print(os.environ['ORT_INTRA_OP_NUM_THREADS'])", made=made)
    assert (done.returncode, done.stdout) == (0, "out: \n1\n")
    assert done.stderr.splitlines()[-1] == "applied: ORT_INTRA_OP_NUM_THREADS=1"


def test_an_updated_model_is_left_alone_and_said(tmp_path: Path) -> None:
    done = run(tmp_path, "", made=bundle(tmp_path, b"an older one"))
    assert done.returncode == 0
    facts(done.stderr, "nothing was applied", "Another content", "left alone", "sigmoid.onnx")


def test_a_model_that_is_not_in_the_bundle_is_named(tmp_path: Path) -> None:
    done = run(tmp_path, "", made=bundle(tmp_path, b"x", name="other.onnx"))
    facts(
        done.stderr,
        "nothing was applied",
        "Not used",
        "other.onnx",
        "Not in the bundle",
        "sigmoid.onnx",
        "4 sessions",
    )


@pytest.mark.parametrize(
    ("body", "code"), [("sys.exit(7)", 7), ("os.kill(os.getpid(), 15)", 143), ("raise ValueError", 1)]
)
def test_the_exit_code_is_the_programs(tmp_path: Path, body: str, code: int) -> None:
    done = run(tmp_path, body)
    assert done.returncode == code
    assert "3 of 4 sessions shared" in done.stderr


def test_a_process_that_is_not_reached_is_named_and_the_code_is_the_programs(tmp_path: Path) -> None:
    script = "import onnxruntime, time; time.sleep(1)"
    body = f"import subprocess; subprocess.run([sys.executable, '-I', '-c', {script!r}])"
    done = run(tmp_path, body)
    assert done.returncode == 0
    facts(done.stderr, "applied", "not reached", "-I")


def test_from_python_the_answer_is_a_document(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "app.py").write_text(APP, encoding="utf-8")
    answer = ortune.run(sys.executable, str(tmp_path / "app.py"), bundle=bundle(tmp_path))
    assert capfd.readouterr().out == "out: \n"
    assert answer.verdict == "applied"
    (model,) = answer.result.models
    assert (model.created, model.shared) == (1, 3)
    with pytest.raises(UsageError, match="command"):
        ortune.run(bundle=tmp_path)
    with pytest.raises(UsageError, match="not a bundle"):
        ortune.run("true", bundle=tmp_path)
    with pytest.raises(UsageError, match="cannot be started"):
        ortune.run("/no/such/program", bundle=bundle(tmp_path))


def test_signals_reach_the_program(tmp_path: Path) -> None:
    waits = "import signal, time\nsignal.signal(15, lambda *_: sys.exit(5))\nprint('ready', flush=True)\ntime.sleep(60)"
    (tmp_path / "app.py").write_text(APP + waits, encoding="utf-8")
    command = [sys.executable, "-m", "ortune", "run", "--with", str(bundle(tmp_path)), "--", sys.executable]
    program = subprocess.Popen(
        [*command, str(tmp_path / "app.py")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert program.stdout is not None
    while "ready" not in program.stdout.readline():
        pass
    program.send_signal(signal.SIGTERM)
    _, errors = program.communicate(timeout=60)
    assert program.returncode == 5
    assert "3 of 4 sessions shared" in errors
