"""Optimal number of runs per trial."""

from __future__ import annotations

import math

from ortune.errors import OrtuneError


def runs_per_trial(
    *,
    cost_process_ns: float,
    cost_run_ns: float,
    var_within: float,
    var_between: float,
    low: int,
    high: int,
) -> int:
    """Return the number of runs per trial that makes the best use of time (Kalibera & Jones 2013).

    This is sqrt(cost_process / cost_run x var_within / var_between), limited to ``low`` and ``high``: runs carry no
    information on how processes differ, so beyond this number only more processes help.

    Args:
        cost_process_ns: Time of a trial before its first timed run: start, load, warm-up.
        cost_run_ns: Time of one timed run.
        var_within: Variance between the runs of one process.
        var_between: Variance between processes, in the same unit; 0 or less (it is often estimated as a
            difference) means that processes do not differ, and the result is ``high``.
        low: Minimum number of runs.
        high: Maximum number of runs.

    Raises:
        OrtuneError: If a cost is not positive, or ``low`` is not between 1 and ``high``.
    """
    if not (cost_process_ns > 0.0 and cost_run_ns > 0.0 and 1 <= low <= high):
        raise OrtuneError(
            f"runs_per_trial() needs positive costs and 1 <= low <= high, but got: process {cost_process_ns} ns, "
            f"run {cost_run_ns} ns, low {low}, high {high}"
        )
    if var_within <= 0.0:
        return low
    if var_between <= 0.0:
        return high
    # Example: 2 s per process, 5 ms per run, equal variances: sqrt(400) = 20 runs.
    best = math.sqrt(cost_process_ns / cost_run_ns * var_within / var_between)
    return int(min(max(best, low), high))
