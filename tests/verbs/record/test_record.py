"""``ortune record`` as users run it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

import ortune
from facts import facts
from ortune.errors import UsageError
from ortune.records import RecordedWorkload

APP = """
import sys
import numpy as np
import onnxruntime as ort
from onnxruntime import datasets
X = {"x": np.ones((3, 4, 5), np.float32)}
def per_call(): return ort.InferenceSession(datasets.get_example("sigmoid.onnx")).run(None, X)
print("out:", sys.stdin.read() if "read" in sys.argv else "")
print("err", file=sys.stderr)
"""
PER_CALL = "for _ in range(6): per_call()\n"
RIGHT = """
options = ort.SessionOptions(); options.intra_op_num_threads = 1
session = ort.InferenceSession(datasets.get_example("sigmoid.onnx"), options)
for _ in range(20): session.run(None, X)
"""


def program(folder: Path, body: str) -> Path:
    path = folder / "app.py"
    path.write_text(APP + body, encoding="utf-8")
    return path


def record(
    folder: Path, body: str, *options: str, words: Sequence[str] = (), stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ortune", "record", *options, "--", sys.executable]
    return subprocess.run(
        [*command, str(program(folder, body)), *words],
        cwd=folder,
        capture_output=True,
        text=True,
        input=stdin,
    )


def test_a_fault_is_the_first_line_and_the_program_keeps_its_streams(tmp_path: Path) -> None:
    done = record(tmp_path, PER_CALL, words=["read", "--output", "x"], stdin="typed")
    assert (done.returncode, done.stdout) == (0, "out: typed\n")
    first, *rest = done.stderr.splitlines()
    assert first == "err"
    facts(
        " ".join(rest),
        "6 sessions of sigmoid.onnx for 6 calls",
        "app.py:7",
        "APP001",
        "create the session once",
    )
    saved = msgspec.json.decode((tmp_path / "app.workload").read_bytes(), type=RecordedWorkload)
    assert saved.recording is not None
    assert len(saved.recording.sessions) == 6
    assert saved.cases == ()


def test_a_program_without_faults_gets_nothing_found_and_what_was_looked_at(tmp_path: Path) -> None:
    done = record(tmp_path, RIGHT, "-o", "mine.workload")
    facts(done.stderr, "nothing found: 1 session and 20 calls in 1 process", "recorder", "mine.workload")
    assert (tmp_path / "mine.workload").exists()


@pytest.mark.parametrize(
    ("body", "code"),
    [("sys.exit(17)", 17), ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", 137), ("1 / 0", 1)],
)
def test_the_exit_code_is_the_programs(tmp_path: Path, body: str, code: int) -> None:
    done = record(tmp_path, f"per_call()\n{body}\n")
    assert done.returncode == code
    assert "1 session and 1 call" in done.stderr


def test_a_missed_process_is_named_and_is_3_where_the_program_succeeded(tmp_path: Path) -> None:
    # It lives longer than the time between two looks from outside.
    body = "import subprocess\nif len(sys.argv) < 2: subprocess.run([sys.executable, '-I', __file__, 'x'])\n"
    missed = record(tmp_path, f"{body}per_call()\nimport time; time.sleep(0.3)\n")
    assert missed.returncode == 3
    facts(missed.stderr, "not recorded", "-I", "ortune record --install")
    failed = record(tmp_path, f"{body}per_call()\nimport time; time.sleep(0.3); sys.exit(5)\n")
    assert failed.returncode == 5
    short = str(program(tmp_path, "per_call()"))
    nothing = subprocess.run(
        [sys.executable, "-m", "ortune", "record", "--", sys.executable, "-I", short],
        capture_output=True, text=True, cwd=tmp_path,
    )  # fmt: skip
    assert nothing.returncode == 3
    facts(nothing.stderr, "nothing was recorded", "1 process")
    assert "no sessions" not in nothing.stderr


def test_no_sessions_is_said_of_a_program_without_any(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ortune", "record", "--", "/bin/sh", "-c", "echo hello"],
        capture_output=True, text=True, cwd=tmp_path,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "hello\n")
    assert "no sessions: 1 process seen, none with ONNX Runtime" in done.stderr
    assert list(tmp_path.iterdir()) == []


def signalled(tmp_path: Path, body: str, number: signal.Signals) -> subprocess.CompletedProcess[str]:
    """Record a program that prints "ready", send the recording command a signal then, and return its end."""
    command = [sys.executable, "-m", "ortune", "record", "--", sys.executable, str(program(tmp_path, body))]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout is not None
        while "ready" not in run.stdout.readline():
            pass
        run.send_signal(number)
        printed, said = run.communicate()
    return subprocess.CompletedProcess(command, run.returncode, printed, said)


def test_signals_reach_the_program_and_its_recording_is_kept(tmp_path: Path) -> None:
    body = """
