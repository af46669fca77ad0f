"""Simulated sessions keep their files in memory, where there is room."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

MEMORY = Path("/dev/shm")
ROOM_BYTES = 1 << 30


@pytest.fixture(autouse=True)
def _temporary_files_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that a session writes is below ``tmp_path``."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@pytest.fixture
def tmp_path(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory: a session makes and removes one per trial, and on a disk each removal is a wait."""
    if not os.access(MEMORY, os.W_OK) or shutil.disk_usage(MEMORY).free < ROOM_BYTES:
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=MEMORY, ignore_cleanup_errors=True) as folder:
        yield Path(folder)
