"""Tail latencies: the number of requests that a quantile requires, and comparison of tails between two arms."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ortune.errors import OrtuneError

LEAST_GROUPS = 6
"""Minimum number of groups for a comparison of tails: with fewer, no two-sided exact test reaches 5 %."""


def minimum_requests(quantile: float) -> int:
    """Return the minimum number of requests for a quantile: 64 for p90, 130 for p95, 662 for p99, 6636 for p99.9.

    With this number, at least two requests lie beyond the true quantile with 99 % probability, so the estimate does not
    depend on the slowest request alone.
    """
    if not 0.0 < quantile < 1.0:
        raise OrtuneError(f"a quantile must lie between 0 and 1, not {quantile}", do="p99 is 0.99")
    rare = max(quantile, 1.0 - quantile)  # for a low quantile, the rare side is below it

    def missing(n: int) -> float:
        # Probability that none or exactly one of n requests is beyond the quantile.
        return float(rare**n + n * (1.0 - rare) * rare ** (n - 1))

    low, high = 1, 2
    while missing(high) > 0.01:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if missing(middle) > 0.01 else (low, middle)
    return high


def grouped_log_ratios(
    base: Sequence[ArrayLike], new: Sequence[ArrayLike], quantile: float
) -> NDArray[np.float64] | None:
    """Return the log ratio of a quantile between two arms for each group of consecutive blocks.

    One trial has too few requests for a tail, and its requests are not independent. Consecutive blocks are therefore
    pooled until both arms have enough requests, and the group is the unit of analysis; remaining blocks join the last
    group.

    Args:
        base: The baseline's latencies, one array per block, in block order.
        new: The candidate's latencies for the same blocks.
        quantile: The quantile as a fraction, e.g. 0.95.

    Returns:
        Log ratios new / base (groups,), or None if there are fewer than six groups.

    Raises:
        OrtuneError: If the numbers of blocks differ, or the quantile is not between 0 and 1.
    """
    if len(base) != len(new):
        raise OrtuneError(f"the arms were not measured in the same blocks: {len(base)} and {len(new)}")
    least = minimum_requests(quantile)
    arms = [[np.asarray(trial, dtype=np.float64).ravel() for trial in arm] for arm in (base, new)]
    ends, n_requests = [0], [0, 0]
    for block in range(len(base)):
        n_requests = [n_requests[0] + arms[0][block].size, n_requests[1] + arms[1][block].size]
        if min(n_requests) >= least:
            ends.append(block + 1)
            n_requests = [0, 0]
    if len(ends) - 1 < LEAST_GROUPS:
        return None
    ends[-1] = len(base)
    quantiles = [[np.quantile(np.concatenate(arm[a:b]), quantile) for a, b in pairwise(ends)] for arm in arms]
    return np.asarray(np.log(quantiles[1]) - np.log(quantiles[0]))
