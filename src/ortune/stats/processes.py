"""Intervals for one setting, from requests measured in a few processes.

Requests of one process share its memory layout, thread placement and time, so a thousand of them are not independent.
Both intervals here widen with the differences between processes; timing one process for longer cannot narrow them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ortune.errors import OrtuneError
from ortune.stats.intervals import Interval
from ortune.stats.student import t_quantile
from ortune.stats.tails import minimum_requests

LEVEL = 0.95
"""Confidence level of the intervals."""

LEAST_PROCESSES = 3
"""Minimum number of processes for an interval."""

LEAST_ORDERED = 6
"""Minimum number of values for order statistics to reach 95 %: 1 - 2 / 2^6 is 97 %."""


def typical_interval(values: ArrayLike) -> Interval | None:
    """Return the interval of a metric with one value per process: median latency, load time, peak memory.

    Six or more values use order statistics, which assume no distribution and tolerate disturbed processes. Three to
    five values cannot reach 95 % in this way, and use Student's t on the logarithms, which assumes that processes
    differ by approximately log-normal factors, and gives wide intervals.

    Returns:
        Interval around the median, in the unit of the values, with the attained level; None for under three values.

    Raises:
        OrtuneError: If a value is not finite or not above 0.
    """
    figures = np.sort(np.asarray(values, dtype=np.float64).ravel())
    if not (np.isfinite(figures) & (figures > 0)).all():
        raise OrtuneError("a process's figure is not a finite number above 0")
    n = figures.size
    if n < LEAST_PROCESSES:
        return None
    centre = float(np.median(figures))
    if n >= LEAST_ORDERED:
        low, high, attained = ranks(n, 0.5)
        return Interval(
            low=float(figures[low - 1]), centre=centre, high=float(figures[high - 1]), level=attained
        )
    logs = np.log(figures)
    # Example: of 10, 11 and 12 ms the middle is 11.0 ms and the interval 8.7 to 13.8, since t with two degrees of
    # freedom is 4.30.
    width = t_quantile(0.5 + LEVEL / 2, n - 1) * float(np.std(logs, ddof=1)) / math.sqrt(n)
    middle = float(np.mean(logs))
    return Interval(
        # The interval is around the geometric mean, and must include the median.
        low=min(math.exp(middle - width), centre),
        centre=centre,
        high=max(math.exp(middle + width), centre),
        level=LEVEL,
    )


def pooled_quantile(processes: Sequence[ArrayLike], quantile: float) -> Interval | None:
    """Return the interval of a quantile over the requests of all processes, by order statistics on effective requests.

    This follows Korn and Graubard (1998) for a proportion in a clustered sample: the variance of the proportion below
    the quantile is estimated between processes; the number of requests is reduced to the number of independent requests
    with the same variance, and again for the small number of processes (Student's t, n - 1 degrees of freedom). The
    order statistics (``ranks``) are those of that number. Independent requests lose almost nothing; if processes
    differ, one side of the interval may be unbounded.

    Returns:
        Interval in the unit of the latencies; ``low`` is -infinity, or ``high`` infinity, if that side is unbounded.
        None with fewer than ``minimum_requests(quantile)`` requests or fewer than three processes.

    Raises:
        OrtuneError: If a latency is not finite, or the quantile is not between 0 and 1.
    """
    arrays = [np.asarray(p, dtype=np.float64).ravel() for p in processes]
    arrays = [a for a in arrays if a.size]
    total = sum(a.size for a in arrays)
    if len(arrays) < LEAST_PROCESSES or total < minimum_requests(quantile):
        return None
    values = np.sort(np.concatenate(arrays))
    if not np.isfinite(values).all():
        raise OrtuneError("a latency is not a finite number", do="leave failed requests out, and count them")
    centre = float(np.quantile(values, quantile))
    n = effective_requests(arrays, centre)
    low, high, attained = ranks(n, quantile)
    # The k-th of n effective requests corresponds to the k-th of n equal parts of all requests, counted from the
    # nearer end, so for n = total these are the ranks themselves.
    below = low * total // n
    above = (n + 1 - high) * total // n
    return Interval(
        low=min(float(values[below - 1]), centre) if low else -math.inf,
        centre=centre,
        high=max(float(values[total - above]), centre) if high <= n else math.inf,
        level=attained,
    )


def effective_requests(processes: Sequence[NDArray[np.float64]], at: float) -> int:
    """Return the number of independent requests with equal information on the proportion below ``at``; at least 1."""
    sizes = np.asarray([p.size for p in processes], dtype=np.float64)
    shares = np.asarray([np.mean(p <= at) for p in processes])
    n, total = len(processes), float(sizes.sum())
    share = float(np.sum(sizes * shares) / total)
    # Variance of a share in a clustered sample, weighted by requests.
    between = n / (n - 1) * float(np.sum((sizes / total * (shares - share)) ** 2))
    independent = share * (1 - share) / between if between > 0 else total
    # Example: five processes, 95 %: (1.96 / 2.78)^2 = 0.50, so half of the requests count.
    few = (NormalDist().inv_cdf(0.5 + LEVEL / 2) / t_quantile(0.5 + LEVEL / 2, n - 1)) ** 2
    return max(1, int(min(independent, total) * few))


def ranks(n: int, quantile: float) -> tuple[int, int, float]:
    """Return the ranks of the order statistics of n independent values that enclose the quantile.

    Returns:
        (low rank, high rank, attained level); ranks count from 1, and rank 0 or n + 1 means that a side is unbounded.
    """
    count = np.arange(n + 1, dtype=np.float64)
    logs = np.concatenate([[0.0], np.cumsum(np.log(count[1:]))])
    # Binomial probabilities as logarithms, since factorials beyond n = 170 overflow a double.
    chances = logs[n] - logs - logs[::-1] + count * math.log(quantile) + (n - count) * math.log1p(-quantile)
    below = np.cumsum(np.exp(chances))  # below[k]: probability that at most k of n are below the quantile
    tail = (1.0 - LEVEL) / 2.0
    low = int(np.searchsorted(below, tail, side="right"))
    high = min(int(np.searchsorted(below, 1.0 - tail)) + 1, n + 1)
    attained = 1.0 - (float(below[low - 1]) if low else 0.0) - max(0.0, 1.0 - float(below[high - 1]))
    return low, high, attained
