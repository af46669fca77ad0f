"""The always-valid test: an e-process over block log ratios, and the confidence sequence from its inversion.

With z_t = clip((d_t - theta) / s_t, -2, 2) and S = sum z, bets of sizes b with weights w give

    e = 1/2 + 1/2 sum over b of w_b cosh(b S) / prod over t of cosh(b z_t)

Each term of the sum is the mean of two bets, one on each sign: exp(b z) / cosh(b z) = 1 + tanh(b z) has mean 1 if z is
symmetric about 0. Half of the wealth is never at stake, so e is never below 1/2. Therefore e is an e-process for "the
log ratios are symmetric about theta", provided that s_t is known before block t. Every scale is therefore computed only
from earlier blocks, as the median absolute deviation about their own median: the scales are then the same for every
theta, so one set of scales serves the inversion. The evidence may be read after every block.

Since cosh(x) <= exp(x^2 / 2), a bet never earns less than exp(b z - b^2 z^2 / 2), the term of the self-normalized
normal mixture (de la Pena 1999), and far more if blocks agree. Betting against a null is due to Waudby-Smith and Ramdas
(2024); ``benchmarks/betting.py`` contains the comparison that led to these bets.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ortune.errors import OrtuneError
from ortune.stats.intervals import Interval, as_blocks

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

BETS = 2.0 ** np.arange(-4.0, 2.0)
"""Sizes of the bets, 1/16 to 2: the smallest pays off after hundreds of blocks, the largest after eight."""

KEPT = 0.5
"""Fraction of the wealth that is never at stake; with 0, the rate of false claims would be closer to 5 %, the limit."""

# Sizes double, so the prior density is multiplied by the size, the length of the interval that it represents.
LOG_WEIGHTS = np.log((1.0 - KEPT) * BETS * np.exp(-(BETS**2)) / (BETS * np.exp(-(BETS**2))).sum())
"""Log of the wealth placed on each bet: a normal prior with variance 1/2 on the size of the bet."""

CLIP = 2.0
"""Maximum of |z|, so that no single block decides the result."""

SCALE_FLOOR = 0.003
"""Minimum scale in log units; smaller differences between blocks are below the clock and scheduler resolution."""

DEFAULT_SCALE = 0.05
"""Scale of the first blocks without a calibration. A value that is too large costs time but keeps the test valid."""

FIRST_BLOCKS = 5
"""Number of blocks whose scale comes from the calibration, because fewer past blocks give no usable scale."""

_AT_ONCE = 64  # blocks with scales computed together, limited by memory


def past_scales(d: NDArray[np.float64], prior_scale: float | None = None) -> NDArray[np.float64]:
    """Return the scale of every block, computed only from the blocks before it.

    Raises:
        OrtuneError: If the prior scale is negative or not finite.
    """
    first = DEFAULT_SCALE if prior_scale is None else prior_scale
    if not (math.isfinite(first) and first >= 0.0):
        raise OrtuneError(f"the prior scale must be a finite number of at least 0, not {first}")
    scales = np.full(d.shape, max(SCALE_FLOOR, first))
    if d.ndim == 1:
        # Many at once, as after every block of a comparison: ten times as fast as one by one.
        for start in range(FIRST_BLOCKS, d.size, _AT_ONCE):
            n_past = np.arange(start, min(start + _AT_ONCE, d.size))
            past = np.where(np.arange(n_past[-1]) < n_past[:, None], d[: n_past[-1]], np.inf)
            # About their own median: about a wrong theta, deviations would be as large as the shift to reject.
            deviation = np.abs(past - _median_of_first(past, n_past)[:, None])
            scales[n_past] = np.maximum(SCALE_FLOOR, 1.4826 * _median_of_first(deviation, n_past))
        return scales
    for t in range(FIRST_BLOCKS, d.shape[-1]):
        past = d[..., :t]
        deviation = np.abs(past - _median(past)[..., None])
        scales[..., t] = np.maximum(SCALE_FLOOR, 1.4826 * _median(deviation))
    return scales


def _median_of_first(rows: NDArray[np.float64], n: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return, for each row i, the median of its first n[i] values; all later values must be infinite."""
    # Of 4 values the second and third, of 5 twice the third; infinite values are sorted to the end.
    ordered = np.sort(rows, axis=1)
    which = np.arange(n.size)
    return np.asarray(0.5 * (ordered[which, (n - 1) // 2] + ordered[which, n // 2]))


def _median(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return medians along the last axis; for few values ten times as fast as ``np.median``."""
    low, high = (values.shape[-1] - 1) // 2, values.shape[-1] // 2
    middle = np.partition(values, (low, high), axis=-1)
    return np.asarray(0.5 * (middle[..., low] + middle[..., high]))


def evidence_path(
    d: ArrayLike, theta: float = 0.0, prior_scale: float | None = None, *, above: bool = False
) -> NDArray[np.float64]:
    """Return the log evidence against "the log ratios are centred at theta" after each block."""
    values = np.asarray(d, dtype=np.float64)
    z = np.clip((values - theta) / past_scales(values, prior_scale), -CLIP, CLIP)
    return log_e(np.cumsum(z, axis=-1), np.cumsum(stakes(z), axis=-1), above=above)


def least_blocks(alpha: float = 0.05) -> int:
    """Return the minimum number of blocks for evidence of 1 / alpha, if all blocks are clipped on one side."""
    # For a level of 0.05 the evidence must reach 20, and its logarithm 3.0.
    n, limit = 1, -math.log(alpha)
    staked = stakes(np.array([CLIP]))
    while log_e(np.array([CLIP * n]), n * staked)[0] < limit:
        n += 1
    return n


def log_evidence(d: ArrayLike, theta: float = 0.0, prior_scale: float | None = None) -> float:
    """Return the log evidence against centre theta after the last block; theta is rejected from log(1 / alpha) on."""
    values = as_blocks(d, at_least=0)
    return float(evidence_path(values, theta, prior_scale)[-1]) if values.size else 0.0


def log_evidence_above(d: ArrayLike, theta: float = 0.0, prior_scale: float | None = None) -> float:
    """Return the log evidence that the true shift exceeds theta (log units); see ``log_evidence``."""
    values = as_blocks(d, at_least=0)
    return float(evidence_path(values, theta, prior_scale, above=True)[-1]) if values.size else 0.0


def log_evidence_below(d: ArrayLike, theta: float = 0.0, prior_scale: float | None = None) -> float:
    """Return the log evidence that the true shift is below theta (log units); see ``log_evidence``."""
    return log_evidence_above(-as_blocks(d, at_least=0), -theta, prior_scale)


def confidence_sequence(d: ArrayLike, alpha: float = 0.05, prior_scale: float | None = None) -> Interval:
    """Return all values of theta that the evidence does not reject, as one interval.

    The interval is valid at all blocks simultaneously, so it may be read after every block. If the accepted values are
    not contiguous, the smallest interval around them is returned; otherwise bounds are exact to rounding.

    Returns:
        The interval in log units; its centre is the theta at which the clipped sum S is 0. Both bounds are infinite as
        long as no value can be rejected (up to seven blocks at alpha 0.05).
    """
    values = as_blocks(d)
    if not 0.0 < alpha < 1.0:
        raise OrtuneError(f"alpha must lie between 0 and 1, not {alpha}")
    scales = past_scales(values, prior_scale)
    centre = _centre(values, scales)
    limit = -math.log(alpha)
    # S and the stakes are smooth between values of theta at which a block starts or stops being clipped, and
    # constant outside them. These corners, and a few points between, show every crossing.
    corners = np.sort(np.concatenate([values - CLIP * scales, values + CLIP * scales, [centre]]))
    inner = np.linspace(corners[:-1], corners[1:], 5, axis=1)[:, :-1].ravel()
    grid = np.append(inner, corners[-1])
    accepted = np.flatnonzero(_log_e_at(grid, values, scales) < limit)
    if accepted[0] == 0:  # far out every block is clipped, so one corner represents both sides
        return Interval(low=-math.inf, centre=centre, high=math.inf, level=1.0 - alpha)
    first, last = int(accepted[0]), int(accepted[-1])
    low = _crossing(grid[first], grid[first - 1], values, scales, limit)
    high = _crossing(grid[last], grid[last + 1], values, scales, limit)
    return Interval(low=low, centre=centre, high=high, level=1.0 - alpha)


def stakes(z: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the stake of each bet on a block, log cosh(b z), with shape (bets, ...) for z of shape (...)."""
    return log_cosh(np.multiply.outer(BETS, z))


def log_cosh(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the logarithm of the hyperbolic cosine, without overflow."""
    # cosh x = exp |x| (1 + exp(-2 |x|)) / 2; exp x alone overflows from 710 on.
    size = np.abs(x)
    return np.asarray(size + np.log1p(np.exp(-2.0 * size)) - math.log(2.0))


def log_e(s: NDArray[np.float64], staked: NDArray[np.float64], *, above: bool = False) -> NDArray[np.float64]:
    """Return log evidence from S (...) and summed stakes (bets, ...); ``above`` bets only on positive shifts."""
    # In logarithms throughout: after some hundred blocks with a clear difference, e exceeds a float.
    signed = np.multiply.outer(BETS, s)
    gains = (signed if above else log_cosh(signed)) - staked
    won = np.logaddexp.reduce(gains + LOG_WEIGHTS.reshape(-1, *[1] * s.ndim), axis=0)
    return np.asarray(np.logaddexp(math.log(KEPT), won))


def _log_e_at(
    thetas: NDArray[np.float64], d: NDArray[np.float64], scales: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the two-sided log evidence after the last block for many thetas, computed in parts to limit memory."""
    step = max(1, 2_000_000 // (d.size * BETS.size))
    parts = []
    for start in range(0, thetas.size, step):
        # One row per theta: the scales do not depend on it.
        z = np.clip((d - thetas[start : start + step, None]) / scales, -CLIP, CLIP)
        parts.append(log_e(z.sum(axis=1), stakes(z).sum(axis=2)))
    return np.concatenate(parts)


def _centre(d: NDArray[np.float64], scales: NDArray[np.float64]) -> float:
    """Return the theta at which S, which decreases with theta, crosses 0; the middle if S is 0 over an interval."""
    # If every block is clipped, S may be 0 over an interval of theta: bisecting for just above and just below 0
    # finds both of its ends.
    bounds = []
    for side in (-1e-12, 1e-12):
        low, high = float(d.min()), float(d.max())
        for _ in range(60):
            middle = 0.5 * (low + high)
            if float(np.clip((d - middle) / scales, -CLIP, CLIP).sum()) > side:
                low = middle
            else:
                high = middle
        bounds.append(0.5 * (low + high))
    return 0.5 * (bounds[0] + bounds[1])


def _crossing(
    accepted: float, rejected: float, d: NDArray[np.float64], scales: NDArray[np.float64], limit: float
) -> float:
    """Return the boundary between an accepted and a rejected theta, rounded to the rejected side."""
    for _ in range(60):
        middle = 0.5 * (accepted + rejected)
        if float(_log_e_at(np.array([middle]), d, scales)[0]) < limit:
            accepted = middle
        else:
            rejected = middle
    # The rejected side, so rounding never narrows the interval.
    return float(rejected)
