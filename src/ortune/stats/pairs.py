"""Exact tests, estimates and intervals for a fixed number of blocks: sign-flip and Wilcoxon.

All functions take block log ratios d (n,), the natural log of candidate / baseline, and are two-sided. n must be fixed
in advance; the always-valid alternative is ``ortune.stats.evidence``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ortune.errors import OrtuneError
from ortune.stats.intervals import Interval, as_blocks

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

EXACT_LIMIT = 40
"""Maximum number of blocks for exact counting of sign flips; beyond it a fixed random sample of flips is used."""

FLIPS = 99_999
"""Number of random flips above ``EXACT_LIMIT``. The p-value also counts the observed signs, so it remains valid."""

MOST_FLIPPED = 20
"""Maximum number of blocks of ``sign_flip_interval``, which enumerates 2^n subsets."""


def sign_flip(d: ArrayLike) -> float:
    """Return the two-sided p-value of the sign-flip test of the mean, with the null hypothesis "symmetric about 0".

    Exact up to 40 blocks: all 2^n sign patterns are counted, by combining two halves.
    """
    values = as_blocks(d)
    sizes = np.abs(values)
    # The observed sum must count as reaching itself, regardless of rounding.
    observed = abs(float(values.sum())) - 1e-12 * float(sizes.sum())
    if observed <= 0.0:
        return 1.0
    if sizes.size <= EXACT_LIMIT:
        # The sum of a left and a right half reaches the observed one if left >= observed - right. Two halves of
        # 2**20 sums each and a binary search replace 2**40 patterns.
        half = sizes.size // 2
        left, right = np.sort(_signed_sums(sizes[:half])), _signed_sums(sizes[half:])
        # Sign patterns are symmetric, so the patterns above the observed sum are half of those that reach it.
        reached = left.size * right.size - int(np.searchsorted(left, observed - right).sum())
        return float(min(1.0, 2.0 * (reached / 2.0**sizes.size)))
    rng = np.random.default_rng(0)
    reached = 1
    for start in range(0, FLIPS, 3_000):
        signs = rng.integers(0, 2, (min(3_000, FLIPS - start), sizes.size)) * 2.0 - 1.0
        reached += int((np.abs(signs @ sizes) >= observed).sum())
    return reached / (FLIPS + 1)


def wilcoxon(d: ArrayLike) -> float:
    """Return the exact two-sided p-value of the Wilcoxon signed-rank test of "symmetric about 0".

    Blocks equal to 0 are dropped, tied blocks share the middle rank, and the null distribution uses the actual
    ranks, so the test is exact even with ties and zeros.
    """
    values = as_blocks(d)
    values = values[values != 0.0]
    if values.size == 0:
        return 1.0
    ranks = _doubled_midranks(np.abs(values))
    null = rank_sum_distribution(ranks)
    above = int(ranks[values > 0.0].sum())
    # Both tails are equal, since all signs are equally likely: twice the smaller one.
    smaller = min(above, int(ranks.sum()) - above)
    return float(min(1.0, 2.0 * null[: smaller + 1].sum()))


def wilcoxon_interval(d: ArrayLike, level: float = 0.95) -> Interval:
    """Return a confidence interval for the centre from the signed-rank test, around the Hodges-Lehmann estimate.

    Args:
        d: Block log ratios (n,).
        level: Confidence level. If so few blocks cannot reach it (5 or fewer for 0.95), the widest
            interval, smallest to largest block, is returned with its attained level.

    Returns:
        The interval in log units with its attained level, which is exact without ties and a lower bound with ties.
    """
    values = as_blocks(d)
    means = np.sort(_pairwise_means(values))
    tail = np.cumsum(rank_sum_distribution(np.arange(1, values.size + 1)))
    # A theta is accepted while enough pair means lie on either side of it, so the bounds are two of these means.
    # Example: nine blocks have 45 pair means. At 95 %, five are dropped at either end, as P(rank sum <= 5) = 10 /
    # 512 and P(<= 6) = 14 / 512 > 0.025: the attained level is 1 - 20 / 512 = 96.1 %.
    drop = max(0, int(np.searchsorted(tail, (1.0 - level) / 2.0 * (1.0 + 1e-9), side="right")) - 1)
    return Interval(
        low=float(means[drop]),
        centre=float(np.median(means)),
        high=float(means[means.size - 1 - drop]),
        level=float(1.0 - 2.0 * tail[drop]),
    )


def sign_flip_interval(d: ArrayLike, level: float = 0.95) -> Interval:
    """Return a confidence interval for the centre from the sign-flip test, around the mean.

    A theta is rejected if few of the 2^n - 1 means of subsets of the blocks lie beyond it, so the bounds are order
    statistics of those means.

    Raises:
        OrtuneError: If there are no blocks or more than ``MOST_FLIPPED``, or a log ratio is not finite.
    """
    values = as_blocks(d)
    n = values.size
    if n > MOST_FLIPPED:
        raise OrtuneError(
            f"the sign-flip interval enumerates every subset of the blocks, and {n} blocks have too many",
            do=f"use wilcoxon_interval for more than {MOST_FLIPPED} blocks",
        )
    sums, counts = np.zeros(1), np.zeros(1)
    for value in values:
        sums, counts = np.concatenate([sums, sums + value]), np.concatenate([counts, counts + 1.0])
    means = np.sort(sums[1:] / counts[1:])
    # At the k-th mean from one end, k of the 2^n sign patterns reach the observed sum or more. Example: six blocks
    # at 95 %: 0.025 x 64 = 1.6, so the first mean from either end, at 1 - 2 / 64 = 96.9 %.
    keep = max(1, int((1.0 - level) / 2.0 * (1.0 + 1e-9) * 2.0**n))
    attained = 1.0 - 2.0 * keep / 2.0**n
    return Interval(
        low=float(means[keep - 1]), centre=float(values.mean()), high=float(means[-keep]), level=attained
    )


def _signed_sums(sizes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the 2^k sums of ``sizes`` (k,) with all combinations of signs."""
    sums = np.zeros(1)
    for size in sizes:
        sums = np.concatenate([sums - size, sums + size])
    return sums


def _pairwise_means(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the n (n + 1) / 2 means of all pairs, including each value with itself."""
    i, j = np.triu_indices(values.size)
    return np.asarray(0.5 * (values[i] + values[j]))


def _doubled_midranks(sizes: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the ranks times two, so that they are integers even if ties share their middle rank."""
    _, group, counts = np.unique(sizes, return_inverse=True, return_counts=True)
    # Two values that share ranks 3 and 4: the last is 4, and 2 x 4 - 2 + 1 = 7 is twice 3.5.
    last = np.cumsum(counts)
    return np.asarray((2 * last - counts + 1)[group.ravel()], dtype=np.int64)


def rank_sum_distribution(ranks: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the null probability of each sum of positive ranks, from 0 to the total of ``ranks``."""
    total = int(ranks.sum())
    probability = np.zeros(total + 1)
    probability[0] = 1.0
    for rank in ranks:
        # Each rank is included with probability 1/2: the distribution is averaged with itself shifted by the rank.
        moved = np.zeros_like(probability)
        moved[rank:] = probability[: total + 1 - rank]
        probability = 0.5 * (probability + moved)
    return probability