import signal, time
def ended(number, frame): print("ended", signal.Signals(number).name, flush=True); sys.exit(9)
signal.signal(signal.SIGTERM, ended); signal.signal(signal.SIGINT, ended)
per_call(); print("ready", flush=True); time.sleep(60)
"""
    for number in (signal.SIGTERM, signal.SIGINT):
        run = signalled(tmp_path, body, number)
        assert (run.stdout, run.returncode) == (f"ended {number.name}\n", 9)
        assert "1 session and 1 call" in run.stderr


def test_a_session_without_calls_is_a_finding_if_the_program_ends_by_itself(tmp_path: Path) -> None:
    unused = "session = ort.InferenceSession(datasets.get_example('sigmoid.onnx'))\n"
    whole = record(tmp_path, unused)
    facts(
        whole.stderr, "1 session of sigmoid.onnx was created and never called", "app.py:10", "APP017", "MiB"
    )
    body = f"""
import time
{unused}
try:
    print("ready", flush=True); time.sleep(60)
except KeyboardInterrupt:
    pass
"""
    run = signalled(tmp_path, body, signal.SIGINT)
    assert run.returncode == 0
    facts(run.stderr, "nothing found: 1 session and 0 calls", "ended by SIGINT")


def test_a_creation_that_raises_is_a_finding(tmp_path: Path) -> None:
    body = """
try:
    ort.InferenceSession("missing.onnx")
except Exception:
    pass
"""
    done = record(tmp_path, body)
    assert done.returncode == 0
    facts(done.stderr, "1 session of missing.onnx could not be created", "APP018", "NoSuchFile")


def test_a_duration_ends_the_program(tmp_path: Path) -> None:
    done = record(tmp_path, "per_call(); import time; time.sleep(300)\n", "--duration", "2s")
    assert done.returncode == 0
    facts(done.stderr, "1 session and 1 call", "ended by duration")


def test_anonymous_files_hold_no_path_and_no_argument(tmp_path: Path) -> None:
    answer = record(tmp_path, PER_CALL, "--anonymous", words=["secret-argument"])
    assert answer.returncode == 0
    text = (tmp_path / "app.workload").read_text(encoding="utf-8")
    for name in (
        "secret-argument",
        str(tmp_path),
        "app.py",
        "per_call",
        sys.executable,
        os.environ.get("HOME", "?"),
    ):
        assert name not in text
    assert len(json.loads(text)["recording"]["sessions"]) == 6


def test_an_earlier_file_is_kept(tmp_path: Path) -> None:
    (tmp_path / "app.workload").write_text("mine", encoding="utf-8")
    done = record(tmp_path, "per_call()")
    assert "written to app-2.workload" in done.stderr
    assert (tmp_path / "app.workload").read_text(encoding="utf-8") == "mine"


def test_from_python_the_answer_is_a_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = ortune.record(sys.executable, str(program(tmp_path, PER_CALL)))
    assert (answer.verdict, [finding.code for finding in answer.result.findings]) == ("findings", ["APP001"])
    assert capfd.readouterr() == ("out: \n", "err\n")
    assert "APP001" in answer.summary()
    with pytest.raises(UsageError, match="pass a command"):
        ortune.record()
    with pytest.raises(UsageError, match="cannot be started"):
        ortune.record("/no/such/program")


def test_a_recording_is_shown_again_and_is_written_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    recorded = ortune.record(sys.executable, str(program(tmp_path, PER_CALL)), "secret-argument")
    again = ortune.show("app.workload")
    (session,) = again.result.sessions
    assert session.headline == recorded.result.headline
    assert "APP001" in again.summary()
    ortune.show("app.workload", issue="upstream")
    text = (tmp_path / "upstream" / "issue.md").read_text(encoding="utf-8")
    facts(text, "6 sessions of", "6 calls", "create the session once", "ONNX Runtime")
    for name in ("secret-argument", str(tmp_path), "app.py"):
        assert name not in text
    with pytest.raises(UsageError, match="already exists"):
        ortune.show("app.workload", issue="upstream")
    ortune.record(sys.executable, str(program(tmp_path, RIGHT)), output="right.workload")
    with pytest.raises(UsageError, match="nothing was found"):
        ortune.show("right.workload", issue="other")
    assert not (tmp_path / "other").exists()
