"""Which quantization methods a model of a structure was best in: a small file for each, in the store's folder."""

from __future__ import annotations

import contextlib
from pathlib import Path

import msgspec

from ortune import files

FOLDER = "methods"


class Methods(msgspec.Struct, frozen=True, kw_only=True):
    """Methods as sessions named them; one that was never tested is in neither.

    Attributes:
        best: The winner's, and those of right models that were nearly as fast.
        worse: All others that were tested.
    """

    best: tuple[str, ...] = ()
    worse: tuple[str, ...] = ()


def load(store_folder: Path, key: str) -> Methods:
    """The methods under a key; none where no session kept any."""
    with contextlib.suppress(OSError, msgspec.DecodeError, msgspec.ValidationError):
        return msgspec.json.decode(files.read(_path(store_folder, key)), type=Methods)
    return Methods()


def keep(store_folder: Path, key: str, methods: Methods) -> None:
    """Keeps them for later sessions, which test all methods where they cannot be kept."""
    path = _path(store_folder, key)
    with contextlib.suppress(OSError):
        files.private_folder(path.parent, own=True)
        files.write(path, msgspec.json.encode(methods), private=True)


def _path(store_folder: Path, key: str) -> Path:
    return store_folder / FOLDER / f"{key}.json"
