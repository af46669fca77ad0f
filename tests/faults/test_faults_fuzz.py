"""Some damaged files of every kind; ``benchmarks/fuzz.py`` damages many more."""

from __future__ import annotations

from pathlib import Path

from fuzzing import kinds, one

EACH = 10


def test_damaged_files_are_read_or_refused(tmp_path: Path) -> None:
    rows = [one(kind, number) for kind in kinds(tmp_path) for number in range(EACH)]
    failed = [row for row in rows if not row.good]
    assert not failed, failed[0]
    assert {row.outcome for row in rows} == {"read", "refused"}
