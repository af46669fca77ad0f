"""Real applications: each fault that is known of them is found, and no other."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest
from programs import python_with, recorded, written
from real_programs import CHROMADB, MAGIKA, MARKITDOWN, PACKAGES, PIPECAT, chromadb_with_a_model

from facts import facts
from ortune import rules
from ortune.records import Finding, Recording
from ortune.rules import Facts

SERVED = """
from magika import Magika
magika = Magika()
def app(environ, start):
    start("200 OK", [])
    return [str(magika.identify_bytes(b"import os\\n" * 40).output.label).encode()]
"""


@pytest.fixture(scope="module")
def python() -> str:
    """An interpreter with the applications."""
    return python_with(PACKAGES, f"applications-py3.{sys.version_info.minor}")


def findings(recording: Recording) -> tuple[Finding, ...]:
    return rules.found_by(rules.Selection().rules(("application",)), Facts(recording=recording))


def test_markitdown_creates_a_session_for_each_object(python: str) -> None:
    recording = recorded([python, "-c", MARKITDOWN])
    (finding,) = findings(recording)
    assert finding.code == "APP001"
    assert finding.what.startswith("8 sessions of model.onnx for 8 calls (magika 1.0.3, magika/magika.py:")
    assert "called from markitdown 0.1.9, markitdown/_markitdown.py:" in finding.what
    assert recording.missed == ()


def test_magika_keeps_its_session(python: str) -> None:
    recording = recorded([python, "-c", MAGIKA])
    assert [finding.code for finding in findings(recording) if finding.code != "APP008"] == []
    (session,) = recording.sessions
    assert session.n_calls == 30
    assert sum(calls.with_lists for calls in session.calls) == 30
    assert len({calls.inputs for calls in session.calls}) == 1
    assert recording.places[session.place][0].package == "magika"


def test_the_command_of_magika_has_its_onnxruntime_inside(python: str) -> None:
    """It is a program of Rust; the parent sees what the recorder cannot."""
    command = Path(python).with_name("magika").resolve()
    recording = recorded([command, *sorted(Path("/usr/share/doc").glob("*/copyright"))[:200]])
    assert recording.sessions == ()
    assert [(missed.reason, missed.library) for missed in recording.missed] == [("static", str(command))]


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


SERVE = """
import os, signal, subprocess, sys, time, urllib.request
port, preload = sys.argv[1], sys.argv[2:]
words = ["-w", "2", "-b", "127.0.0.1:" + port, *preload, "served:app"]
server = subprocess.Popen([sys.executable, "-m", "gunicorn", *words])
for _ in range(600):
    try: urllib.request.urlopen("http://127.0.0.1:" + port, timeout=5).read(); break
    except OSError: time.sleep(0.1)
for _ in range(40): urllib.request.urlopen("http://127.0.0.1:" + port).read()
os.killpg(0, signal.SIGQUIT)
"""


@pytest.mark.long
@pytest.mark.parametrize("preload", [False, True])
def test_gunicorn_with_preload_loses_the_threads_of_its_session(
    python: str, preload: bool, tmp_path: Path
) -> None:
    (tmp_path / "served.py").write_text(SERVED, encoding="utf-8")
    (tmp_path / "serve.py").write_text(SERVE, encoding="utf-8")
    words = ["--preload"] if preload else []
    shell = f'cd {tmp_path} && exec setsid --wait "$0" "$@"'
    recording = recorded(["/bin/sh", "-c", shell, python, "serve.py", str(free_port()), *words])
    codes = [finding.code for finding in findings(recording) if finding.code not in ("APP007", "APP008")]
    assert codes == (["APP003"] if preload else [])
    assert sum(session.n_calls for session in recording.sessions) >= 41


NUDENET = """
import multiprocessing, sys
import numpy as np
def begin():
    global detector
    from nudenet import NudeDetector
    detector = NudeDetector()
def detect(seed): return len(detector.detect(np.random.default_rng(seed).integers(0, 255, (320, 320, 3), np.uint8)))
if __name__ == "__main__":
    with multiprocessing.get_context(sys.argv[1]).Pool(2, begin) as pool:
        print(sum(pool.map(detect, range(24), chunksize=2)))
        pool.close(); pool.join()
"""


@pytest.mark.long
def test_chromadb_creates_a_session_for_each_call_and_pads_its_texts(tmp_path: Path) -> None:
    python = chromadb_with_a_model(tmp_path)
    app = written(tmp_path, CHROMADB, head="")
    recording = recorded([python, app], variables={"HOME": str(tmp_path)})
    found = {finding.code: finding for finding in findings(recording) if finding.code != "APP008"}
    assert sorted(found) == ["APP001", "APP009"]
    facts(found["APP001"].what, "9 sessions of model.onnx for 9 calls (chromadb 1.5.9, ")
    assert "chromadb" in found["APP009"].what
    assert (recording.code, recording.missed) == (0, ())


@pytest.mark.long
def test_pipecat_has_a_session_for_each_connection(tmp_path: Path) -> None:
    python = python_with(("pipecat-ai[silero]==1.14.0",), "pipecat")
    recording = recorded([python, written(tmp_path, PIPECAT, head="")])
    found = {finding.code: finding for finding in findings(recording)}
    assert sorted(found) == ["APP002", "APP004"]
    facts(found["APP002"].what, "8 sessions of silero_vad.onnx exist at the same time", "pipecat_ai 1.14.0")
    assert (recording.code, recording.missed) == (0, ())


@pytest.mark.long
@pytest.mark.parametrize("kind", ["spawn", "fork", "forkserver"])
def test_the_processes_of_nudenet_have_more_threads_than_there_are_cpus(kind: str, tmp_path: Path) -> None:
    python = python_with(("nudenet==3.4.2",), "nudenet")
    recording = recorded([python, written(tmp_path, NUDENET, head=""), kind])
    codes = {finding.code for finding in findings(recording)} - {"APP008"}
    assert codes == {"APP007"}
    assert sum(session.n_calls for session in recording.sessions) == 24
    assert (recording.code, recording.missed) == (0, ())


WEB = """
from fastapi import FastAPI
from magika import Magika
app, magika = FastAPI(), Magika()
@app.get("/")
def label(): return {"label": str(magika.identify_bytes(b"import os\\n" * 400).output.label)}
"""
CLIENTS = """
import signal, subprocess, sys, threading, time, urllib.request
port = sys.argv[1]
server = subprocess.Popen([sys.executable, "-m", "uvicorn", "web:app", "--port", port, "--log-level", "error"])
def ask(): urllib.request.urlopen("http://127.0.0.1:" + port, timeout=20).read()
for _ in range(600):
    try: ask(); break
    except OSError: time.sleep(0.1)
def client():
    for _ in range(30): ask()
threads = [threading.Thread(target=client) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
server.send_signal(signal.SIGINT)
server.wait()
"""


@pytest.mark.long
def test_magika_in_a_web_service_keeps_its_session(tmp_path: Path) -> None:
    python = python_with(("magika==1.0.3", "uvicorn==0.38.0", "fastapi==0.121.0"), "service")
    (tmp_path / "web.py").write_text(WEB, encoding="utf-8")
    (tmp_path / "clients.py").write_text(CLIENTS, encoding="utf-8")
    shell = f'cd {tmp_path} && exec "$0" "$@"'
    recording = recorded(["/bin/sh", "-c", shell, python, "clients.py", str(free_port())])
    assert [finding.code for finding in findings(recording) if finding.code != "APP008"] == []
    (session,) = recording.sessions
    assert session.n_calls == 121
    assert len({call.thread for call in recording.processes[0].arrivals}) > 1
    assert recording.missed == ()
