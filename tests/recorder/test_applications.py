"""Real applications: each fault that is known of them is found, and no other."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest
from programs import python_with, recorded

from ortune import rules
from ortune.records import Finding, Recording
from ortune.rules import Facts

PACKAGES = ("markitdown==0.1.9", "magika==1.0.3", "gunicorn==23.0.0")
MAGIKA = """
import glob, pathlib
from magika import Magika
files = [pathlib.Path(path) for path in sorted(glob.glob(str(pathlib.Path(glob.__file__).parent / "*.py")))[:30]]
magika = Magika()
print(len([magika.identify_path(path) for path in files]))
"""
MARKITDOWN = """
import io
from markitdown import MarkItDown
print(sum(len(MarkItDown().convert_stream(io.BytesIO(b"some text of a file " * n)).text_content) for n in range(1, 9)))
"""
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
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ["--preload"] if preload else []
    shell = f'cd {tmp_path} && exec setsid --wait "$0" "$@"'
    recording = recorded(["/bin/sh", "-c", shell, python, "serve.py", str(port), *words])
    codes = [finding.code for finding in findings(recording) if finding.code not in ("APP007", "APP008")]
    assert codes == (["APP003"] if preload else [])
    assert sum(session.n_calls for session in recording.sessions) >= 41
