"""Which quantization methods a model of a structure was best in: a small file for each, in the store's folder."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

import msgspec

from ortune import files

FOLDER = "methods"


def load(store_folder: Path, key: str) -> list[str]:
    """The methods of an earlier session under a key, as that session named them; empty where there was none."""
    with contextlib.suppress(OSError, msgspec.DecodeError, msgspec.ValidationError):
        return msgspec.json.decode(files.read(_path(store_folder, key)), type=list[str])
    return []


def keep(store_folder: Path, key: str, methods: Sequence[str]) -> None:
    """Keeps them for later sessions, which test all methods where they cannot be kept."""
    path = _path(store_folder, key)
    with contextlib.suppress(OSError):
        files.private_folder(path.parent, own=True)
        files.write(path, msgspec.json.encode(list(methods)), private=True)


def _path(store_folder: Path, key: str) -> Path:
    return store_folder / FOLDER / f"{key}.json"
