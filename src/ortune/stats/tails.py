"""Tail latencies: how many requests tell of one, and comparing them between two arms."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ortune.errors import OrtuneError

LEAST_GROUPS = 6
"""Fewest groups for a comparison of tails: with fewer, no two-sided exact test reaches 5 %."""


def minimum_requests(quantile: float) -> int:
    """Fewest requests that say anything about a quantile: 64, 130, 662, 6636 for p90, p95, p99, p99.9.

    The number at which, with 99 % probability, at least two requests lie beyond the true quantile, so that
    the estimate never rests on the single slowest one.
    """
    if not 0.0 < quantile < 1.0:
        raise OrtuneError(f"a quantile must lie between 0 and 1, not {quantile}", do="p99 is 0.99")
    rare = max(quantile, 1.0 - quantile)  # of a low quantile, the scarce side is below it

    def missing(n: int) -> float:
        # The chance that none of n requests, or exactly one, lies beyond the quantile.
        return float(rare**n + n * (1.0 - rare) * rare ** (n - 1))

    low, high = 1, 2
    while missing(high) > 0.01:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if missing(middle) > 0.01 else (low, middle)
    return high


def grouped_log_ratios(
    base: Sequence[ArrayLike], new: Sequence[ArrayLike], quantile: float, requests: int | None = None
) -> NDArray[np.float64] | None:
    """Return log ratios of a quantile between two arms, one for each group of consecutive blocks.

    One trial holds too few requests for a tail, and the requests of one trial are not independent. So
    consecutive blocks are pooled until both arms hold enough, and the group is the unit of analysis; blocks
    left over join the last group.

    Args:
        base: The baseline's latencies, one array a block, in block order.
        new: The candidate's latencies of the same blocks.
        quantile: As a share, e.g. 0.95.
        requests: Requests that each group must hold in each arm; None for ``minimum_requests(quantile)``.

    Returns:
        Log ratios new / base (groups,), or None, "not known", where there are fewer than six groups.

    Raises:
        OrtuneError: Different numbers of blocks, or a quantile not between 0 and 1.
    """
    if len(base) != len(new):
        raise OrtuneError(f"the arms were not measured in the same blocks: {len(base)} and {len(new)}")
    least = minimum_requests(quantile) if requests is None else requests
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
