"""Intervals on the log scale, their verdicts, and input checks of the statistics."""

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
    """A confidence interval for the shift of log ratios (natural log of candidate / baseline).

    Attributes:
        low, high: Bounds in log units; infinite if the data do not bound that side yet.
        centre: The point estimate, in log units.
        level: Attained confidence level, e.g. 0.961 if so few blocks cannot give 0.95 exactly.
    """

    low: float
    centre: float
    high: float
    level: float

    @property
    def ratio(self) -> float:
        """Point estimate as the ratio candidate / baseline."""
        return math.exp(self.centre)

    @property
    def ratio_low(self) -> float:
        """Lower bound as a ratio; 0 if there is none."""
        return math.exp(self.low)

    @property
    def ratio_high(self) -> float:
        """Upper bound as a ratio; infinite if there is none."""
        return math.exp(self.high) if self.high < 700.0 else math.inf

    def excludes(self, value: float) -> bool:
        """Return whether ``value`` (log units) is outside the interval."""
        return not self.low <= value <= self.high

    def shifted(self, by: float) -> Interval:
        """Return the interval moved by ``by`` log units."""
        return Interval(low=self.low + by, centre=self.centre + by, high=self.high + by, level=self.level)


def verdict(interval: Interval, delta: float = 0.01) -> Verdict:
    """Return whether an interval shows a difference, equivalence, or neither.

    Returns:
        "faster" or "slower" if the interval excludes 0, else "equivalent" if it is inside log(1 ± delta), else
        "inconclusive". A confirmed difference inside this band is still "faster" or "slower", however small.
    """
    if interval.high < 0.0:
        return "faster"
    if interval.low > 0.0:
        return "slower"
    if interval.low >= math.log1p(-delta) and interval.high <= math.log1p(delta):
        return "equivalent"
    return "inconclusive"


def as_blocks(d: ArrayLike, what: str = "block log ratios", at_least: int = 1) -> NDArray[np.float64]:
    """Convert block values to a float array (n,), after checking that they are finite.

    Raises:
        OrtuneError: If the rank is wrong, there are fewer than ``at_least`` values, or a value is not finite.
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
    """Return 1.4826 times the median absolute deviation, a normal standard deviation that ignores outliers."""
    values = as_blocks(d)
    return float(1.4826 * np.median(np.abs(values - np.median(values))))
