"""Other Python interpreters of this machine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def pythons() -> list[Path]:
    """Return what lies beside the interpreter of these tests (as pyenv lays it), then uv's in the home."""
    beside = sorted(Path(sys.base_prefix).parent.glob("[23].*/bin/python"))
    uv = sorted(Path.home().glob(".local/share/uv/python/cpython-*/bin/python3"))
    return [path for path in [*beside, *uv] if path.is_file()]


def python_of(*releases: str) -> Path | None:
    """Return an interpreter of the first of these releases that is here and starts, as of ``"3.8"``."""
    for release in releases:
        for path in reversed(pythons()):
            if f"{release}." in path.parts[-3] and not subprocess.run([path, "-c", ""]).returncode:
                return path
    return None
