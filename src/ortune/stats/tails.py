"""Tail latencies: intervals of quantiles by order statistics, and when a tail is simply not known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ortune.errors import OrtuneError
from ortune.stats.intervals import Interval

LEAST_GROUPS = 6
"""Fewest groups for a comparison of tails: with fewer, no two-sided exact test reaches 5 %."""


def minimum_requests(quantile: float) -> int:
    """Fewest requests that say anything about a quantile: 64, 130, 662, 6636 for p90, p95, p99, p99.9.

    The number at which, with 99 % probability, at least two requests lie beyond the true quantile, so that
    the estimate never rests on the single slowest one.

    Args:
        quantile: As a share, e.g. 0.99.

    Raises:
        OrtuneError: Not between 0 and 1.
    """
    _check_quantile(quantile)
    rare = max(quantile, 1.0 - quantile)  # of a low quantile, the scarce side is below it

    def missing(n: int) -> float:
        return float(rare**n + n * (1.0 - rare) * rare ** (n - 1))

    low, high = 1, 2
    while missing(high) > 0.01:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if missing(middle) > 0.01 else (low, middle)
    return high


def quantile_interval(latencies: ArrayLike, quantile: float, level: float = 0.95) -> Interval | None:
    """Order-statistic interval of a quantile; no assumption but that requests are alike and independent.

    Args:
        latencies: Latencies (n,), any unit and order.
        quantile: As a share, e.g. 0.99.
        level: Confidence level wanted.

    Returns:
        Interval in the unit of the latencies (not logs) with the level attained, or None, "not known",
        below ``minimum_requests(quantile)``. ``high`` is infinite where no observed latency is surely above
        the quantile (and ``low`` minus infinity, likewise).

    Raises:
        OrtuneError: The quantile or the level is not between 0 and 1, or a latency is not finite.
    """
    _check_quantile(quantile)
    _check_quantile(level)
    values = np.sort(np.asarray(latencies, dtype=np.float64).ravel())
    if not np.isfinite(values).all():
        raise OrtuneError("a latency is not a finite number", do="leave failed requests out, and count them")
    n = values.size
    if n < minimum_requests(quantile):
        return None
    # The number of requests below the true quantile is binomial; below[k] is P(count <= k).
    below = np.cumsum(_binomial(n, quantile))
    tail = (1.0 - level) / 2.0
    low = int(np.searchsorted(below, tail, side="right"))  # P(count <= low - 1) <= tail
    high = int(np.searchsorted(below, 1.0 - tail)) + 1  # P(count >= high) <= tail
    attained = 1.0 - (float(below[low - 1]) if low else 0.0) - (1.0 - float(below[high - 1]))
    return Interval(
        low=float(values[low - 1]) if low else -math.inf,
        centre=float(np.quantile(values, quantile)),
        high=float(values[high - 1]) if high <= n else math.inf,
        level=attained,
    )


def grouped_log_ratios(
    base: Sequence[ArrayLike], new: Sequence[ArrayLike], quantile: float, requests: int | None = None
) -> NDArray[np.float64] | None:
    """Log ratios of a quantile between two arms, one for each group of consecutive blocks.

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
    ends, held = [0], [0, 0]
    for block in range(len(base)):
        held = [held[0] + arms[0][block].size, held[1] + arms[1][block].size]
        if min(held) >= least:
            ends.append(block + 1)
            held = [0, 0]
    if len(ends) - 1 < LEAST_GROUPS:
        return None
    ends[-1] = len(base)
    quantiles = [[np.quantile(np.concatenate(arm[a:b]), quantile) for a, b in pairwise(ends)] for arm in arms]
    return np.asarray(np.log(quantiles[1]) - np.log(quantiles[0]))


def _check_quantile(share: float) -> None:
    if not 0.0 < share < 1.0:
        raise OrtuneError(f"a quantile or level must lie between 0 and 1, not {share}", do="p99 is 0.99")


def _binomial(n: int, share: float) -> NDArray[np.float64]:
    """Probabilities of 0 to n successes, through logs so that large n neither under- nor overflows."""
    log_factorial = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, n + 1)))])
    k = np.arange(n + 1)
    logs = log_factorial[n] - log_factorial - log_factorial[::-1]
    return np.asarray(np.exp(logs + k * math.log(share) + (n - k) * math.log1p(-share)))
