"""The interval on the log scale, its verdict, and the checks that every statistic makes of its input."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from ortune.errors import OrtuneError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

Verdict = Literal["faster", "slower", "equivalent", "inconclusive"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """An interval for a shift of log ratios (natural log of candidate / baseline).

    Attributes:
        low, high: Bounds in log units; infinite where the data cannot bound that side yet.
        centre: The point estimate, in log units.
        level: Confidence level reached, e.g. 0.961 where so few blocks cannot give 0.95 exactly.
    """

    low: float
    centre: float
    high: float
    level: float

    @property
    def ratio(self) -> float:
        """The point estimate as candidate / baseline."""
        return math.exp(self.centre)

    @property
    def ratio_low(self) -> float:
        """The lower bound as a ratio; 0 if there is none."""
        return math.exp(self.low)

    @property
    def ratio_high(self) -> float:
        """The upper bound as a ratio; infinite where there is none."""
        return math.exp(self.high) if self.high < 700.0 else math.inf

    def excludes(self, value: float) -> bool:
        """Return whether ``value`` (log units) lies outside."""
        return not self.low <= value <= self.high

    def shifted(self, by: float) -> Interval:
        """Return the interval moved by ``by`` log units."""
        return Interval(low=self.low + by, centre=self.centre + by, high=self.high + by, level=self.level)


def verdict(interval: Interval, delta: float = 0.01) -> Verdict:
    """Return what an interval says about "no difference".

    Returns:
        "equivalent" inside log(1 ± delta), else "faster" or "slower" where the interval excludes 0, else
        "inconclusive". An interval that excludes 0 and still lies inside the band is "faster" or "slower":
        a proven difference, however small, is not hidden.
    """
    if interval.high < 0.0:
        return "faster"
    if interval.low > 0.0:
        return "slower"
    if interval.low >= math.log1p(-delta) and interval.high <= math.log1p(delta):
        return "equivalent"
    return "inconclusive"


def as_blocks(d: ArrayLike, what: str = "block log ratios", at_least: int = 1) -> NDArray[np.float64]:
    """Return one finite value a block as a float array (n,).

    Raises:
        OrtuneError: Wrong rank, fewer than ``at_least`` values, or one that is not finite.
    """
    values = np.asarray(d, dtype=np.float64)
    if values.ndim != 1:
        raise OrtuneError(f"{what} must be one value per block, not an array of shape {values.shape}")
    if values.size < at_least:
        raise OrtuneError(
            f"{what}: {values.size} given, at least {at_least} needed", do="measure more blocks first"
        )
    if not np.isfinite(values).all():
        bad = int(np.flatnonzero(~np.isfinite(values))[0])
        raise OrtuneError(
            f"{what}: value {bad} is {values[bad]}",
            do="a latency of 0 or a failed trial has no ratio: leave its whole block out",
        )
    return values


def robust_scale(d: ArrayLike) -> float:
    """1.4826 times the median absolute deviation: the standard deviation of normal data, bursts ignored."""
    values = as_blocks(d)
    return float(1.4826 * np.median(np.abs(values - np.median(values))))
