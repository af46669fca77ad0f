"""The temporary folder of one invocation, and what to say when it cannot be had or fills up."""

from __future__ import annotations

import contextlib
import errno
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from ortune import launcher
from ortune.errors import MeasurementError, UsageError

REMOVALS = 10
PREFIX, ALIVE = "ortune-", "alive"
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder for feeds, outputs and logs; removed at the end, and those that killed processes left before it.

    Raises:
        UsageError: No temporary folder can be made.
        MeasurementError: The disk filled up while something was written ("disk-full").
    """
    sweep()
    try:
        folder = tempfile.TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True)
    except OSError as error:
        raise UsageError(
            f"no temporary folder can be made: {error.strerror or error}",
            where="TMPDIR",
            do="set TMPDIR to a folder that can be written",
            code="temporary-folder",
        ) from error
    with folder as name:
        try:
            with _alive(Path(name)):
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
        finally:
            # A stop may come between a start and whoever would have ended it.
            launcher.end_in(Path(name))
            _remove(Path(name))


def _remove(folder: Path) -> None:
    """Removes the folder; a worker that was killed just now may still add a file to it meanwhile."""
    for _ in range(REMOVALS):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(0.02)


def sweep() -> None:
    """Removes the folders of processes that were killed: nobody holds the lock of their ``alive`` any more."""
    with contextlib.suppress(OSError):
        for mark in Path(tempfile.gettempdir()).glob(f"{PREFIX}*/{ALIVE}"):
            with contextlib.suppress(OSError), mark.open("r+b") as file:
                if _lock(file.fileno()):
                    shutil.rmtree(mark.parent, ignore_errors=True)


@contextlib.contextmanager
def _alive(folder: Path) -> Iterator[None]:
    """Marks the folder as in use for as long as this process lives."""
    with (folder / f"{ALIVE}.new").open("w+b") as file:
        if _lock(file.fileno()):
            # Locked before it gets its name: nobody can find it unlocked and take it for a dead one's.
            Path(file.name).replace(folder / ALIVE)
        yield


def _lock(fd: int) -> bool:
    try:
        import fcntl
    except ImportError:  # Windows: left folders stay
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # somebody lives there, or the file system knows no locks
        return False
    return True


def is_full(error: OSError) -> bool:
    """Whether a write failed for want of space; numpy says so without an error number."""
    return error.errno in FULL or "written" in str(error) or "free space" in str(error)
