"""Files of the user's and of others: written whole or not at all, and only read where they are files.

A folder that comes from elsewhere may hold links, pipes and devices under any name that can be guessed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from ortune.errors import UsageError

_PRIVATE, _USUAL = 0o600, 0o666
_MODELS = frozenset({".onnx", ".ort", ".pt2", ".keras", ".tflite"})
_STEM = 100  # characters of a name that the temporary name keeps: the two together must be a name


def write(
    path: Path,
    content: str | bytes | Callable[[BinaryIO], object],
    *,
    typed: bool = False,
    private: bool = False,
) -> None:
    """Write a file under an unpredictable name in the same folder, and rename it.

    Who may read and write what it replaces may do so with what is there then.

    Args:
        path: Its place; what is there is replaced, of a link the link itself.
        content: A text (UTF-8), bytes, or what writes them to the open file.
        typed: The user wrote this very path: where it is a link what it leads to is written, and so is a device.
        private: Nobody but the user may read it.

    Raises:
        OSError: It cannot be written; what was there is as it was.
    """
    fill = content if callable(content) else _filler(content)
    if typed and path.exists() and not path.is_file():
        with path.open("wb") as file:  # a device or a pipe; a folder refuses
            fill(file)
        return
    if typed:
        path = _led_to(path)
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
            # Before the rename: after a power cut the new name could else hold nothing, with the old content
            # gone.
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
        raise


def put(part: Path, path: Path, *, typed: bool) -> None:
    """Rename a finished file to its place; who may use what it replaces may use it too.

    Args:
        part: The finished file.
        path: Its place, on the same disk.
        typed: As for ``write``.

    Raises:
        OSError: It cannot be put there.
    """
    goal = _led_to(path) if typed else path
    mode = _mode(goal)
    if mode is not None:
        part.chmod(mode)
    part.replace(goal)


def require_writable(path: Path, option: str, *, for_model: bool = False) -> None:
    """Refuse, before anything is done, a file that could not be written at its end, or that would replace a model.

    Args:
        path: Its place.
        option: Where the user names another.
        for_model: A model is written, which may replace another one.

    Raises:
        UsageError: It is a folder or a model, or none can be written there.
    """
    do = f"choose another {option}"
    if is_folder(path):
        raise UsageError("is a folder", where=str(path), do=f"pass a file: {option} FILE")
    try:
        goal = _led_to(path) if path.is_symlink() else path
        if not is_folder(goal.parent):
            raise UsageError("no such folder", where=str(goal.parent), do=f"create it, or {do}")
        if not for_model and goal.suffix.lower() in _MODELS and is_file(goal):
            raise UsageError("is a model, which is not replaced", where=str(path), do=do)
        if not exists(goal) or is_file(goal):  # a device is written as it is
            require_writable_folder(goal.parent)
    except OSError as error:
        raise UsageError(f"cannot be written: {error.strerror}", where=str(path), do=do) from error


def require_writable_folder(folder: Path) -> None:
    """Raise OSError where no file can be made in a folder."""
    with tempfile.TemporaryFile(dir=folder):
        pass


def open_file(path: Path) -> BinaryIO:
    """Open a file to read; a pipe is not waited for, and a device not read without end.

    Raises:
        OSError: It cannot be opened, or is no regular file.
    """
    try:
        fd = os.open(path, _flags(os.O_RDONLY | getattr(os, "O_NONBLOCK", 0), follow=True))
    except ValueError as error:  # a zero byte in its name
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
    """Return whether a regular file is there; False for every name that no file can have, however long."""
    return os.path.isfile(path)  # noqa: PTH113 -- Path.is_file raises for such names


def inside(path: Path, folder: Path) -> bool:
    """Return whether what a path leads to lies in a folder, wherever links go on their way."""
    try:
        return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))
    except ValueError:  # a zero byte in its name
        return False


def is_folder(path: Path | str) -> bool:
    """Return whether a folder is there; False for every name that none can have."""
    return os.path.isdir(path)  # noqa: PTH112


def exists(path: Path | str) -> bool:
    """Return whether anything is there; False for every name that nothing can have."""
    return os.path.exists(path)  # noqa: PTH110


def private_folder(path: Path, *, own: bool) -> None:
    """Make a folder that only the user may enter, with those above it as they come.

    Args:
        path: The folder.
        own: It is ortune's own place: one that is there already is closed to others too.

    Raises:
        OSError: It cannot be made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        if not path.is_dir():
            raise
        if not own:
            return
    with contextlib.suppress(PermissionError):  # another user's, who has let this one in
        path.chmod(0o700)


def private_file(path: Path) -> None:
    """Make an empty file that only the user may read, or makes what is there so.

    Raises:
        OSError: It cannot be made, or a link is there.
    """
    fd = os.open(path, _flags(os.O_RDWR | os.O_CREAT), _PRIVATE)
    try:
        _restrict(fd, _PRIVATE)
    finally:
        os.close(fd)


def _led_to(path: Path) -> Path:
    """Return what a path that the user typed leads to.

    Raises:
        OSError: Its links lead round in a circle.
    """
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    return target


def _mode(path: Path) -> int | None:
    """Return the permissions of the file that is there; None if no regular file is."""
    try:
        mode = path.lstat().st_mode
    except OSError:
        return None
    return stat.S_IMODE(mode) & 0o777 if stat.S_ISREG(mode) else None


def _filler(content: str | bytes) -> Callable[[BinaryIO], object]:
    data = content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content
    return lambda file: file.write(data)


def _restrict(fd: int, mode: int) -> None:
    if hasattr(os, "fchmod"):  # not on Windows, where the profile's folder is the user's own
        with contextlib.suppress(PermissionError):
            os.fchmod(fd, mode)


def _flags(flags: int, *, follow: bool = False) -> int:
    for name in ("O_CLOEXEC", "O_BINARY", *(() if follow else ("O_NOFOLLOW",))):
        flags |= getattr(os, name, 0)
    return flags
