"""The temporary folder of one invocation, and what to say when it cannot be had or fills up."""

from __future__ import annotations

import contextlib
import errno
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ortune.errors import MeasurementError, UsageError

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder for feeds, outputs and logs; removed at the end.

    Raises:
        UsageError: No temporary folder can be made.
        MeasurementError: The disk filled up while something was written ("disk-full").
    """
    try:
        folder = tempfile.TemporaryDirectory(prefix="ortune-", ignore_cleanup_errors=True)
    except OSError as error:
        raise UsageError(
            f"no temporary folder can be made: {error.strerror or error}",
            where="TMPDIR",
            do="set TMPDIR to a folder that can be written",
            code="temporary-folder",
        ) from error
    with folder as name:
        try:
            yield Path(name)
        except OSError as error:
            if not is_full(error):
                raise
            raise MeasurementError(
                f"the disk is full: {error}",
                where=name,
                do="free space there, or set TMPDIR to a folder with more",
                code="disk-full",
            ) from error


def is_full(error: OSError) -> bool:
    """Whether a write failed for want of space; numpy says so without an error number."""
    return error.errno in FULL or "written" in str(error) or "free space" in str(error)
