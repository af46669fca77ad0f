"""What sessions leave to later ones: a small JSON file for each key, in the store's folder."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TypeVar

import msgspec

from ortune import files

T = TypeVar("T")


def load(store_folder: Path, kind: str, key: str, of: type[T]) -> T | None:
    """Return what is known; None if nothing is, or the file cannot be read.

    Args:
        store_folder: Of the store.
        kind: Names the folder of such files.
        key: Names the file.
        of: What it holds.
    """
    try:
        return msgspec.json.decode(files.read(_path(store_folder, kind, key)), type=of)
    except (OSError, msgspec.DecodeError):
        return None


def keep(store_folder: Path, kind: str, key: str, value: object) -> None:
    """Keep a value for later sessions, which find it out again where it cannot be kept."""
    path = _path(store_folder, kind, key)
    with contextlib.suppress(OSError):
        files.private_folder(path.parent, own=True)
        files.write(path, msgspec.json.encode(value), private=True)


def _path(store_folder: Path, kind: str, key: str) -> Path:
    return store_folder / kind / f"{key}.json"
