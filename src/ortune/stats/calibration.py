"""Controls and guards: whether an identical plan looks identical, a known wait is found, and other metrics got worse.

All functions take log ratios of blocks to the baseline (n,), and return the records that reports show.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from ortune.errors import OrtuneError
from ortune.printable import amount
from ortune.records import Control, Guard
from ortune.stats.intervals import as_blocks
from ortune.stats.pairs import sign_flip, wilcoxon_interval
from ortune.stats.tails import LEAST_GROUPS

IDENTICAL_P = 0.01
LATE_P = 0.001
SPIKE_LEVEL = 0.99

SPIKE_SLACK = 0.005
"""Accepted error of the wait in log units: busy waiting disturbs the next run by some tenths of a percent, which would
be significant on a quiet machine and make the measurement invalid.
"""

GUARD_LIMITS = {"mean": 1.05, "p95": 1.05, "memory": 1.10, "cpu": 1.20}
"""Maximum ratio of candidate to baseline for each guarded metric; memory may always grow by 16 MB."""

MEMORY_SLACK_BYTES = 16_000_000

MUCH_STEADIER = 0.8
"""Maximum ratio of the scales at which another statistic replaces the usual one, which users know."""


def identical_control(d: ArrayLike) -> Control:
    """Test the identical plan A' against the baseline; fails at exact sign-flip p < 0.01."""
    return _identical("identical", d, IDENTICAL_P)


def late_control(d: ArrayLike) -> Control:
    """Test the later blocks of the identical plan A' once, at the end of the session; fails at p < 0.001."""
    return _identical("identical-late", d, LATE_P)


def spike_control(
    d: ArrayLike, expected_log_ratio: ArrayLike, slack: float = SPIKE_SLACK, *, alone: bool = True
) -> Control:
    """Test the baseline with a recorded busy wait; fails if the 99 % interval misses that wait.

    Seven or fewer blocks cannot reach 99 %; the widest possible interval is used, which misses the wait in more than
    1 % of cases.

    Args:
        d: Log ratios spike / baseline (n,).
        expected_log_ratio: Log ratio that corresponds to the recorded wait; a single value or one per block.
        slack: Accepted error in log units.
        alone: Whether nothing else ran during the wait. Otherwise the wait also took a CPU from other work, may cost
            more than its own duration, and only a smaller effect fails.

    Returns:
        The control; ``expected_ratio`` is the median over blocks, and ``detected`` is whether the interval
        excludes "no difference". A wait that is not detected is not a failure: it shows the limit of this machine.
    """
    values = as_blocks(d, "log ratios of the sensitivity check")
    expected = as_blocks(np.atleast_1d(np.asarray(expected_log_ratio, dtype=np.float64)), "recorded waits")
    if expected.size not in (1, values.size):
        raise OrtuneError(f"{expected.size} recorded waits for {values.size} blocks")
    # The wait of each block is known, so the remainder is tested.
    centre = float(np.median(expected))
    interval = wilcoxon_interval(values - expected, SPIKE_LEVEL).shifted(centre)
    return Control(
        name="spike-in",
        ok=(interval.low - slack <= centre or not alone) and centre <= interval.high + slack,
        n_blocks=values.size,
        expected_ratio=math.exp(centre),
        ratio=interval.ratio,
        ratio_low=interval.ratio_low,
        ratio_high=interval.ratio_high,
        detected=interval.excludes(0.0),
    )


def choose_statistic(noise: Mapping[str, ArrayLike]) -> str:
    """Return the name of the statistic for "latency" in this session: the first, unless another is clearly steadier.

    Args:
        noise: Log ratios of identical plans for each statistic, by name; the usual statistic comes first.
    """
    # Over nine blocks the steadiest statistic is partly luck, so a small advantage is ignored.
    usual, *others = noise
    scales = {name: null_scale(values) for name, values in noise.items()}
    best = min(others, key=scales.__getitem__, default=usual)
    return best if scales[best] < MUCH_STEADIER * scales[usual] else usual


def null_scale(noise: ArrayLike) -> float:
    """Return the robust scale, around 0, of log ratios (n,) of identical plans."""
    return float(1.4826 * np.median(np.abs(as_blocks(noise))))


def guard_limit(figure: str, base_bytes: float | None = None) -> float:
    """Return the maximum ratio of a guarded metric; memory may always grow by 16 MB.

    Raises:
        OrtuneError: If the peak memory is not positive.
    """
    limit = GUARD_LIMITS[figure]
    if figure == "memory" and base_bytes is not None:
        if not base_bytes > 0.0:
            raise OrtuneError(f"the baseline's peak memory must be positive, not {base_bytes} bytes")
        limit = max(limit, 1.0 + MEMORY_SLACK_BYTES / base_bytes)
    return limit


def guard(
    figure: Literal["mean", "p95", "memory", "cpu"],
    d: ArrayLike | None,
    *,
    base_bytes: float | None = None,
    level: float = 0.95,
) -> Guard:
    """Test whether a metric got worse than its limit; the guard fails only if the whole interval exceeds the limit.

    For p95, each ratio belongs to a group of blocks (``tails.grouped_log_ratios``). With fewer than six values, or with
    None for a metric that was not measured, the guard is not ``known``, and ``note`` contains the reason.
    """
    limit = guard_limit(figure, base_bytes)
    if d is None:
        return Guard(figure=figure, limit_ratio=limit, known=False, note="not known: too few samples")
    values = as_blocks(d, f"{figure} log ratios", at_least=0)
    if values.size < LEAST_GROUPS:
        n = amount(values.size, "block")
        note = f"not known: {n}, {LEAST_GROUPS} needed"
        return Guard(figure=figure, limit_ratio=limit, known=False, note=note)
    interval = wilcoxon_interval(values, level)
    return Guard(
        figure=figure,
        ratio=interval.ratio,
        ratio_low=interval.ratio_low,
        ratio_high=interval.ratio_high,
        limit_ratio=limit,
        failed=interval.ratio_low > limit,
    )


def _identical(name: Literal["identical", "identical-late"], d: ArrayLike, limit: float) -> Control:
    values = as_blocks(d, f"{name} log ratios")
    p = sign_flip(values)
    interval = wilcoxon_interval(values, 1.0 - limit)
    return Control(
        name=name,
        ok=p >= limit,
        n_blocks=values.size,
        p=p,
        expected_ratio=1.0,
        ratio=interval.ratio,
        ratio_low=interval.ratio_low,
        ratio_high=interval.ratio_high,
    )
