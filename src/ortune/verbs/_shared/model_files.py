"""The models that a command line selects: files, folders and glob patterns."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from ortune import files
from ortune.errors import UsageError

SUFFIXES = (".onnx", ".ort")
"""Suffixes of the files that are models in a folder."""
BUNDLE = ".ortune"
MODEL_SUFFIXES = (*SUFFIXES, BUNDLE)
_PATTERN = "*?["


def names_several(text: str) -> bool:
    """Return whether a text is a folder of models or a glob pattern."""
    return _is_folder(text) or _is_pattern(text)


def found(texts: Sequence[str]) -> tuple[str, ...]:
    """Return the models that the texts select, in the same order and without duplicates.

    The models of a folder or pattern are sorted by name. A file that does not exist is included, so that the command
    reports its error.

    Raises:
        UsageError: A folder contains no model, or a pattern matches no file.
    """
    names: dict[str, None] = {}
    for text in texts:
        if _is_folder(text):
            inside = _in_folder(text)
            if not inside:
                raise UsageError(
                    "holds no model", where=text, do="pass a folder with .onnx or .ort files, or a file"
                )
            names |= dict.fromkeys(inside)
        elif _is_pattern(text):
            matches = sorted(glob.glob(text, recursive=True))  # noqa: PTH207  # keeps names as they are typed
            if not matches:
                raise UsageError("matches no file", where=text, do="correct the pattern")
            names |= dict.fromkeys(found(matches))
        else:
            names[text] = None
    return tuple(names)


def _is_folder(text: str) -> bool:
    """Return whether a path is a folder of models; bundles and SavedModel folders are models themselves."""
    path = Path(text)
    return files.is_folder(path) and path.suffix != BUNDLE and not files.is_file(path / "saved_model.pb")


def _is_pattern(text: str) -> bool:
    """Return whether a text is a glob pattern and not the name of an existing file."""
    return any(sign in text for sign in _PATTERN) and not os.path.lexists(text) and "@" not in text


def _in_folder(folder: str) -> list[str]:
    """Return all model files below a folder, except in bundles and hidden folders."""
    return sorted(_walked(folder))


def _walked(folder: str) -> Iterator[str]:
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".") and Path(name).suffix != BUNDLE]
        for name in names:
            if Path(name).suffix.lower() in SUFFIXES and not name.startswith("."):
                yield str(Path(place, name))
