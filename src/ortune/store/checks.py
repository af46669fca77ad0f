"""Cache of output checks: one small file per key, which depends on everything that affects the outputs."""

from __future__ import annotations

from pathlib import Path

from ortune.records import LevelCheck
from ortune.store import small_files

FOLDER = "levels"


def load(store_folder: Path, key: str) -> LevelCheck | None:
    """Return the stored check of a key; None if there is none or the file cannot be read."""
    return small_files.load(store_folder, FOLDER, key, LevelCheck)


def keep(store_folder: Path, key: str, answer: LevelCheck) -> None:
    """Store a check for later sessions; failures are ignored, since the check can be repeated."""
    small_files.keep(store_folder, FOLDER, key, answer)
