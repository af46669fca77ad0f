"""Files of a trial by the paths that its process reports."""

from __future__ import annotations

from pathlib import Path

from ortune import files
from ortune.errors import MeasurementError


def reported_file(path: str, scratch: Path) -> Path:
    """Return a file that a trial's process says it wrote, if it lies in the scratch folder of the invocation.

    A process that opens a stranger's model may have been taken over by it, and may report any path.

    Args:
        path: As reported; a relative one begins at the scratch folder.
        scratch: The folder.

    Raises:
        MeasurementError: The path leads elsewhere, or to no regular file.
    """
    found = scratch / path
    if not files.inside(found, scratch) or not files.is_file(found) or found.is_symlink():
        raise MeasurementError(
            "the trial's process reported a file that it did not write to its folder",
            where=path[:200],
            code="protocol",
        )
    return found
