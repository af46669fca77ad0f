"""A folder of compiled models: what was written, what was read, and what a build could not read."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from ortune.worker import probes

OLD_NS, NOW_NS = 10**18, 10**18 + 10 * probes.STILL_NS


def stored(folder: Path, **files: int) -> dict[str, int]:
    """What is in a folder once these files have these times of writing."""
    for name, at_ns in files.items():
        path = folder / name.replace("_", ".")
        path.touch()
        os.utime(path, ns=(at_ns, at_ns))
    found = probes.files([{"probe": "folder", "value": str(folder)}])
    assert found is not None
    return found


def test_only_settings_with_a_folder_have_one(tmp_path: Path) -> None:
    assert probes.files([{"probe": "threads", "value": str(tmp_path)}, {"value": "1"}]) is None
    assert stored(tmp_path / "absent") == {}
    began_ns = time.time_ns()
    (tmp_path / "a.blob").touch()
    assert abs(stored(tmp_path)[str(tmp_path / "a.blob")] - began_ns) < 60e9


@pytest.mark.parametrize(
    ("before", "after", "ok", "seen"),
    [
        ({}, {"a_blob": NOW_NS}, True, "its cache was written"),
        ({"a_blob": OLD_NS}, {}, True, "read from its cache"),
        ({"a_blob": OLD_NS}, {"b_blob": NOW_NS}, True, "its cache was written"),
        ({"a_blob": OLD_NS}, {"a_blob": NOW_NS}, False, "this build wrote its cache again instead of reading it"),
        # Another process of the block was just writing it.
        ({"a_blob": NOW_NS - 1}, {"a_blob": NOW_NS + 1}, True, "read from its cache"),
        # Other providers may write on in a file that they read.
        ({"a_timing": OLD_NS}, {"a_timing": NOW_NS}, True, "read from its cache"),
        ({}, {}, False, "no file was written"),
    ],
)  # fmt: skip
def test_what_became_of_it(
    before: dict[str, int], after: dict[str, int], ok: bool, seen: str, tmp_path: Path
) -> None:
    first = stored(tmp_path, **before)
    assert probes._check_cache(first, NOW_NS, stored(tmp_path, **after)) == ("effect", ok, seen)
