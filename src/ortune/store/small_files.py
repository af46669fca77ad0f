"""Values for later sessions: one small JSON file per key, in the store's folder."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TypeVar

import msgspec

from ortune import files

T = TypeVar("T")


def load(store_folder: Path, kind: str, key: str, of: type[T]) -> T | None:
    """Return the stored value; None if there is none or the file cannot be read.

    Args:
        store_folder: Folder of the store.
        kind: Name of the subfolder.
        key: Name of the file.
        of: Type of the value.
    """
    try:
        return msgspec.json.decode(files.read(_path(store_folder, kind, key)), type=of)
    except (OSError, msgspec.DecodeError):
        return None


def keep(store_folder: Path, kind: str, key: str, value: object) -> None:
    """Store a value for later sessions; failures are ignored, since it can be computed again."""
    path = _path(store_folder, kind, key)
    with contextlib.suppress(OSError):
        files.private_folder(path.parent, own=True)
        files.write(path, msgspec.json.encode(value), private=True)


def _path(store_folder: Path, kind: str, key: str) -> Path:
    return store_folder / kind / f"{key}.json"
