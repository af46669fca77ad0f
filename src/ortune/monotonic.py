"""The monotonic clock: every deadline, elapsed time and budget of this process is read here, by the module's name.

A simulation replaces the two functions, and with them the time of the whole package. Processes that ortune starts have
their own clocks.
"""

from __future__ import annotations

import time


def now_s() -> float:
    """Return seconds since some moment that stays the same while the process lives."""
    return time.monotonic()


def now_ns() -> int:
    """Return nanoseconds since that moment."""
    return time.monotonic_ns()
