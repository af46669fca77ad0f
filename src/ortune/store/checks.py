"""Outputs that were checked once, by what they depend on: a small file each, in the store's folder."""

from __future__ import annotations

import contextlib
from pathlib import Path

import msgspec

from ortune import files
from ortune.records import LevelCheck

FOLDER = "levels"


def load(store_folder: Path, key: str) -> LevelCheck | None:
    """What is known; None where nothing is, or the file cannot be read."""
    try:
        return msgspec.json.decode(files.read(_path(store_folder, key)), type=LevelCheck)
    except (OSError, msgspec.DecodeError):
        return None


def keep(store_folder: Path, key: str, answer: LevelCheck) -> None:
    """Keeps an answer for later sessions, which ask again where it cannot be kept."""
    path = _path(store_folder, key)
    with contextlib.suppress(OSError):
        files.private_folder(path.parent, own=True)
        files.write(path, msgspec.json.encode(answer), private=True)


def _path(store_folder: Path, key: str) -> Path:
    return store_folder / FOLDER / f"{key}.json"
