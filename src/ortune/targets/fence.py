"""What a process that opens a stranger's file may use: the limits of its fence, and what is watched besides."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from ortune import platform
from ortune.records import Fence
from ortune.targets.task import Limits

Lacking = tuple[Literal["out-of-memory", "disk-full"], str]
"""What is nearly used up: the reason of a failure, and words."""
_DISK_SHARE = 0.5
"""Of the free space, for one file."""
_LEAST_LEFT = 0.05
"""Of what was free at first, on disk and in memory: limits of one file and of private memory bound neither alone."""
_RESERVED_BYTES = 64 << 20
"""What a library's threads reserve for a CPU (stacks, buffers) and never fill: what is filled is watched as well."""


def fence_of(reads: Iterable[str | Path], folder: Path, memory_share: float = Limits().memory_share) -> Fence:
    """Return the limits of a process that reads these files and writes to a folder, by what this machine has free."""
    left, reserved = platform.memory_left_bytes(), _RESERVED_BYTES * (os.cpu_count() or 1)
    return Fence(
        reads=tuple(str(Path(path).absolute()) for path in reads),
        memory_bytes=int(memory_share * left) + reserved if left is not None else 0,
        file_bytes=int(_DISK_SHARE * shutil.disk_usage(folder).free),
    )


class Room:
    """The free space on the disk of a folder, and in memory, watched from now on.

    Files in shared memory belong to no process, and many files are each below the limit of one.

    Args:
        folder: Any folder on the disk.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._disk, self._memory = self._left()

    def lacking(self) -> Lacking | None:
        """Return what is nearly used up, as the reason of a failure and in words; None if there is room."""
        disk, memory = self._left()
        if memory < _LEAST_LEFT * self._memory:
            return "out-of-memory", "the system's memory is nearly full; stopped before it ran out"
        if disk < _LEAST_LEFT * self._disk:
            return "disk-full", "the disk is nearly full; stopped before it ran out"
        return None

    def _left(self) -> tuple[int, int]:
        return shutil.disk_usage(self._folder).free, platform.memory_left_bytes() or 0
