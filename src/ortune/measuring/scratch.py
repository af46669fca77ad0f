"""Creates the temporary folder of an invocation, and reports if it cannot be created or its disk is full."""

from __future__ import annotations

import contextlib
import errno
import time
from collections.abc import Iterator
from pathlib import Path

from ortune import launcher, temporary
from ortune.errors import MeasurementError, UsageError

REMOVALS = 10
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """Create a folder for feeds, outputs and logs, and remove it at the end; remove folders of killed processes first.

    Raises:
        UsageError: No temporary folder can be created.
        MeasurementError: The disk filled up during a write ("disk-full").
    """
    with contextlib.ExitStack() as stack:
        try:
            place = stack.enter_context(temporary.folder())
        except OSError as error:
            raise UsageError(
                f"cannot create a temporary folder: {error.strerror or error}",
                where="TMPDIR",
                do="set TMPDIR to a writable folder",
                code="temporary-folder",
            ) from error
        try:
            yield place
        except OSError as error:
            if not is_full(error):
                raise
            raise MeasurementError(
                f"the disk is full: {error}",
                where=str(place),
                do="free disk space, or set TMPDIR to a folder on a larger disk",
                code="disk-full",
            ) from error
        finally:
            # A stop may occur between the start of a process and the code that would end it.
            launcher.end_processes_in(place)
            _remove(place)


def _remove(folder: Path) -> None:
    """Remove the folder, repeatedly, since a killed worker may still add a file to it."""
    for _ in range(REMOVALS):
        temporary.remove(folder)
        if not folder.exists():
            return
        time.sleep(0.02)


def is_full(error: OSError) -> bool:
    """Return whether a write failed because the disk is full, which NumPy reports without an error number."""
    # Only numpy's own errors have no number: the text of the others contains a path.
    return error.errno in FULL or (
        error.errno is None and ("written" in str(error) or "free space" in str(error))
    )
