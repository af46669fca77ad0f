"""Resource limits of a process that opens an untrusted file: the limits of its fence, and monitored free space."""

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
"""A nearly exhausted resource: the failure reason and a description."""
_DISK_SHARE = 0.5
"""Fraction of the free disk space that one file may use."""
_LEAST_LEFT = 0.05
"""Fraction of the initially free disk space and memory that must remain free, since limits per file and per process do
not bound the total."""
_RESERVED_BYTES = 64 << 20
"""Address space that a library's threads reserve per CPU (stacks, buffers) without using it; use is monitored
separately."""


def fence_of(reads: Iterable[str | Path], folder: Path, memory_share: float = Limits().memory_share) -> Fence:
    """Return the limits of a process that reads the given files and writes to a folder, based on free resources."""
    left, reserved = platform.memory_left_bytes(), _RESERVED_BYTES * (os.cpu_count() or 1)
    return Fence(
        reads=tuple(str(Path(path).absolute()) for path in reads),
        memory_bytes=int(memory_share * left) + reserved if left is not None else 0,
        file_bytes=int(_DISK_SHARE * shutil.disk_usage(folder).free),
    )


class FreeSpaceMonitor:
    """Monitors free disk space and memory, compared with those at its creation.

    This covers what other limits miss: files in shared memory belong to no process, and each of many files may be below
    the limit of one file.

    Args:
        folder: Any folder on the disk.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._disk, self._memory = self._free_bytes()

    def lacking(self) -> Lacking | None:
        """Return the failure reason and description of a nearly exhausted resource; None if enough is free."""
        disk, memory = self._free_bytes()
        if memory < _LEAST_LEFT * self._memory:
            return "out-of-memory", "the system's memory is nearly full; stopped before it ran out"
        if disk < _LEAST_LEFT * self._disk:
            return "disk-full", "the disk is nearly full; stopped before it ran out"
        return None

    def _free_bytes(self) -> tuple[int, int]:
        return shutil.disk_usage(self._folder).free, platform.memory_left_bytes() or 0
