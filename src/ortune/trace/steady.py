"""Detection of warm-up and drift in the run times of a process."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

FARTHEST = 4.0  # robust standard deviations
LEAST = 0.02  # fraction of the typical run; smaller spreads are not assumed
NORMAL = 1.4826  # of a median absolute deviation, for normal errors
DRIFTS = 3.3  # standard errors of a rank sum: probability one in a thousand
FEWEST = 12  # minimum number of runs to detect a drift


def warmup_runs(times: ArrayLike) -> int:
    """Return the number of runs at the start that are slower than usual (warm-up).

    The median and spread of the second half of the runs define the usual time. Warm-up ends before the first run that
    has a usual time and is followed by a run with a usual time. Later slow runs are not warm-up.

    Returns:
        Number of runs to exclude, at most half of them. For fewer than four runs: 1, or 0 if there is only one run.
    """
    t = np.log(np.maximum(np.asarray(times, dtype=np.float64), 1e-9))
    if len(t) < 4:
        # Too few runs for a median and a spread.
        return int(len(t) > 1)  # the first run of a session allocates
    late = t[len(t) // 2 :]
    middle = float(np.median(late))
    spread = NORMAL * float(np.median(np.abs(late - middle)))
    usual = t <= middle + max(FARTHEST * spread, np.log1p(LEAST))
    both = usual[:-1] & usual[1:]
    first = int(np.argmax(both)) if both.any() else len(t)
    return min(first, len(t) // 2)


def drifts(times: ArrayLike) -> float:
    """Return the slowdown of the last third of runs relative to the first third (ratio minus one); 0.0 within noise.

    Significance is tested with a rank-sum test at level 0.001. Causes of a drift include thermal throttling, filling
    memory and other programs. With fewer than ``FEWEST`` runs, the result is 0.0.
    """
    t = np.asarray(times, dtype=np.float64)
    if len(t) < FEWEST:
        return 0.0
    third = len(t) // 3
    early, late = t[:third], t[-third:]
    ranks = np.argsort(np.argsort(np.concatenate([early, late]), kind="stable"), kind="stable") + 1.0
    # Mean and standard deviation of the rank sum under the null hypothesis, for two equal groups.
    expected = third * (2 * third + 1) / 2
    error = np.sqrt(third * third * (2 * third + 1) / 12)
    if abs(ranks[third:].sum() - expected) < DRIFTS * error:
        return 0.0
    start, end = np.median(early), np.median(late)
    return float(end / start - 1.0) if start else 0.0  # a coarse clock gives runs of zero length
