"""Running a function in a process of its own, which may use only so much time and memory."""

from __future__ import annotations

import contextlib
import os
import pickle
import resource
import select
import signal
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How it ended.

    Attributes:
        value: What the function returned; None where it did not return.
        error: The exception that it raised.
        trace: Where it raised it.
        hung: It was ended because its time was over.
        signal: What ended it otherwise, 0 where nothing did.
    """

    value: Any = None
    error: BaseException | None = None
    trace: str = ""
    hung: bool = False
    signal: int = 0


def limited(
    function: Callable[..., Any], *arguments: Any, limit_s: float = 20, memory_bytes: int = 2 << 30
) -> Ended:
    """Calls a function in a fork of this process; ``memory_bytes`` come on top of what this process has mapped."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        os.setpgid(0, 0)
        _call(function, arguments, write, memory_bytes)
    os.close(write)
    told = _all(read, time.monotonic() + limit_s)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    if told is None:
        return Ended(hung=True)
    if not told:
        return Ended(signal=os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0)
    value, error, trace = pickle.loads(told)
    return Ended(value=value, error=error, trace=trace)


def _call(function: Callable[..., Any], arguments: tuple[Any, ...], write: int, memory_bytes: int) -> None:
    """The life of the child."""
    found: tuple[Any, BaseException | None, str] = (None, None, "")
    try:
        mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (mapped + memory_bytes,) * 2)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        found = (function(*arguments), None, "")
    except BaseException as error:  # noqa: BLE001 -- the parent judges it
        found = (None, error, traceback.format_exc()[-4000:])
    try:
        told = pickle.dumps(found)
    except Exception:  # noqa: BLE001 -- an exception may hold what cannot be sent
        told = pickle.dumps((None, RuntimeError(str(found[1])), found[2]))
    with os.fdopen(write, "wb") as pipe:
        pipe.write(told)
    os._exit(0)


def _all(read: int, deadline: float) -> bytes | None:
    """All that comes through a pipe; None where it does not end in time."""
    told = b""
    with os.fdopen(read, "rb", buffering=0) as pipe:
        while (left := deadline - time.monotonic()) > 0:
            if not select.select([pipe], [], [], left)[0]:
                break
            piece = pipe.read(1 << 16)
            if not piece:
                return told
            told += piece
    return None
