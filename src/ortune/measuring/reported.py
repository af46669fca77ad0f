"""Files of a trial by the paths that its process reports."""

from __future__ import annotations

from pathlib import Path

from ortune import files
from ortune.errors import MeasurementError


def reported_file(path: str, scratch: Path) -> Path:
    """Return a file that a trial's process reports, if it is in the scratch folder of the invocation.

    A process that opened an untrusted model may be compromised by it, and may report any path.

    Args:
        path: The reported path; a relative one is resolved from the scratch folder.
        scratch: The scratch folder.

    Raises:
        MeasurementError: The path is outside the folder, or not a regular file.
    """
    found = scratch / path
    if not files.inside(found, scratch) or not files.is_file(found) or found.is_symlink():
        raise MeasurementError(
            "the trial's process reported a file that it did not write to its folder",
            where=path[:200],
            code="protocol",
        )
    return found
