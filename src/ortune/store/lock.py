"""Measuring is exclusive on a machine: a second ortune waits and says for whom."""

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
    """One file for all users of the machine (TMPDIR is often a user's own); ``$ORTUNE_LOCK`` names another.

    Containers that share a machine see each other when that file lies on a volume they share.
    """
    if os.environ.get("ORTUNE_LOCK"):
        return Path(os.environ["ORTUNE_LOCK"])
    return Path("/tmp/ortune.lock") if os.name == "posix" else Path(tempfile.gettempdir()) / "ortune.lock"


class Holder(Record, frozen=True, kw_only=True):
    """The process that holds the lock, as its file says for those who wait.

    Attributes:
        what: What it does ("tune resnet50.onnx").
        since_s: When it began, in seconds since 1970.
        budget_s: What it may take from then on; None if it has no budget.
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
    """Hold the machine's measuring lock; where there can be none, says so and goes on.

    Args:
        what: Who holds it, for the one who waits ("compare resnet50.onnx").
        wait: Wait for the other; else BusyError.
        say: Called once with a sentence when waiting begins.
        line: Called again and again while waiting.
        budget_s: What it will take, for the one who waits.

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
        say(f"{lock_path()} cannot be opened ({error.strerror}); another ortune may disturb this measurement")
        yield
        return
    try:

        def acquire() -> str:
            # The open file holds it, so that the system gives it back however this process ends.
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return holder_words(os.pread(fd, 2000, 0), time.time())
            except OSError as error:  # a file system without locks
                why = f"{lock_path()} cannot be locked ({error.strerror})"
                say(f"{why}; another ortune may disturb this measurement")
            return ""

        wait_for(acquire, wait=wait, say=say, line=line)
        with contextlib.suppress(OSError):  # a full disk: the lock holds, only its holder stays unnamed
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
        acquire: Tries it; returns "", or who holds it.
        wait: Wait for the holder; else BusyError.
        say: Called once with a sentence when waiting begins.
        line: Called again and again while waiting.
        where: Where the lock is, if not on this machine.

    Raises:
        BusyError: Another holds it and ``wait`` is False.
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
    """Return the sentence that somebody holds the lock: who, since when, and how long its budget still runs."""
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
        # First without O_CREAT: in a sticky folder Linux refuses it for a file that another user owns.
        return os.open(path, flags)
    except FileNotFoundError:
        fd = os.open(path, flags | os.O_CREAT, 0o666)
        with contextlib.suppress(PermissionError):
            os.fchmod(fd, 0o666)
        return fd
