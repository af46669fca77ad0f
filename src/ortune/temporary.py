"""Temporary folders, removed at their end, or at the next start if their process was killed."""

from __future__ import annotations

import contextlib
import itertools
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

PREFIX, ALIVE = "ortune-", "alive"
_SOCKET = "SingletonSocket"
_OWN = 0o700
_LONGEST = 40  # maximum length; a socket's path has at most 107 characters


@contextlib.contextmanager
def folder(parent: Path | None = None) -> Iterator[Path]:
    """Create a temporary folder, after removing those of killed processes.

    Args:
        parent: Parent folder, in which it gets a hidden name; by default the system's temporary folder.

    Raises:
        OSError: If it cannot be created.
    """
    sweep(parent)
    prefix = _prefix(parent)
    with tempfile.TemporaryDirectory(dir=parent, prefix=prefix, ignore_cleanup_errors=True) as name:
        try:
            with _alive(Path(name)):
                yield Path(name)
        finally:
            remove(Path(name))


def remove(folder: Path) -> None:
    """Remove a folder as far as possible, regardless of nesting depth and permissions.

    A confined process can nest thousands of folders, beyond the longest path, or create a folder that cannot be listed.
    """
    with contextlib.suppress(RecursionError):
        shutil.rmtree(folder, ignore_errors=True)
    # Windows does not support names relative to an open folder.
    if os.rename in os.supports_dir_fd and folder.is_dir() and not folder.is_symlink():
        with contextlib.suppress(OSError):
            _flatten(folder)
            shutil.rmtree(folder, ignore_errors=True)


def _flatten(folder: Path) -> None:
    """Move every nested folder to the top, one after another, and remove the rest, so no path becomes too long."""
    fresh = itertools.count()
    prefix = secrets.token_hex(8)
    top = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        waiting = [entry.name for entry in os.scandir(top) if entry.is_dir(follow_symlinks=False)]
        while waiting:
            name = waiting.pop()
            os.chmod(name, _OWN, dir_fd=top)
            inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=top)
            try:
                for entry in list(os.scandir(inner)):
                    if not entry.is_dir(follow_symlinks=False):
                        os.unlink(entry.name, dir_fd=inner)
                        continue
                    os.chmod(entry.name, _OWN, dir_fd=inner)
                    waiting.append(f"{prefix}-{next(fresh)}")
                    os.rename(entry.name, waiting[-1], src_dir_fd=inner, dst_dir_fd=top)
            finally:
                os.close(inner)
            os.rmdir(name, dir_fd=top)
    finally:
        os.close(top)


def sweep(parent: Path | None = None) -> None:
    """Remove the folders of killed processes, which no longer lock the folder's ``alive`` file."""
    place = Path(tempfile.gettempdir()) if parent is None else parent
    with contextlib.suppress(OSError):
        for mark in place.glob(f"{_prefix(parent)}*/{ALIVE}"):
            with contextlib.suppress(OSError):
                if _is_own(mark.parent, stat.S_ISDIR) and _is_own(mark, stat.S_ISREG):
                    _remove_dead(mark)


def _prefix(parent: Path | None) -> str:
    return PREFIX if parent is None else f".{PREFIX}"


def _remove_dead(mark: Path) -> None:
    with mark.open("r+b") as file:
        # The system releases a lock with its process, however that ended.
        if _lock(file.fileno()):
            with contextlib.suppress(RecursionError):
                remove_sockets(mark.parent)
            remove(mark.parent)


def remove_sockets(place: Path) -> None:
    """Remove the folders that killed browsers created outside of their profiles in ``place``.

    A browser creates the folder of its socket elsewhere, with a link, if the profile's path is too long.
    """
    for folder, _, names in os.walk(place):  # links to nowhere too
        if _SOCKET not in names:
            continue
        with contextlib.suppress(OSError):
            leftover = Path(folder, _SOCKET).readlink().parent
            if (
                "chrom" in leftover.name.lower()
                and leftover.parent == short_folder()
                and _is_own(leftover, stat.S_ISDIR)
            ):
                shutil.rmtree(leftover)


def short_folder() -> Path:
    """Return the system's temporary folder, or ``/tmp`` if the path is too long for sockets."""
    usual = Path(tempfile.gettempdir())
    return usual if len(str(usual)) <= _LONGEST or not Path("/tmp").is_dir() else Path("/tmp")


def _is_own(path: Path, kind: Callable[[int], bool]) -> bool:
    """Return whether the user owns a path and ``kind`` accepts its mode, since others may create such paths too."""
    status = path.lstat()
    return kind(status.st_mode) and (not hasattr(os, "geteuid") or status.st_uid == os.geteuid())


@contextlib.contextmanager
def _alive(place: Path) -> Iterator[None]:
    """Mark a folder as in use while this process lives."""
    with (place / f"{ALIVE}.new").open("w+b") as file:
        if _lock(file.fileno()):
            # Locked before it gets its name, so no other process can find it unlocked and remove it.
            Path(file.name).replace(place / ALIVE)
        yield


def _lock(fd: int) -> bool:
    try:
        import fcntl
    except ImportError:  # Windows: remaining folders are kept
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # in use, or the file system has no locks
        return False
    return True
