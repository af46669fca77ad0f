"""Who else is using this machine's CPUs now."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

import psutil

_LEAST_SHARE = 0.1
_NAMED = 3


def other_load(interval_s: float = 0.2) -> str:
    """The busiest processes that are not ours, in words; "" when none uses a tenth of a CPU.

    Blocks for the interval. Names processes, never their arguments: those may hold secrets.

    Args:
        interval_s: How long to watch, seconds.
    """
    ours = {os.getpid(), *(child.pid for child in psutil.Process().children(recursive=True))}
    before = _cpu_seconds()
    started = time.monotonic()
    time.sleep(interval_s)
    after = _cpu_seconds()
    elapsed_s = max(time.monotonic() - started, 1e-3)
    shares = [
        ((used - before[key][0]) / elapsed_s, name, key[0])
        for key, (used, name) in after.items()
        if key in before and key[0] not in ours
    ]
    return in_words(shares)


def in_words(shares: Sequence[tuple[float, str, int]]) -> str:
    """The busiest of (share of one CPU, name, process id), in words; "" when none reaches a tenth."""
    busy = [share for share in sorted(shares, reverse=True) if share[0] >= _LEAST_SHARE]
    words = [f"{name} (pid {pid}) {share:.0%}" for share, name, pid in busy[:_NAMED]]
    more = f" and {len(busy) - _NAMED} more" if len(busy) > _NAMED else ""
    return f"{', '.join(words)} of one CPU{more}" if words else ""


def _cpu_seconds() -> dict[tuple[int, float], tuple[float, str]]:
    """CPU seconds and name of every readable process, by id and start (ids are used again)."""
    seconds: dict[tuple[int, float], tuple[float, str]] = {}
    for process in psutil.process_iter(["pid", "name", "create_time", "cpu_times"]):
        info = process.info
        if info["cpu_times"] is not None and info["create_time"] is not None:
            used = info["cpu_times"].user + info["cpu_times"].system
            seconds[info["pid"], info["create_time"]] = (used, info["name"] or "?")
    return seconds
