"""A file that a trial's process reports is used only if it lies in the scratch folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from ortune.errors import MeasurementError
from ortune.measuring.reported import reported_file


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    (tmp_path / "secret").write_text("secret")
    (scratch := tmp_path / "scratch" / "trial").mkdir(parents=True)
    (scratch / "profile.json").write_text("{}")
    (scratch / "link").symlink_to(tmp_path / "secret")
    (scratch / "inside").symlink_to(scratch / "profile.json")
    (scratch / "up").symlink_to(tmp_path)
    return scratch.parent


def test_its_own_file_is_found_by_either_path(scratch: Path) -> None:
    for path in ("trial/profile.json", str(scratch / "trial" / "profile.json")):
        assert reported_file(path, scratch).read_text() == "{}"


@pytest.mark.parametrize(
    "path",
    ["../secret", "{}/secret", "trial/link", "trial/inside", "trial/up/secret", "trial", "none", "", "a\0b",
     "x" * 5000, "/dev/zero"],
)  # fmt: skip
def test_no_other_is_used(scratch: Path, path: str) -> None:
    with pytest.raises(MeasurementError) as error:
        reported_file(path.format(scratch.parent), scratch)
    assert error.value.exit_code == 3 and len(error.value.where) <= 200
    assert (scratch.parent / "secret").read_text() == "secret"
