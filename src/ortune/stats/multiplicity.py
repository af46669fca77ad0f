"""Many claims in one report: Holm's correction of p-values, and simultaneous intervals for many differences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ortune.errors import OrtuneError
from ortune.stats.student import t_chance, t_quantile

Floats = np.ndarray[Any, np.dtype[np.float64]]


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Return Holm's adjusted p-values in the given order; claims at or below alpha are significant.

    Controls the probability of any false claim, regardless of the dependence between tests.

    Raises:
        OrtuneError: If a p-value is outside 0 to 1.
    """
    p = np.asarray(p_values, dtype=np.float64)
    if not ((p >= 0.0) & (p <= 1.0)).all():
        raise OrtuneError(f"p-values must lie between 0 and 1: {list(p_values)}")
    order = np.argsort(p, kind="stable")
    # The smallest p times n, the next times n - 1, and so on, made non-decreasing.
    scaled = np.minimum(1.0, np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1)))
    adjusted = np.empty_like(p)
    adjusted[order] = scaled
    return tuple(float(value) for value in adjusted)


def widths_together(changes: Floats, errors: Floats, degrees: Floats, level: float = 0.95) -> Floats:
    """Return the half-widths of intervals (n,), which exclude 0 exactly for the differences that count as changed.

    Benjamini and Hochberg's method selects the changed differences: the expected fraction of unchanged ones among the
    selected is at most ``1 - level``, and if nothing changed, so is the probability of any selection. Benjamini and
    Yekutieli (2005) then give each interval the level at which exactly the selected intervals exclude 0. A single
    difference has its usual interval.

    Args:
        changes: Differences (n,), any unit.
        errors: Their standard errors (n,), same unit.
        degrees: Degrees of freedom of the standard errors (n,), at least 1; rounded down, which is conservative.
        level: Confidence level.
    """
    n = len(changes)
    if not n:
        return np.zeros(0)
    whole = np.maximum(degrees, 1.0).astype(np.int64)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(errors > 0.0, np.abs(changes) / errors, np.where(changes != 0.0, np.inf, 0.0))
    groups = [(int(df), whole == df) for df in np.unique(whole)]
    chance = np.empty(n)
    for df, mine in groups:
        chance[mine] = t_chance(t[mine], df)
    ranks = np.arange(1, n + 1)
    # The share of selected differences sets the common level: if few are selected, intervals are as wide as
    # Bonferroni's, if all are, as individual ones.
    chosen = ranks[np.sort(chance) <= ranks * (1.0 - level) / n]
    share = 1.0 - (1.0 - level) * int(chosen.max(initial=1)) / n / 2.0
    widths = np.empty(n)
    for df, mine in groups:
        widths[mine] = errors[mine] * t_quantile(share, df)
    return widths
