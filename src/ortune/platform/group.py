"""A program and all that it started: a browser has one process per page, and others."""

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
"""Seconds; a browser that loads a large model fills memory within tenths of a second."""


@dataclass(slots=True)
class GroupMemory:
    """The memory of one process and its descendants, counted again only once it may have changed.

    To find the descendants every process of the system is read, and a look at the limits of a trial asks several times.
    """

    _bytes: int = 0
    _counted_s: float = -math.inf

    def count(self, pid: int) -> int:
        """Resident memory in bytes, no older than ``FRESH_S``; what processes share (code, files) is counted once."""
        now_s = monotonic.now_s()
        if now_s >= self._counted_s + FRESH_S:
            self._bytes, self._counted_s = _memory_bytes(pid), now_s
        return self._bytes


def _memory_bytes(pid: int) -> int:
    memories = _of_each(pid, lambda process: process.memory_info())
    shared = [getattr(memory, "shared", 0) for memory in memories]
    # As if all shared the same pages: ten processes of 200 MiB, 150 of these shared, are 2,000 - 1,500 + 150
    # = 650 MiB.
    return sum(memory.rss for memory in memories) - sum(shared) + max(shared, default=0)


def group_cpu_s(pid: int) -> float:
    """CPU seconds that a process and those of its descendants that live have taken."""
    return sum(times.user + times.system for times in _of_each(pid, lambda process: process.cpu_times()))


def own_cpu_s() -> float:
    """CPU seconds that this process and its descendants have taken, with those that ended and were waited for."""
    return sum(
        times.user + times.system + times.children_user + times.children_system
        for times in _of_each(os.getpid(), lambda process: process.cpu_times())
    )


def group_thread_cpu_s(pid: int, name: str) -> float:
    """CPU seconds of the threads of that name, of a process and its descendants; 0.0 if the system has no thread names.

    Args:
        pid: The process.
        name: As Linux keeps it: the first fifteen characters.
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
    except OSError:  # another system, or one that ended meanwhile
        return ""


def _of_each(pid: int, read: Callable[[psutil.Process], T]) -> list[T]:
    """Return what is read of each; one that ends meanwhile is left out."""
    import psutil

    values: list[T] = []
    with contextlib.suppress(psutil.Error):
        leader = psutil.Process(pid)
        for process in (leader, *leader.children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                values.append(read(process))
    return values
