"""Outputs that were checked once, by what they depend on: a small file each."""

from __future__ import annotations

from pathlib import Path

from ortune.records import LevelCheck
from ortune.store import small_files

FOLDER = "levels"


def load(store_folder: Path, key: str) -> LevelCheck | None:
    """Return what is known; None if nothing is, or the file cannot be read."""
    return small_files.load(store_folder, FOLDER, key, LevelCheck)


def keep(store_folder: Path, key: str, answer: LevelCheck) -> None:
    """Keep an answer for later sessions, which ask again where it cannot be kept."""
    small_files.keep(store_folder, FOLDER, key, answer)
