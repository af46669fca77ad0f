"""A process and its descendants, such as a browser and the processes of its pages."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ortune import monotonic

if TYPE_CHECKING:
    import psutil

T = TypeVar("T")
FRESH_S = 0.05
"""Maximum age of a memory measurement in seconds; a browser can load a large model within tenths of a second."""


@dataclass(slots=True)
class GroupMemory:
    """Memory of a process and its descendants, measured again only when the last value is too old.

    Finding the descendants reads every process of the system, and the limits of a trial are checked several times.
    """

    _bytes: int = 0
    _counted_s: float = -math.inf

    def count(self, pid: int) -> int:
        """Return the resident memory in bytes, at most ``FRESH_S`` old; shared memory (code, files) counts once."""
        now_s = monotonic.now_s()
        if now_s >= self._counted_s + FRESH_S:
            self._bytes, self._counted_s = _memory_bytes(pid), now_s
        return self._bytes


def _memory_bytes(pid: int) -> int:
    memories = _of_each(pid, lambda process: process.memory_info())
    shared = [getattr(memory, "shared", 0) for memory in memories]
    # Assuming that all share the same pages: ten processes of 200 MiB with 150 MiB shared have 2,000 - 1,500 + 150
    # = 650 MiB.
    return sum(memory.rss for memory in memories) - sum(shared) + max(shared, default=0)


def group_cpu_s(pid: int) -> float:
    """Return the CPU seconds of a process and its living descendants."""
    return sum(times.user + times.system for times in _of_each(pid, lambda process: process.cpu_times()))


def own_cpu_s() -> float:
    """Return the CPU seconds of this process and its descendants, including ended children that were waited for."""
    return sum(
        times.user + times.system + times.children_user + times.children_system
        for times in _of_each(os.getpid(), lambda process: process.cpu_times())
    )


def group_thread_cpu_s(pid: int, name: str) -> float:
    """Return the CPU seconds of threads with a name, in a process and its descendants; 0.0 if threads have no names.

    Args:
        pid: The process.
        name: Thread name on Linux, which is limited to fifteen characters.
    """

    def taken(process: psutil.Process) -> float:
        return sum(
            thread.user_time + thread.system_time
            for thread in process.threads()
            if _thread_name(process.pid, thread.id) == name
        )

    return sum(_of_each(pid, taken))


def _thread_name(pid: int, thread: int) -> str:
    try:
        return (
            Path(f"/proc/{pid}/task/{thread}/comm").read_text(encoding="utf-8", errors="replace").rstrip("\n")
        )
    except OSError:  # another system, or a thread that ended
        return ""


def _of_each(pid: int, read: Callable[[psutil.Process], T]) -> list[T]:
    """Return the values read from a process and its descendants, without processes that end meanwhile."""
    import psutil

    values: list[T] = []
    with contextlib.suppress(psutil.Error):
        leader = psutil.Process(pid)
        for process in (leader, *leader.children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                values.append(read(process))
    return values
