"""Folders of inputs: which files in them hold one set of inputs each, and which of many are read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from ortune import files

MEASURED = 8
"""The most inputs of a folder that are timed: each run is repeated for each of them."""
LAYOUT = (
    "an .npz with one array per input, an .npy for one input, or a folder of these, "
    "of input_0.pb, input_1.pb …, or of JPEG and PNG images"
)


def sets(folder: Path) -> list[Path]:
    """Return the files or folders in a folder that each hold one set of inputs, images apart."""
    found = [folder] if any(folder.glob("input_*.pb")) else by_number(folder.glob("test_data_set_*"))
    return found or by_number([*folder.glob("*.npz"), *folder.glob("*.npy")])


def by_number(paths: Iterable[Path]) -> list[Path]:
    """Sort paths by the first number in their names."""
    return sorted(paths, key=lambda p: (int(m[0]) if (m := re.search(r"\d+", p.stem)) else 0, p.name))


def spread(found: Sequence[Path], most: int) -> list[Path]:
    """Return at most ``most`` files, at equal distances in their order."""
    return [found[i * len(found) // most] for i in range(most)] if len(found) > most else list(found)


def left_out(path: Path) -> str:
    """Return how many inputs of a folder are timed, for one line; "" where all are, and for images."""
    if not files.is_folder(path) or (path / "feeds.json").is_file():
        return ""
    n = len(sets(path))
    return f"{MEASURED} of {n} inputs in {path.name}" if n > MEASURED else ""
