"""The monotonic clock on which every deadline, elapsed time and budget of this process is based.

Callers access the functions through the module: a simulation replaces both, and thereby the time of the package. Child
processes have their own clocks.
"""

from __future__ import annotations

import time


def now_s() -> float:
    """Return seconds since a moment that is fixed for the life of the process."""
    return time.monotonic()


def now_ns() -> int:
    """Return nanoseconds since the same fixed moment as ``now_s``."""
    return time.monotonic_ns()
