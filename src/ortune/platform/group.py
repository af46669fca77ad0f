"""A program and all that it started: a browser is one process a page, and more beside."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psutil


def group_memory_bytes(pid: int) -> int:
    """Resident memory of a process and its descendants; what they share (code, files) is counted once."""
    own = shared = 0
    for each in _members(pid):
        memory = each.memory_info()
        common = getattr(memory, "shared", 0)
        own += memory.rss - common
        shared = max(shared, common)
    return own + shared


def group_cpu_s(pid: int) -> float:
    """CPU seconds that a process and those of its descendants that live have taken."""
    return sum(times.user + times.system for times in (each.cpu_times() for each in _members(pid)))


def _members(pid: int) -> Iterator[psutil.Process]:
    """Each with its figures read at once; one that ends meanwhile is left out."""
    import psutil

    with contextlib.suppress(psutil.Error):
        leader = psutil.Process(pid)
        for each in (leader, *leader.children(recursive=True)):
            with contextlib.suppress(psutil.Error), each.oneshot():
                yield each
