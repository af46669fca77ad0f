"""Power analysis: smallest detectable effects, and the number of blocks needed to detect an effect.

Closed forms for normal block log ratios of the given scale, tested against simulation. Effects are fractions (0.02 is
2 %); scales are in log units.
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from ortune.errors import OrtuneError
from ortune.stats.evidence import CLIP, DEFAULT_SCALE, FIRST_BLOCKS, SCALE_FLOOR, log_e, stakes
from ortune.stats.intervals import Interval, as_blocks, robust_scale, verdict
from ortune.stats.pairs import rank_sum_distribution

Method = Literal["sequence", "wilcoxon", "sign-flip"]

_NORMAL = NormalDist()
_GRID = np.linspace(-8.0, 8.0, 801)
_WEIGHT = np.exp(-0.5 * _GRID**2) / np.exp(-0.5 * _GRID**2).sum()
_SPARSE = 16
"""Stride of the grid points at which stakes are averaged; stakes are smooth, and have six values per point."""
_SPARSE_WEIGHT = _WEIGHT[::_SPARSE] / _WEIGHT[::_SPARSE].sum()
_CDF = np.vectorize(_NORMAL.cdf, otypes=[np.float64])


def smallest_effect(
    scale: float,
    n: int,
    alpha: float = 0.05,
    power: float = 0.8,
    method: Method = "sequence",
    prior_scale: float | None = None,
) -> float:
    """Return the smallest true effect that n blocks would detect with probability ``power``.

    Returns:
        The effect as a fraction, e.g. 0.021 for 2.1 %; infinite if so few blocks cannot detect any effect.
    """
    if not (math.isfinite(scale) and scale >= 0.0 and n >= 1 and 0.0 < alpha < 1.0 and 0.0 < power < 1.0):
        raise OrtuneError(
            f"no smallest effect for scale {scale}, {n} blocks, alpha {alpha}, power {power}",
            do="give a scale of at least 0, one block or more, and alpha and power between 0 and 1",
        )
    spread = max(scale, 1e-9)
    if method == "sequence":
        shift = _smallest_shift(spread, n, alpha, power, method, prior_scale)
    else:
        # These only compare blocks with each other, so only the shift in standard deviations counts.
        shift = spread * _smallest_shift(1.0, n, alpha, power, method, None)
    return math.expm1(min(shift, 700.0)) if math.isfinite(shift) else math.inf


@lru_cache(maxsize=4096)
def _smallest_shift(
    spread: float, n: int, alpha: float, power: float, method: Method, prior_scale: float | None
) -> float:
    """Return the smallest shift (log units) that n blocks of this spread would detect, or infinity."""
    # Power grows with the effect, so doubling brackets the solution and bisection finds it.
    low, high = 0.0, spread
    while _power(high, spread, n, alpha, method, prior_scale) < power:
        low, high = high, 2.0 * high
        if high > 1e3 * max(spread, 1.0):
            return math.inf
    for _ in range(40):
        middle = 0.5 * (low + high)
        if _power(middle, spread, n, alpha, method, prior_scale) < power:
            low = middle
        else:
            high = middle
    return high


def reported_effect(smallest: float, interval: Interval) -> float | None:
    """Return the smallest detectable effect, but at least half of the interval's width; None if it is infinite.

    The closed forms only use a robust scale. If outliers widen the interval further, half of its width is the smallest
    effect that could have been distinguished from none.
    """
    bounded = max(smallest, math.expm1(min(0.5 * (interval.high - interval.low), 700.0)))
    return bounded if math.isfinite(bounded) and math.isfinite(interval.high - interval.low) else None


def blocks_needed(
    scale: float,
    effect: float,
    alpha: float = 0.05,
    power: float = 0.8,
    method: Method = "sequence",
    prior_scale: float | None = None,
    most: int = 4096,
) -> int | None:
    """Return the number of blocks that would detect an effect with probability ``power``.

    Returns:
        The number of blocks; None if it exceeds ``most`` or the effect is 0.
    """

    def enough(n: int) -> bool:
        return smallest_effect(scale, n, alpha, power, method, prior_scale) <= abs(effect)

    if effect == 0.0 or not enough(most):
        return None
    low, high = 0, 8
    while high < most and not enough(high):
        low, high = high, 2 * high
    high = min(high, most)
    # Always too few at low, and enough at high.
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def more_blocks(
    d: ArrayLike,
    interval: Interval,
    delta: float = 0.01,
    alpha: float = 0.05,
    prior_scale: float | None = None,
    method: Method = "sequence",
    limit: float | None = None,
) -> int | None:
    """Estimate how many further blocks would resolve the verdict "inconclusive".

    This is the smaller of two numbers: enough blocks to prove the observed difference, or enough to narrow the interval
    to ±delta. Either gives a 50 % chance of a verdict if the observed difference is the true one. For a gate, it is
    enough to move the interval to one side of the limit; the true difference is then assumed to be no farther from the
    limit than the limit is from 0, so that noise does not lead to an estimate that is too small.

    Args:
        d: Block log ratios (n,).
        interval: Interval of the log ratios. If outliers have made it wider than the robust scale implies, they are
            assumed to occur as often in further blocks.
        delta: Half-width of the range that counts as equivalent, as a fraction.
        alpha: One minus the level.
        prior_scale: Scale of the first blocks.
        method: Method of the interval; further blocks are analysed with the sequential interval.
        limit: The regression that a gate must detect, as a fraction; None without a gate.

    Returns:
        The number of blocks, at least 1; 0 if the verdict is not inconclusive; None if thousands would not suffice, or
        if there are too few blocks to estimate their scale.
    """
    values = as_blocks(d)
    decided = verdict(interval, delta) != "inconclusive"
    if limit is not None:
        decided = interval.excludes(math.log1p(limit))
    if decided:
        return 0
    half = 0.5 * (interval.high - interval.low)
    if values.size < FIRST_BLOCKS or not math.isfinite(half):
        return None
    scale = max(SCALE_FLOOR, robust_scale(values))
    # The robust scale ignores outliers that widened the interval. The widening is assumed to continue, or too few
    # blocks would be promised.
    usual = smallest_effect(scale, values.size, alpha, 0.5, method, prior_scale)
    scale *= max(1.0, half / math.log1p(usual))
    # The interval must either shrink to the observed difference, to exclude 0, or fit into the remaining margin of
    # ±delta.
    seen = math.expm1(interval.centre)
    margins: tuple[float, ...] = (abs(seen), delta - abs(seen))
    if limit is not None:
        margins = (min(abs(seen - limit), limit),)
    totals = [
        blocks_needed(scale, margin, alpha, 0.5, prior_scale=prior_scale)
        for margin in margins
        if margin > 0.0
    ]
    missing = [total - values.size for total in totals if total is not None]
    return min((n for n in missing if n > 0), default=None)


def _power(
    shift: float, scale: float, n: int, alpha: float, method: Method, prior_scale: float | None
) -> float:
    """Return the probability that the method detects a shift (log units)."""
    if method == "sequence":
        return _sequence_power(shift, scale, n, alpha, prior_scale)
    if method == "wilcoxon":
        return _wilcoxon_power(shift / scale, n, alpha)
    return _sign_flip_power(shift / scale, n, alpha)


def _sequence_power(shift: float, scale: float, n: int, alpha: float, prior_scale: float | None) -> float:
    """Return P(log e >= log(1/alpha) at block n), with S approximately normal and the stakes at their mean."""
    # The first blocks are scaled by calibration, later ones by their past. Crossing the limit before block n and
    # falling below it again is ignored, so the effect is not underestimated.
    first = min(n, FIRST_BLOCKS)
    prior = max(SCALE_FLOOR, DEFAULT_SCALE if prior_scale is None else prior_scale)
    mean = variance = 0.0
    staked = np.zeros(1)
    for count, unit in ((first, prior), (n - first, max(SCALE_FLOOR, scale))):
        z = np.clip((shift + scale * _GRID) / unit, -CLIP, CLIP)
        m1, m2 = float(z @ _WEIGHT), float((z * z) @ _WEIGHT)
        mean, variance = mean + count * m1, variance + count * (m2 - m1 * m1)
        staked = staked + count * (stakes(z[::_SPARSE]) @ _SPARSE_WEIGHT)
    # Evidence grows with S, which n clipped blocks bound: two grids, the second within a step of the first.
    limit, low, high = math.log(1.0 / alpha), 0.0, CLIP * n
    for _ in range(2):
        sums = np.linspace(low, high, 17)
        reached = log_e(sums, staked[:, None])
        if reached[-1] < limit:
            return 0.0
        step = max(1, int(np.searchsorted(reached, limit)))
        low, high = float(sums[step - 1]), float(sums[step])
    needed = float(np.interp(limit, reached, sums))
    return _NORMAL.cdf((mean - needed) / math.sqrt(max(variance, 1e-12)))


def _wilcoxon_power(shift: float, n: int, alpha: float) -> float:
    """Return P(exact signed-rank test rejects) for a shift in standard deviations, from the moments of its sum."""
    # The signed-rank sum counts the pairs with a positive mean, including each value with itself. Its mean and
    # variance under a shift follow from the probabilities that one value (p1), one pair (p2) and two pairs with a
    # common value (p3) are positive.
    pairs = n * (n - 1) / 2.0
    if n <= 60:
        # Exact while it can be enumerated; the normal limit is inaccurate for few blocks.
        below = np.cumsum(rank_sum_distribution(np.arange(1, n + 1)))
        critical = int(np.searchsorted(below, alpha / 2.0 * (1.0 + 1e-9), side="right")) - 1
        if critical < 0:
            return 0.0
    else:
        null_sd = math.sqrt(n * (n + 1) * (2 * n + 1) / 24.0)
        critical = int(n * (n + 1) / 4.0 - _NORMAL.inv_cdf(1.0 - alpha / 2.0) * null_sd)
    beyond = _CDF(_GRID + 2.0 * shift)  # P(X1 + X2 > 0 | X1)
    p1, p2, p3 = _NORMAL.cdf(shift), float(beyond @ _WEIGHT), float((beyond * beyond) @ _WEIGHT)
    mean = n * p1 + pairs * p2
    variance = (
        n * p1 * (1.0 - p1)
        + pairs * (2.0 * (p1 - p2) ** 2 + 3.0 * p2 * (1.0 - p2))
        + 2.0 * pairs * (n - 2) * (p3 - p2 * p2)
    )
    # Continuity correction of half a rank.
    needed = n * (n + 1) / 2.0 - critical - 0.5
    return _NORMAL.cdf((mean - needed) / math.sqrt(max(variance, 1e-12)))


def _sign_flip_power(shift: float, n: int, alpha: float) -> float:
    """Return P(sign-flip test rejects) for a shift in standard deviations, as a t test at the attained level."""
    # With 2**n sign flips p has steps of 2**-n, so few blocks attain a smaller level than allowed.
    tail = math.floor(alpha / 2.0 * 2.0**n * (1.0 + 1e-9)) / 2.0**n if n < 50 else alpha / 2.0
    if tail == 0.0:
        return 0.0
    z, df = _NORMAL.inv_cdf(1.0 - tail), n - 1
    critical = (  # the t quantile, by its expansion around the normal one
        z
        + (z**3 + z) / (4.0 * df)
        + (5.0 * z**5 + 16.0 * z**3 + 3.0 * z) / (96.0 * df**2)
        + (3.0 * z**7 + 19.0 * z**5 + 17.0 * z**3 - 15.0 * z) / (384.0 * df**3)
    )
    return _NORMAL.cdf((shift * math.sqrt(n) - critical) / math.sqrt(1.0 + critical**2 / (2.0 * df)))
