"""Other machines for tests: an interpreter in a namespace of its own, which sees no files of this machine."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest


def board(folder: Path, name: str, python: str = sys.executable, before: str = "") -> Path:
    """Return the script of a machine; where the system hides no files, the test is skipped.

    Args:
        folder: Gets the machine's own files.
        name: Of the machine.
        python: Its interpreter.
        before: What starts the interpreter, such as "taskset -c 0".
    """
    home = folder / name / "home"
    (home / "tmp").mkdir(parents=True)
    hidden = tempfile.gettempdir()
    inside = (
        f"mount --bind {home} /mnt && mount -t tmpfs none {hidden} && cd / && "
        f'exec env HOME=/mnt XDG_CACHE_HOME=/mnt/cache TMPDIR=/mnt/tmp {before} {python} "$@"'
    )
    command = folder / name / "python"
    command.write_text(f"#!/bin/sh\nexec unshare --mount --map-root-user sh -c '{inside}' sh \"$@\"\n")
    command.chmod(0o755)
    if shutil.which("unshare") is None:
        pytest.skip("unshare is not installed")
    seen = subprocess.run(
        [command, "-c", f"import os; print(os.path.exists({str(folder)!r}))"],
        capture_output=True,
        text=True,
        check=False,
    )
    if seen.returncode:
        pytest.skip(f"no file system can be hidden here: {seen.stderr.strip()}")
    assert seen.stdout == "False\n"
    return command
