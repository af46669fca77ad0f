"""How many runs a trial is worth."""

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
    """Run a trial that spend the time best (Kalibera & Jones 2013).

    sqrt(cost_process / cost_run x var_within / var_between), between ``low`` and ``high``: a run carries
    no information on how processes differ, so beyond this number only more processes help.

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
            f"runs_per_trial() needs positive costs and 1 <= low <= high, but got: process {cost_process_ns} ns, "
            f"run {cost_run_ns} ns, low {low}, high {high}"
        )
    if var_within <= 0.0:
        return low
    if var_between <= 0.0:
        return high
    # Example: 2 s a process, 5 ms a run, equal variances: sqrt(400) = 20 runs.
    best = math.sqrt(cost_process_ns / cost_run_ns * var_within / var_between)
    return int(min(max(best, low), high))
