"""Temporary folders of ortune's own: removed at their end, and where their process was killed, at the next start."""

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
_LONGEST = 40  # a socket's path has 107 characters at most


@contextlib.contextmanager
def folder(parent: Path | None = None) -> Iterator[Path]:
    """A temporary folder, after those that killed processes left there are gone.

    Args:
        parent: Where it is made, under a hidden name; among temporary files without it.

    Raises:
        OSError: None can be made.
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
    """Remove a folder as far as possible, however deep its folders are nested and whatever they permit.

    A confined process can leave thousands of folders within each other in its own, beyond the longest path, or a
    folder that cannot be listed.
    """
    with contextlib.suppress(RecursionError):
        shutil.rmtree(folder, ignore_errors=True)
    # Windows has no names within an open folder.
    if os.rename in os.supports_dir_fd and folder.is_dir() and not folder.is_symlink():
        with contextlib.suppress(OSError):
            _flatten(folder)
            shutil.rmtree(folder, ignore_errors=True)


def _flatten(folder: Path) -> None:
    """Move every folder below to the top, one after another, and removes the rest: no path becomes long."""
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
    """Remove the folders of processes that were killed: nobody holds the lock of their ``alive`` any more."""
    place = Path(tempfile.gettempdir()) if parent is None else parent
    with contextlib.suppress(OSError):
        for mark in place.glob(f"{_prefix(parent)}*/{ALIVE}"):
            with contextlib.suppress(OSError):
                if _own(mark.parent, stat.S_ISDIR) and _own(mark, stat.S_ISREG):
                    _remove_dead(mark)


def _prefix(parent: Path | None) -> str:
    return PREFIX if parent is None else f".{PREFIX}"


def _remove_dead(mark: Path) -> None:
    with mark.open("r+b") as file:
        # The system frees a lock with its process, however that ended.
        if _lock(file.fileno()):
            with contextlib.suppress(RecursionError):
                remove_sockets(mark.parent)
            remove(mark.parent)


def remove_sockets(place: Path) -> None:
    """Remove what browsers that were ended by force left outside of their profiles, which are in a folder.

    It is the folder of a socket, to which a link leads; it is there where the folder's own name is too long for one.
    """
    for folder, _, names in os.walk(place):  # links to nowhere too
        if _SOCKET not in names:
            continue
        with contextlib.suppress(OSError):
            leftover = Path(folder, _SOCKET).readlink().parent
            if (
                "chrom" in leftover.name.lower()
                and leftover.parent == short()
                and _own(leftover, stat.S_ISDIR)
            ):
                shutil.rmtree(leftover)


def short() -> Path:
    """Return the folder of temporary files, or one of a shorter name, where a socket in a folder may be."""
    usual = Path(tempfile.gettempdir())
    return usual if len(str(usual)) <= _LONGEST or not Path("/tmp").is_dir() else Path("/tmp")


def _own(path: Path, kind: Callable[[int], bool]) -> bool:
    """Return whether the user made the folder, and it is no link: others may put theirs among temporary files."""
    status = path.lstat()
    return kind(status.st_mode) and (not hasattr(os, "geteuid") or status.st_uid == os.geteuid())


@contextlib.contextmanager
def _alive(place: Path) -> Iterator[None]:
    """Mark the folder as in use for as long as this process lives."""
    with (place / f"{ALIVE}.new").open("w+b") as file:
        if _lock(file.fileno()):
            # Locked before it gets its name: nobody can find it unlocked and take it for a dead one's.
            Path(file.name).replace(place / ALIVE)
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
