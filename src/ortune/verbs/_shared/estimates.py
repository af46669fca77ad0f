"""Estimates with their intervals over processes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ortune.records import Estimate, TailEstimate
from ortune.stats.intervals import Interval
from ortune.stats.processes import pooled_quantile, typical_interval
from ortune.stats.tails import minimum_requests


def typical(values: Sequence[float]) -> Estimate:
    """Return the median of one value per process, with an interval if there are enough processes."""
    interval = typical_interval(values)
    if interval is None:
        return Estimate(value=float(np.median(values)), single=True)
    return estimate(interval)


def estimate(interval: Interval) -> Estimate:
    """Convert an interval to an estimate; an infinite end becomes None."""
    return Estimate(
        value=interval.centre,
        low=interval.low if math.isfinite(interval.low) else None,
        high=interval.high if math.isfinite(interval.high) else None,
        level=interval.level,
    )


def tail(samples: Sequence[np.ndarray], quantile: float) -> TailEstimate:
    """Return a quantile over the latencies of several processes, if they are enough for it."""
    needed, made = minimum_requests(quantile), sum(one.size for one in samples)
    interval = pooled_quantile(samples, quantile)
    latency = None if interval is None else estimate(interval)
    if latency is None and made >= needed:
        # Stopped before the third process: the requests are enough, the processes are not.
        latency = Estimate(value=float(np.quantile(np.concatenate(list(samples)), quantile)), single=True)
    return TailEstimate(quantile=quantile, latency_ns=latency, needed=needed, made=made)
