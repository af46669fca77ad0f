"""Limits of a process that opens an untrusted file: those of its fence, and resources that are monitored."""

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
"""A nearly exhausted resource: the failure reason, and words."""
_DISK_SHARE = 0.5
"""Share of the free disk space for one file."""
_LEAST_LEFT = 0.05
"""Share of the initially free disk and memory that must remain, since limits per file and process bound neither in
total."""
_RESERVED_BYTES = 64 << 20
"""Address space that a library's threads reserve per CPU (stacks, buffers) without using it; use is monitored
separately."""


def fence_of(reads: Iterable[str | Path], folder: Path, memory_share: float = Limits().memory_share) -> Fence:
    """Return the limits of a process that reads these files and writes to a folder, from free resources."""
    left, reserved = platform.memory_left_bytes(), _RESERVED_BYTES * (os.cpu_count() or 1)
    return Fence(
        reads=tuple(str(Path(path).absolute()) for path in reads),
        memory_bytes=int(memory_share * left) + reserved if left is not None else 0,
        file_bytes=int(_DISK_SHARE * shutil.disk_usage(folder).free),
    )


class FreeSpaceMonitor:
    """Monitor of the free space on the disk of a folder and in memory, compared with its start.

    Files in shared memory belong to no process, and many files may each be below the limit of one.

    Args:
        folder: Any folder on the disk.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._disk, self._memory = self._left()

    def lacking(self) -> Lacking | None:
        """Return the nearly exhausted resource, as failure reason and words; None if there is room."""
        disk, memory = self._left()
        if memory < _LEAST_LEFT * self._memory:
            return "out-of-memory", "the system's memory is nearly full; stopped before it ran out"
        if disk < _LEAST_LEFT * self._disk:
            return "disk-full", "the disk is nearly full; stopped before it ran out"
        return None

    def _left(self) -> tuple[int, int]:
        return shutil.disk_usage(self._folder).free, platform.memory_left_bytes() or 0
