"""What fewer bits cost a layer, by the structure around it: a small file each, in the store's folder.

A layer of another model with the same structure is expected to cost a like part of the whole error.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

import msgspec

from ortune import files

FOLDER = "layers"


def load(store_folder: Path, key: str) -> float | None:
    """The error of the layer alone over that of the whole model; None where it is not known."""
    try:
        return msgspec.json.decode(files.read(_path(store_folder, key)), type=float)
    except (OSError, msgspec.DecodeError):
        return None


def keep(store_folder: Path, key: str, error_ratio: float) -> None:
    """Keeps it for later sessions, which measure again where it cannot be kept."""
    path = _path(store_folder, key)
    with contextlib.suppress(OSError):
        files.private_folder(path.parent, own=True)
        files.write(path, msgspec.json.encode(error_ratio), private=True)


def _path(store_folder: Path, key: str) -> Path:
    return store_folder / FOLDER / f"{key}.json"
