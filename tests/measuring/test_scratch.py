"""The temporary folder of an invocation, and what killed ones left."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from ortune.measuring.scratch import is_full, scratch_folder

HOLD = """
import sys
from ortune.measuring.scratch import scratch_folder
with scratch_folder() as folder:
    (folder / "feeds").mkdir()
    print(folder, flush=True)
    sys.stdin.read()
"""


def holder(folder: Path) -> tuple[subprocess.Popen[str], Path]:
    """Another process that holds a scratch folder, and the folder."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD], env={"TMPDIR": str(folder)},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


@pytest.mark.skipif(sys.platform == "win32", reason="folders of killed processes stay on Windows")
def test_what_a_killed_process_left_goes_and_what_a_living_one_uses_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    killed, left = holder(tmp_path)
    living, used = holder(tmp_path)
    strange = tmp_path / "ortune-of-somebody"
    strange.mkdir()
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    try:
        assert (left / "feeds").is_dir()
        with scratch_folder() as mine:
            assert not left.exists()
            assert (used / "feeds").is_dir()
            assert strange.is_dir()
            assert mine.is_dir()
        assert not mine.exists()
    finally:
        living.communicate("")
    assert not used.exists()


@pytest.mark.skipif(sys.platform == "win32", reason="names within an open folder")
def test_folders_nested_beyond_every_path_are_removed_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with scratch_folder() as folder:
        nest(folder, 2500)
    assert not folder.exists()
    process, left = holder(tmp_path)
    nest(left, 2500)
    process.kill()
    process.communicate()
    with scratch_folder():
        assert not left.exists()


def nest(folder: Path, depth: int) -> None:
    """Folders within each other, as a program makes them that goes into each."""
    at = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("inner", dir_fd=at)
        inner = os.open("inner", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = inner
    os.close(os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=at))
    os.close(at)


@pytest.mark.parametrize(
    ("error", "full"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), True),
        (OSError("8192 requested and 100 written"), True),
        (PermissionError(errno.EACCES, "Permission denied", "/scratch/rewritten/model.onnx"), False),
    ],
)
def test_a_path_does_not_make_an_error_one_of_a_full_disk(error: OSError, full: bool) -> None:
    assert is_full(error) == full
