"""Finds the sets of inputs in a folder, and selects a sample if there are many."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from ortune import files

MEASURED = 8
"""Maximum number of input sets of a folder that are timed, since every run is repeated for each set."""
LAYOUT = (
    "an .npz with one array per input, an .npy for one input, or a folder of these, "
    "of input_0.pb, input_1.pb …, or of JPEG and PNG images"
)


def sets(folder: Path) -> list[Path]:
    """Return the files or folders in a folder that each contain one set of inputs, without images."""
    found = [folder] if any(folder.glob("input_*.pb")) else by_number(folder.glob("test_data_set_*"))
    return found or by_number([*folder.glob("*.npz"), *folder.glob("*.npy")])


def by_number(paths: Iterable[Path]) -> list[Path]:
    """Sort paths by the first number in their names."""
    return sorted(paths, key=lambda p: (int(m[0]) if (m := re.search(r"\d+", p.stem)) else 0, p.name))


def spread(found: Sequence[Path], most: int) -> list[Path]:
    """Return at most ``most`` files, evenly spaced."""
    return [found[i * len(found) // most] for i in range(most)] if len(found) > most else list(found)


def left_out(path: Path) -> str:
    """Return a note on how many input sets of a folder are timed; "" if all are, and for images."""
    if not files.is_folder(path) or (path / "feeds.json").is_file():
        return ""
    n = len(sets(path))
    return f"{MEASURED} of {n} inputs in {path.name}" if n > MEASURED else ""
