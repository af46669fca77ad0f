"""Time that threads of this process waited for a CPU, from Linux."""

from __future__ import annotations

import os
from typing import Dict, Optional

_TASKS = "/proc/self/task"
_BYTES = 96  # three numbers of 64 bits


class CpuWaits:
    """Counts the time that threads of this process were runnable without a CPU.

    Files of known threads stay open, so a reading takes a few microseconds per thread.
    """

    def __init__(self) -> None:
        self._files: Dict[str, int] = {}

    def read_ns(self) -> Optional[int]:
        """Return the nanoseconds that the living threads have waited since their start; None if unknown."""
        try:
            threads = os.listdir(_TASKS)
            for ended in self._files.keys() - set(threads):
                os.close(self._files.pop(ended))
            for thread in threads:
                if thread not in self._files:
                    self._files[thread] = os.open(os.path.join(_TASKS, thread, "schedstat"), os.O_RDONLY)
        except OSError:  # another system, or a thread that ended just now
            return None
        return self._total_ns()

    def since_ns(self, before: Optional[int]) -> Optional[int]:
        """Return the nanoseconds waited since a reading, without threads that started later."""
        if before is None:
            return None
        now = self._total_ns()
        return None if now is None else max(0, now - before)

    def close(self) -> None:
        """Close the files of all threads."""
        for file in self._files.values():
            os.close(file)
        self._files.clear()

    def _total_ns(self) -> Optional[int]:
        total = 0
        for thread, file in list(self._files.items()):
            try:
                total += int(os.pread(file, _BYTES, 0).split()[1])
            except (
                OSError,
                IndexError,
                ValueError,
            ):  # it ended; without CONFIG_SCHED_INFO there is no number
                os.close(self._files.pop(thread))
                return None
        return total
