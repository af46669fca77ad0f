"""Cache of the errors of quantized layers, by their structure, with one small file each.

Layers of another model with the same structure are expected to cause a similar fraction of the total error.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from ortune.store import small_files

FOLDER = "layers"


class LayerError(msgspec.Struct, frozen=True, kw_only=True):
    """The error of one group of layers, as measured in an earlier session.

    Attributes:
        kinds: Structures of the layers, sorted.
        error_ratio: Ratio of their error to that of the whole model.
    """

    kinds: tuple[str, ...]
    error_ratio: float


def load(store_folder: Path, keys: Mapping[str, str]) -> list[LayerError]:
    """Return the stored measurements in which every layer has one of the structures in ``keys``.

    If two have a structure in common, the first is used, since later ones measured the layers in other combinations.

    Args:
        store_folder: Folder of the store.
        keys: File name by structure.
    """
    questions, taken = list[LayerError](), set[str]()
    for key in keys.values():
        question = small_files.load(store_folder, FOLDER, key, LayerError)
        if question and keys.keys() >= set(question.kinds) and not taken & set(question.kinds):
            questions.append(question)
            taken.update(question.kinds)
    return questions


def keep(store_folder: Path, keys: Mapping[str, str], question: LayerError) -> None:
    """Store a measurement for later sessions; failures are ignored, since it can be repeated."""
    for kind in question.kinds:
        small_files.keep(store_folder, FOLDER, keys[kind], question)
