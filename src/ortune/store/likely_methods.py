"""Cache of the best quantization methods of models, by the models' structure, with one small file each."""

from __future__ import annotations

from pathlib import Path

import msgspec

from ortune.store import small_files

FOLDER = "methods"


class Methods(msgspec.Struct, frozen=True, kw_only=True):
    """Quantization methods by name; untested ones are in neither list.

    Attributes:
        best: Methods of the winner, and of correct models that were nearly as fast.
        worse: All other tested methods.
    """

    best: tuple[str, ...] = ()
    worse: tuple[str, ...] = ()


def load(store_folder: Path, key: str) -> Methods:
    """Return the methods stored under a key; empty if there are none."""
    return small_files.load(store_folder, FOLDER, key, Methods) or Methods()


def keep(store_folder: Path, key: str, methods: Methods) -> None:
    """Store methods for later sessions; failures are ignored, since all methods can be tested again."""
    small_files.keep(store_folder, FOLDER, key, methods)
