"""Which quantization methods a model of a structure was best in: a small file for each."""

from __future__ import annotations

from pathlib import Path

import msgspec

from ortune.store import small_files

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
    """Return the methods under a key; none if no session kept any."""
    return small_files.load(store_folder, FOLDER, key, Methods) or Methods()


def keep(store_folder: Path, key: str, methods: Methods) -> None:
    """Keep them for later sessions, which test all methods where they cannot be kept."""
    small_files.keep(store_folder, FOLDER, key, methods)
