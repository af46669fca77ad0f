"""When a trial is warm, and how many runs it is worth."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from ortune.errors import OrtuneError

STEADY_SHARE = 0.01
"""Windows whose medians differ by less than this share are steady, however quiet the machine."""

STEADY_ERRORS = 3.0
"""Or by less than so many standard errors of the difference."""


def is_steady(window1: ArrayLike, window2: ArrayLike) -> bool:
    """Whether two consecutive windows of latencies tell of the same level.

    Their medians may differ by 1 %, or by three standard errors of that difference, estimated from the
    median absolute deviation of both windows about their own medians. Calling a steady trial unsteady only
    costs further warm-up.

    Args:
        window1: Latencies of the earlier window, any unit.
        window2: Latencies of the later window, the same unit.

    Raises:
        OrtuneError: An empty window.
    """
    first, second = np.asarray(window1, dtype=np.float64), np.asarray(window2, dtype=np.float64)
    if first.size == 0 or second.size == 0:
        raise OrtuneError("a warm-up window holds no runs")
    m1, m2 = float(np.median(first)), float(np.median(second))
    deviation = float(np.median(np.concatenate([np.abs(first - m1), np.abs(second - m2)])))
    # 1.4826 makes the deviation a standard deviation, 1.2533 / sqrt(n) the error of a median of n runs.
    error = 1.4826 * 1.2533 * deviation * math.sqrt(1.0 / first.size + 1.0 / second.size)
    return abs(m1 - m2) <= max(STEADY_SHARE * min(m1, m2), STEADY_ERRORS * error)


def runs_per_trial(
    *,
    cost_process_ns: float,
    cost_run_ns: float,
    var_within: float,
    var_between: float,
    low: int,
    high: int,
) -> int:
    """Runs a trial that spend the time best (Kalibera & Jones 2013).

    sqrt(cost_process / cost_run x var_within / var_between), between ``low`` and ``high``: a run tells
    nothing about how processes differ, so beyond this number only more processes help.

    Args:
        cost_process_ns: What a further trial costs before its first timed run: start, load, warm-up.
        cost_run_ns: What one timed run costs.
        var_within: Variance between the runs of one process.
        var_between: Variance between processes, in the same unit; 0 or less (it is often estimated by a
            difference) means that processes do not differ, and the answer is ``high``.
        low: Fewest runs.
        high: Most runs.

    Raises:
        OrtuneError: A cost that is not positive, or ``low`` above ``high``.
    """
    if not (cost_process_ns > 0.0 and cost_run_ns > 0.0 and 1 <= low <= high):
        raise OrtuneError(
            f"runs per trial needs positive costs and 1 <= low <= high, not a process of {cost_process_ns} ns, "
            f"a run of {cost_run_ns} ns, low {low}, high {high}"
        )
    if var_within <= 0.0:
        return low
    if var_between <= 0.0:
        return high
    best = math.sqrt(cost_process_ns / cost_run_ns * var_within / var_between)
    return int(min(max(best, low), high))
