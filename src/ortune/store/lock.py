"""Machine-wide lock for measuring: a second ortune waits, and reports which process holds the lock."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from ortune.durations import in_words
from ortune.errors import BusyError
from ortune.records import Record

POLL_S = 0.5


def lock_path() -> Path:
    """Return one path for all users of the machine (TMPDIR is often per user), or ``$ORTUNE_LOCK``.

    Containers on one machine exclude each other if that file is on a shared volume.
    """
    if os.environ.get("ORTUNE_LOCK"):
        return Path(os.environ["ORTUNE_LOCK"])
    return Path("/tmp/ortune.lock") if os.name == "posix" else Path(tempfile.gettempdir()) / "ortune.lock"


class Holder(Record, frozen=True, kw_only=True):
    """The process that holds the lock, as recorded in the lock file for waiting processes.

    Attributes:
        what: Command of the process ("tune resnet50.onnx").
        since_s: Start time, in seconds since 1970.
        budget_s: Budget from then on; None without one.
    """

    what: str
    pid: int
    since_s: float
    budget_s: float | None = None


@contextlib.contextmanager
def measuring(
    what: str,
    *,
    wait: bool,
    say: Callable[[str], None],
    line: Callable[[str], None] = lambda text: None,
    budget_s: float | None = None,
) -> Iterator[None]:
    """Acquire the machine's measuring lock; if locking is not possible, warn and continue.

    Args:
        what: Command to show to waiting processes ("compare resnet50.onnx").
        wait: Whether to wait for another process.
        say: Called with a sentence when waiting begins, and with warnings.
        line: Called repeatedly while waiting.
        budget_s: Budget of the command in seconds, to show to waiting processes; None without one.

    Raises:
        BusyError: If another ortune is measuring and ``wait`` is False.
    """
    try:
        import fcntl
    except ImportError:  # Windows: two at once are possible; the noise shows it
        yield
        return
    try:
        fd = _open(lock_path())
    except OSError as error:
        say(f"{lock_path()} cannot be opened ({error.strerror}); another ortune may disturb this measurement")
        yield
        return
    try:

        def acquire() -> str:
            # The open file has the lock, so the system releases it however this process ends.
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return holder_words(os.pread(fd, 2000, 0), time.time())
            except OSError as error:  # a file system without locks
                why = f"{lock_path()} cannot be locked ({error.strerror})"
                say(f"{why}; another ortune may disturb this measurement")
            return ""

        wait_for(acquire, wait=wait, say=say, line=line)
        with contextlib.suppress(OSError):  # a full disk: the lock works, but its holder is unnamed
            mine = Holder(what=what, pid=os.getpid(), since_s=time.time(), budget_s=budget_s)
            os.ftruncate(fd, 0)
            os.pwrite(fd, msgspec.json.encode(mine), 0)
        yield
    finally:
        os.close(fd)


def wait_for(
    acquire: Callable[[], str],
    *,
    wait: bool,
    say: Callable[[str], None],
    line: Callable[[str], None],
    where: str = "",
) -> None:
    """Wait until a lock is acquired.

    Args:
        acquire: Tries to acquire the lock; returns "", or a sentence about its holder.
        wait: Whether to wait for the holder instead of raising BusyError.
        say: Called once with a sentence when waiting begins.
        line: Called repeatedly while waiting.
        where: Where the lock is, if not on this machine.

    Raises:
        BusyError: If another process holds the lock and ``wait`` is False.
    """
    is_announced = False
    while other := acquire():
        if not wait:
            raise BusyError(other, where=where, do="wait for it, or omit --no-wait")
        if not is_announced:
            say(f"waiting: {other}")
            is_announced = True
        line(f"waiting: {other}")
        time.sleep(POLL_S)


def holder_words(text: bytes, now_s: float) -> str:
    """Return a sentence about the holder of the lock: command, elapsed time and remaining budget."""
    try:
        holder = msgspec.json.decode(text, type=Holder)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return "another ortune is measuring on this machine"
    gone_s = max(0.0, now_s - holder.since_s)
    words = (
        f"ortune {holder.what} (pid {holder.pid}) has been measuring on this machine for {in_words(gone_s)}"
    )
    if holder.budget_s is None:
        return words
    left_s = holder.budget_s - gone_s
    return (
        f"{words}, {in_words(left_s)} of its budget left"
        if left_s > 0
        else f"{words}, and its budget has run out"
    )


def _open(path: Path) -> int:
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        # First without O_CREAT, which Linux refuses in a sticky folder for a file of another user.
        return os.open(path, flags)
    except FileNotFoundError:
        fd = os.open(path, flags | os.O_CREAT, 0o666)
        with contextlib.suppress(PermissionError):
            os.fchmod(fd, 0o666)
        return fd
