"""Simulated sessions write below the folder of their test."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _temporary_files_of_the_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that a session writes is below ``tmp_path``."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
