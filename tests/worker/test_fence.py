"""The fence, tried from inside: with each version of Landlock, and where the system refuses it."""

from __future__ import annotations

import errno
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import leaving
from leaving import REFUSING
from ortune.worker import fence, syscalls

pytestmark = pytest.mark.skipif(bool(fence.missing()), reason=f"NOT TESTED: {fence.missing()}")
TESTS = Path(leaving.__file__).parent

CONFINED = f"""
import json, os, shutil, sys
from pathlib import Path
sys.path.insert(0, {str(TESTS)!r})
import leaving
from ortune.worker import fence
outside, version = Path(sys.argv[1]), int(sys.argv[2])
real = fence._landlock_version()
fence._landlock_version = lambda: min(version, real)
fence.confine([str(outside.parent / "given")], os.getcwd(), 1 << 30, 1 << 20)
left = leaving.left(outside, limited=True)
given = (outside.parent / "given" / "file").read_text()
Path("folder").mkdir()
Path("folder/own").write_text("own")
if version > 1:
    os.rename("folder/own", "own")
Path("touched").touch()
shutil.copy2("touched", "copied")
assert Path("touched").exists() and Path("copied").exists()
import ssl, uuid, zoneinfo
print(json.dumps([left, given]))
"""


def child(code: str, *arguments: object, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], cwd=folder, env={**os.environ, **variables},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("version", [1, 2, 3, 4, 6, 99])
def test_nothing_leaves_it(tmp_path: Path, version: int) -> None:
    outside = tmp_path / "outside"
    leaving.prepare(outside)
    (tmp_path / "given").mkdir()
    (tmp_path / "given" / "file").write_text("given")
    (own := tmp_path / "own").mkdir()
    with socket.create_server(("127.0.0.1", 0)) as server:
        told = json.dumps({"port": server.getsockname()[1], "parent": os.getpid()})
        done = child(CONFINED, outside, version, folder=own, OUTSIDE=told)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [[], "given"]
    assert leaving.untouched(outside) and (tmp_path / "given" / "file").read_text() == "given"
    assert not [path for path in own.rglob("*") if path.is_symlink()]


@pytest.mark.parametrize("error", [errno.ENOSYS, errno.EPERM])
def test_a_system_that_refuses_it_is_told(tmp_path: Path, error: int) -> None:
    code = REFUSING + "from ortune.worker import fence\nprint(fence.missing())\nfence.confine([], '.')"
    done = child(code, error, fence._CREATE_RULESET, folder=tmp_path)
    assert "no Landlock" in done.stdout and "Unfenced" in done.stderr


def test_a_fence_that_is_accepted_and_does_nothing_is_none(tmp_path: Path) -> None:
    """An emulated kernel may say yes to each call."""
    code = (
        REFUSING
        + """
from ortune.worker import fence
fence.missing, fence._landlock_version = (lambda: ""), (lambda: 4)
fence.confine([], ".")
"""
    )
    calls = f"{fence._CREATE_RULESET},{fence._ADD_RULE},{fence._RESTRICT_SELF}"
    done = child(code, 0, calls, folder=tmp_path)
    assert "Unfenced" in done.stderr and "no effect" in done.stderr


def test_a_second_thread_is_no_way_around_it(tmp_path: Path) -> None:
    code = (
        "import threading\nfrom ortune.worker import fence\n"
        "threading.Thread(target=threading.Event().wait, daemon=True).start()\nfence.confine([], '.')"
    )
    done = child(code, folder=tmp_path)
    assert "Unfenced" in done.stderr and "threads" in done.stderr


@pytest.mark.parametrize("machine", sorted(syscalls.ARCHITECTURES))
def test_the_filter_is_a_program_that_ends(machine: str) -> None:
    """Every jump of it leads to a line of it, on an architecture that this is not either."""
    code = syscalls.program(machine)
    lines = [code[i : i + 8] for i in range(0, len(code), 8)]
    assert 200 < len(lines) < 4096 and len(code) % 8 == 0
    for place, line in enumerate(lines):
        kind = int.from_bytes(line[:2], "little")
        if kind in (0x15, 0x45):
            assert place + 1 + max(line[2], line[3]) < len(lines)
    assert int.from_bytes(lines[-1][:2], "little") == 0x06


def test_a_home_folder_on_the_path_is_not_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(sys, "path", [str(tmp_path), "", "relative", "/", str(tmp_path / "mine")])
    read = fence.environment()
    assert str(tmp_path / "mine") in read
    assert not {str(tmp_path), "", "relative", "/"} & set(read)
