"""Programs are recorded however they are started: options of Python, test runners, servers, other tracing tools."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from programs import HEAD, LONG, counts, python_with, recorded, run, written

from ortune.records import Recording

TOOLS = (
    "onnxruntime", "coverage==7.11.0", "uvicorn[standard]==0.38.0", "opentelemetry-distro==0.66b2", "ddtrace==4.16.0",
    "pyinstaller==6.22.0",
)  # fmt: skip


@pytest.fixture(scope="module")
def python() -> str:
    """An interpreter with the tools."""
    return python_with(TOOLS, f"starts-py3.{sys.version_info.minor}")


def called(recording: Recording) -> int:
    assert recording.missed == ()
    return sum(calls for _, calls in counts(recording))


def test_options_of_python(tmp_path: Path) -> None:
    recording = run(
        tmp_path,
        """
        import subprocess
        if len(sys.argv) > 1:
            for _ in range(int(sys.argv[1])): opened().run(None, X)
            sys.exit()
        os.chdir(os.path.dirname(os.path.abspath(__file__)))
        text = open(__file__).read()
        for n, words in enumerate((["-m", "app"], ["-c", text], ["-s", __file__], ["-P", __file__])):
            if sys.version_info >= (3, 11) or "-P" not in words:
                subprocess.run([sys.executable, *words, str(1 + n)], check=True)
        """,
    )
    assert sorted(calls for _, calls in counts(recording)) == [1] * 10
    assert called(recording) == 10
    assert len({process for process, _ in counts(recording)}) == 4


def test_pytest(tmp_path: Path) -> None:
    app = written(tmp_path, "def test_it(): opened().run(None, X)\n")
    recording = recorded([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", app])
    assert (recording.code, called(recording)) == (0, 1)


@pytest.mark.long
def test_coverage(python: str, tmp_path: Path) -> None:
    app = written(tmp_path, "opened().run(None, X)\n")
    data = {"COVERAGE_FILE": str(tmp_path / "coverage")}
    recording = recorded([python, "-m", "coverage", "run", app], variables=data)
    assert (recording.code, called(recording)) == (0, 1)


SERVED = """
session = opened()
async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        while True:
            kind = (await receive())["type"]
            await send({"type": kind + ".complete"})
            if kind == "lifespan.shutdown": return
    session.run(None, X)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"done"})
"""
SERVE = """
import signal, subprocess, sys, time, urllib.request
port, words = sys.argv[1], sys.argv[2:]
server = subprocess.Popen([sys.executable, "-m", "uvicorn", "app:app", "--port", port, "--log-level", "error", *words])
def ask(): urllib.request.urlopen("http://127.0.0.1:" + port, timeout=20).read()
for _ in range(600):
    try: ask(); break
    except OSError: time.sleep(0.1)
for _ in range(40): ask()
server.send_signal(signal.SIGTERM)
server.wait()
"""


@pytest.mark.long
@pytest.mark.parametrize("words", [[], ["--workers", "2"], ["--reload"]], ids=["one", "workers", "reload"])
def test_uvicorn(python: str, words: list[str], tmp_path: Path) -> None:
    """It ends by the signal itself, so nothing of Python's end runs."""
    written(tmp_path, SERVED)
    (tmp_path / "serve.py").write_text(SERVE, encoding="utf-8")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    recording = recorded(
        ["/bin/sh", "-c", f'cd {tmp_path} && exec "$0" "$@"', python, "serve.py", str(port), *words]
    )
    assert called(recording) == 41
    assert len(recording.sessions) == (2 if "--workers" in words else 1)


@pytest.mark.long
@pytest.mark.parametrize("tool", ["opentelemetry-instrument", "ddtrace-run"])
def test_tools_with_a_sitecustomize_of_their_own(python: str, tool: str, tmp_path: Path) -> None:
    app = written(tmp_path, "session = opened()\nfor _ in range(3): session.run(None, X)\n")
    quiet = {
        "DD_TRACE_ENABLED": "false",
        "DD_INSTRUMENTATION_TELEMETRY_ENABLED": "false",
        "OTEL_SDK_DISABLED": "true",
    }
    recording = recorded([Path(python).with_name(tool), python, app], variables=quiet)
    assert (recording.code, counts(recording)) == (0, [(0, 3)])
    assert called(recording) == 3


@pytest.mark.long
def test_a_frozen_program_is_missed_with_its_reason(python: str, tmp_path: Path) -> None:
    app = written(
        tmp_path, f"opened().run(None, X)\nprint('frozen', hasattr(sys, 'frozen'))\n{LONG}", head=HEAD
    )
    words = ["--onedir", "--collect-all", "onnxruntime", "--distpath", str(tmp_path / "dist"), "--workpath"]
    done = subprocess.run(
        [python, "-m", "PyInstaller", *words, str(tmp_path / "work"), "--specpath", str(tmp_path), str(app)],
        capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode:
        pytest.skip(f"NOT TESTED, PyInstaller cannot freeze a program here: {done.stderr[-200:]}")
    recording = recorded([tmp_path / "dist" / "app" / "app"])
    assert recording.code == 0
    assert {missed.reason for missed in recording.missed} == {"frozen"}


DEBIAN = Path("/usr/bin/python3")


@pytest.mark.skipif(not Path("/etc/debian_version").exists(), reason="NOT TESTED: Debian's Python is needed")
def test_debians_python_has_a_sitecustomize_of_its_own(tmp_path: Path) -> None:
    import onnxruntime

    probe = "import sys; print(*sys.version_info[:2], sep='.')"
    found = subprocess.run([DEBIAN, "-c", probe], capture_output=True, text=True)
    if found.stdout.strip() != "{}.{}".format(*sys.version_info[:2]):
        pytest.skip("NOT TESTED: Debian's Python is of another version than that of the tests")
    app = written(tmp_path, "opened().run(None, X)\n")
    path = os.pathsep.join([str(Path(onnxruntime.__file__).parents[1])])
    recording = recorded([DEBIAN, app], variables={"PYTHONPATH": path})
    assert (recording.code, called(recording)) == (0, 1)
