"""The worker on disk: whole, and written once for all trials of a session."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from ortune.targets.archive import write_worker


def test_it_is_unpacked_once(tmp_path: Path) -> None:
    made = write_worker(tmp_path)
    (made / "mine").touch()
    assert write_worker(tmp_path) == made
    assert (made / "mine").is_file()
    assert list(tmp_path.iterdir()) == [made]


def test_where_files_are_limited_it_stays_one_file(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 40, hard))
    try:
        made = write_worker(tmp_path)
        before = made.stat()
        assert zipfile.is_zipfile(made)
        assert write_worker(tmp_path) == made
        assert made.stat().st_ino == before.st_ino
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
