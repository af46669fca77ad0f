"""What fewer bits cost layers, by the structure around them: a small file for each structure.

Layers of another model with the same structure are expected to cost a like part of the whole error.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from ortune.store import small_files

FOLDER = "layers"


class LayerError(msgspec.Struct, frozen=True, kw_only=True):
    """What one question of an earlier session gave.

    Attributes:
        kinds: Structures of its layers, sorted.
        error_ratio: Their error alone over that of the whole model.
    """

    kinds: tuple[str, ...]
    error_ratio: float


def load(store_folder: Path, keys: Mapping[str, str]) -> list[LayerError]:
    """Return the questions that layers of these structures belonged to, all of whose structures are among them.

    If two have a structure in common, the first is used: later ones measured the layers in other combinations.

    Args:
        store_folder: Of the store.
        keys: By structure, the name of its file.
    """
    questions, taken = list[LayerError](), set[str]()
    for key in keys.values():
        question = small_files.load(store_folder, FOLDER, key, LayerError)
        if question and keys.keys() >= set(question.kinds) and not taken & set(question.kinds):
            questions.append(question)
            taken.update(question.kinds)
    return questions


def keep(store_folder: Path, keys: Mapping[str, str], question: LayerError) -> None:
    """Keep it for later sessions, which measure again where it cannot be kept."""
    for kind in question.kinds:
        small_files.keep(store_folder, FOLDER, keys[kind], question)
