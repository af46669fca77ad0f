"""Estimates with their intervals over processes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ortune.records import Estimate
from ortune.stats.intervals import Interval
from ortune.stats.processes import typical_interval


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
