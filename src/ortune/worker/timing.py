"""Timing runs: warm-up until steady, then runs on the monotonic nanosecond clock."""

from __future__ import annotations

import time
from typing import Any, Callable, List, Tuple

CLOCK = time.perf_counter_ns
SLOW_NS = 200_000_000


def timed(call: Callable[[], Any], n: int, gap_ns: int, wait_ratio: float) -> Tuple[List[int], List[int]]:
    """Call ``n`` times; return the latencies in nanoseconds, and the busy wait within each ([] without one).

    The wait is a share of the run just timed and is part of its timed interval, so its effect on the latency is known
    exactly.
    """
    clock = CLOCK
    latencies = []
    waits = []
    gap_s = gap_ns / 1e9
    for _ in range(n):
        start = clock()
        call()
        end = clock()
        if wait_ratio:
            ran_until = end
            until = end + int((end - start) * wait_ratio)
            # A busy wait, since a sleep would release the CPU, and waking takes an unknown time.
            while end < until:
                end = clock()
            waits.append(end - ran_until)
        latencies.append(end - start)
        if gap_s:
            time.sleep(gap_s)
    return latencies, waits


def warm_up(call: Callable[[], Any], runs: int, least_ns: int, cap_ns: int, gap_ns: int) -> Tuple[int, bool]:
    """Run until two consecutive windows agree; return the number of runs and whether the latency became steady.

    At least ``runs`` calls and ``least_ns`` are spent first; the warm-up ends at ``cap_ns`` in any case. With a cap of
    0 nothing is compared; for trials that take turns, the turns are compared (``cases.reports``).
    """
    start = CLOCK()
    latencies, _ = timed(call, max(runs, 1), gap_ns, 0.0)
    while CLOCK() - start < least_ns:
        latencies += timed(call, 1, gap_ns, 0.0)[0]
    if not cap_ns:
        return len(latencies), True
    # A window is at least three runs, and about 5 ms of a fast model, so that one hiccup does not decide.
    typical = max(median(latencies) + gap_ns, 1)
    # For a very slow model a window is a single run: a minute of warm-up would reveal nothing more.
    window = max(3, min(64, 5_000_000 // typical)) if typical < SLOW_NS else 1
    before, _ = timed(call, window, gap_ns, 0.0)
    total = len(latencies) + window
    while CLOCK() - start < cap_ns:
        after, _ = timed(call, window, gap_ns, 0.0)
        total += window
        if agree(before, after):
            return total, True
        before = after
    return total, False


def agree(before: List[int], after: List[int]) -> bool:
    """Return whether the medians of two windows agree: within 2 % (5 % for single runs), or three standard errors."""
    a, b = median(before), median(after)
    spread = median([abs(x - a) for x in before] + [abs(x - b) for x in after])
    # Noisy runs need to agree only within their noise, or a warm-up on a busy machine would never end.
    # Three standard errors of the difference of two windows' middles.
    allowed = max(
        (0.02 if len(before) > 1 else 0.05) * min(a, b), 3 * 1.4826 * spread * float(2.0 / len(before)) ** 0.5
    )
    return bool(abs(a - b) <= allowed)


def median(values: List[int]) -> int:
    """Return the median; the lower of two middle values."""
    return sorted(values)[(len(values) - 1) // 2]
