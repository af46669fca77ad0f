"""Measuring is exclusive on a machine: a second ortune waits and says for whom."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from ortune.errors import BusyError

POLL_S = 0.5


def lock_path() -> Path:
    """One file for all users of the machine (TMPDIR is often a user's own); ``$ORTUNE_LOCK`` names another.

    Containers that share a machine see each other when that file lies on a volume they share.
    """
    if os.environ.get("ORTUNE_LOCK"):
        return Path(os.environ["ORTUNE_LOCK"])
    return Path("/tmp/ortune.lock") if os.name == "posix" else Path(tempfile.gettempdir()) / "ortune.lock"


@contextlib.contextmanager
def measuring(what: str, *, wait: bool, say: Callable[[str], None]) -> Iterator[None]:
    """Holds the machine's measuring lock; where there can be none, says so and goes on.

    Args:
        what: Who holds it, for the one who waits ("compare resnet50.onnx").
        wait: Wait for the other; else BusyError.
        say: Called once with a sentence when waiting begins.

    Raises:
        BusyError: Another ortune is measuring and ``wait`` is False.
    """
    try:
        import fcntl
    except ImportError:  # Windows: two at once are possible, and the noise will show it
        yield
        return
    try:
        fd = _open(lock_path())
    except OSError as error:
        say(f"{lock_path()} cannot be opened ({error.strerror}): another ortune may measure at the same time")
        yield
        return
    try:
        told = False
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                other = os.pread(fd, 400, 0).decode("utf-8", "replace").strip() or "another ortune"
                if not wait:
                    raise BusyError(
                        f"{other} is measuring on this machine", do="wait for it, or leave out --no-wait"
                    ) from None
                if not told:
                    say(f"waiting: {other} is measuring on this machine")
                    told = True
                time.sleep(POLL_S)
        with contextlib.suppress(OSError):  # a full disk: the lock holds, only its holder stays unnamed
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"ortune {what} (pid {os.getpid()})".encode(), 0)
        yield
    finally:
        os.close(fd)


def _open(path: Path) -> int:
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        # First without O_CREAT: in a sticky folder Linux refuses it for a file that another user owns.
        return os.open(path, flags)
    except FileNotFoundError:
        fd = os.open(path, flags | os.O_CREAT, 0o666)
        with contextlib.suppress(PermissionError):
            os.fchmod(fd, 0o666)
        return fd
