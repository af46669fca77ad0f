"""File access: atomic writes, and reads of regular files only.

A folder from elsewhere may contain links, pipes and devices under any predictable name.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from ortune.errors import UsageError

_PRIVATE, _USUAL = 0o600, 0o666
_MODELS = frozenset({".onnx", ".ort", ".pt2", ".keras", ".tflite"})
_STEM = 100  # maximum characters of the name kept in the temporary name


def write(
    path: Path,
    content: str | bytes | Callable[[BinaryIO], object],
    *,
    typed: bool = False,
    private: bool = False,
) -> None:
    """Write a file under an unpredictable name in the same folder, and rename it.

    The permissions of a replaced file are kept.

    Args:
        path: Path of the file; an existing file is replaced. If the path is a link, the link is replaced, not its
            target.
        content: Text (UTF-8), bytes, or a function that writes to the open file.
        typed: Whether the user typed this path. If so, the target of a link is written instead, and a device is written
            to.
        private: Whether only the user may read it.

    Raises:
        OSError: If it cannot be written; an existing file is then unchanged.
    """
    fill = content if callable(content) else _filler(content)
    if typed and path.exists() and not path.is_file():
        with path.open("wb") as file:  # a device or a pipe; a folder raises an error
            fill(file)
        return
    if typed:
        path = _link_target(path)
    part = path.with_name(f".{path.name[:_STEM]}.{secrets.token_hex(8)}.part")
    mode = _PRIVATE if private else _mode(path)
    flags = _flags(os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    fd = os.open(part, flags, _USUAL if mode is None else mode)
    try:
        with os.fdopen(fd, "wb") as file:
            if mode is not None:
                _restrict(file.fileno(), mode)
            fill(file)
            file.flush()
            # Before the rename, or after a power cut the new name could be empty with the old content lost.
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
        raise


def move_into_place(part: Path, path: Path, *, typed: bool) -> None:
    """Move a finished file to its path, keeping the permissions of a replaced file.

    Args:
        part: The finished file.
        path: Destination, on the same file system.
        typed: As for ``write``.

    Raises:
        OSError: If it cannot be moved.
    """
    goal = _link_target(path) if typed else path
    mode = _mode(goal)
    if mode is not None:
        part.chmod(mode)
    part.replace(goal)


def require_writable(path: Path, option: str, *, for_model: bool = False) -> None:
    """Check in advance that a file can be written and that it does not replace a model.

    Args:
        path: Path of the file.
        option: Option that selects another file.
        for_model: Whether a model is written, which may replace another model.

    Raises:
        UsageError: If it is a folder or a model, or cannot be written.
    """
    do = f"choose another {option}"
    if is_folder(path):
        raise UsageError("is a folder", where=str(path), do=f"pass a file: {option} FILE")
    try:
        goal = _link_target(path) if path.is_symlink() else path
        if not is_folder(goal.parent):
            raise UsageError("no such folder", where=str(goal.parent), do=f"create it, or {do}")
        if not for_model and goal.suffix.lower() in _MODELS and is_file(goal):
            raise UsageError("is a model, which is not replaced", where=str(path), do=do)
        if not exists(goal) or is_file(goal):  # a device is written directly
            require_writable_folder(goal.parent)
    except OSError as error:
        raise UsageError(f"cannot be written: {error.strerror}", where=str(path), do=do) from error


def require_writable_folder(folder: Path) -> None:
    """Raise OSError if no file can be created in a folder."""
    with tempfile.TemporaryFile(dir=folder):
        pass


def open_file(path: Path) -> BinaryIO:
    """Open a file for reading, without waiting for a pipe or reading a device endlessly.

    Raises:
        OSError: If it cannot be opened, or is not a regular file.
    """
    try:
        fd = os.open(path, _flags(os.O_RDONLY | getattr(os, "O_NONBLOCK", 0), follow=True))
    except ValueError as error:  # a zero byte in the name
        raise OSError(errno.EINVAL, "no file can have this name", ascii(str(path))) from error
    mode = os.fstat(fd).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(fd, "rb")
    os.close(fd)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise OSError(errno.EINVAL, "not a regular file; save it to one first", str(path))


def read(path: Path) -> bytes:
    """Return the bytes of a file.

    Raises:
        OSError: As ``open_file``.
    """
    with open_file(path) as file:
        return file.read()


def is_file(path: Path | str) -> bool:
    """Return whether a path is a regular file; False for invalid names too."""
    return os.path.isfile(path)  # noqa: PTH113 -- Path.is_file raises for such names


def inside(path: Path, folder: Path) -> bool:
    """Return whether a path is inside a folder after resolving links."""
    try:
        return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))
    except ValueError:  # a zero byte in the name
        return False


def is_folder(path: Path | str) -> bool:
    """Return whether a path is a folder; False for invalid names too."""
    return os.path.isdir(path)  # noqa: PTH112


def exists(path: Path | str) -> bool:
    """Return whether a path exists; False for invalid names too."""
    return os.path.exists(path)  # noqa: PTH110


def link(source: Path, target: Path) -> None:
    """Create a hard link to a file, or a copy if the file system has no links or the target is on another one."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def private_folder(path: Path, *, own: bool) -> None:
    """Create a folder that only the user may enter, and its parents with default permissions.

    Args:
        path: The folder.
        own: Whether the folder is ortune's own. If so, other users lose access even if the folder already exists.

    Raises:
        OSError: If it cannot be created.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        if not path.is_dir():
            raise
        if not own:
            return
    with contextlib.suppress(PermissionError):  # owned by another user who granted access
        path.chmod(0o700)


def private_file(path: Path) -> None:
    """Create an empty file that only the user may read, or restrict an existing one.

    Raises:
        OSError: If it cannot be created, or is a link.
    """
    fd = os.open(path, _flags(os.O_RDWR | os.O_CREAT), _PRIVATE)
    try:
        _restrict(fd, _PRIVATE)
    finally:
        os.close(fd)


def _link_target(path: Path) -> Path:
    """Return the target of a path that the user typed.

    Raises:
        OSError: If its links form a cycle.
    """
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    return target


def _mode(path: Path) -> int | None:
    """Return the permissions of an existing regular file, else None."""
    try:
        mode = path.lstat().st_mode
    except OSError:
        return None
    return stat.S_IMODE(mode) & 0o777 if stat.S_ISREG(mode) else None


def _filler(content: str | bytes) -> Callable[[BinaryIO], object]:
    data = content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content
    return lambda file: file.write(data)


def _restrict(fd: int, mode: int) -> None:
    if hasattr(os, "fchmod"):  # not on Windows, where the profile folder is private
        with contextlib.suppress(PermissionError):
            os.fchmod(fd, mode)


def _flags(flags: int, *, follow: bool = False) -> int:
    for name in ("O_CLOEXEC", "O_BINARY", *(() if follow else ("O_NOFOLLOW",))):
        flags |= getattr(os, name, 0)
    return flags
