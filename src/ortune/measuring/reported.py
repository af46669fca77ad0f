"""Validates the paths of files that a trial's process reports."""

from __future__ import annotations

from pathlib import Path

from ortune import files
from ortune.errors import MeasurementError


def reported_file(path: str, scratch: Path) -> Path:
    """Return a file that a trial's process reports, after checking that it is in the invocation's scratch folder.

    An untrusted model may compromise the process that opens it, which may then report any path.

    Args:
        path: The reported path; a relative path is resolved from the scratch folder.
        scratch: The scratch folder.

    Raises:
        MeasurementError: The path is outside of the folder, or not a regular file.
    """
    found = scratch / path
    if not files.inside(found, scratch) or not files.is_file(found) or found.is_symlink():
        raise MeasurementError(
            "the trial's process reported a file that it did not write to its folder",
            where=path[:200],
            code="protocol",
        )
    return found
