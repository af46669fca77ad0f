"""Which runs of a process are like each other, and which at its start are not yet."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

FARTHEST = 4.0  # robust standard deviations
LEAST = 0.02  # of the typical run: steadier than this nobody's runs are
NORMAL = 1.4826  # of a median absolute deviation, for normal errors
DRIFTS = 3.3  # standard errors of a rank sum: one in a thousand by chance
FEWEST = 12  # runs from which on a drift can be told


def warmup_runs(times: ArrayLike) -> int:
    """Count the slower runs at the start (warm-up).

    The second half gives the usual time: its median, and how far runs lie from it. Warm-up ends with the first run that
    is usual and followed by one that is. Single slow runs later on are no warm-up.

    Returns:
        Runs to leave out; at most half of them. 0 or 1 if there are fewer than four.
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
    """Return how much the last third of the runs is slower than the first, as a ratio minus one; 0.0 within noise.

    A rank-sum test at one in a thousand: clocks that fall as the machine warms, memory that fills, a neighbour that
    begins or ends.
    """
    t = np.asarray(times, dtype=np.float64)
    if len(t) < FEWEST:
        return 0.0
    third = len(t) // 3
    early, late = t[:third], t[-third:]
    ranks = np.argsort(np.argsort(np.concatenate([early, late]), kind="stable"), kind="stable") + 1.0
    # Mean and standard deviation of the rank sum of one of two equal groups that do not differ.
    expected = third * (2 * third + 1) / 2
    error = np.sqrt(third * third * (2 * third + 1) / 12)
    if abs(ranks[third:].sum() - expected) < DRIFTS * error:
        return 0.0
    start, end = np.median(early), np.median(late)
    return float(end / start - 1.0) if start else 0.0  # a coarse clock gives runs that took no time
