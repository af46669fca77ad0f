"""Student's t for integer degrees of freedom, accurate far into the tails that few processes and many rows require."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ortune.errors import OrtuneError

HALVINGS = 60  # bisections of the angle between 0 and a right angle, to floating-point precision


def t_chance(t: ArrayLike, df: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the two-sided probability that Student's t exceeds each ``|t|``, in the shape of ``t``."""
    if df < 1:
        raise OrtuneError(f"t needs at least 1 degree of freedom: {df}")
    return _beyond(np.arctan(np.abs(np.asarray(t, dtype=np.float64)) / math.sqrt(df)), df)


def t_quantile(share: float, df: int) -> float:
    """Return the quantile of Student's t for the probability ``share``, which must be at least 0.5."""
    if not 0.5 <= share < 1.0 or df < 1:
        raise OrtuneError(
            f"the t quantile needs a probability from 0.5 to 1 and at least 1 degree of freedom: {share}, {df}"
        )
    # Bisects the angle of t = tan(angle) sqrt(df), which is bounded although t is not.
    low, high = 0.0, math.pi / 2
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if _beyond(np.float64(middle), df) > 2 * (1 - share):
            low = middle
        else:
            high = middle
    return math.tan(low) * math.sqrt(df)


def _beyond(angle: Any, df: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the two-sided probability beyond t = tan(angle) sqrt(df), by Abramowitz and Stegun 26.7.3 and 26.7.4."""
    cosine = np.cos(angle)
    odd = df % 2
    # Odd df: cos + 2/3 cos^3 + 2/3 4/5 cos^5 + ...; even df: 1 + 1/2 cos^2 + 1/2 3/4 cos^4 + ...
    term = cosine if odd else np.ones_like(cosine)
    total = np.zeros_like(cosine)
    for k in range(1 + odd, df, 2):
        total = total + term
        term = term * cosine**2 * k / (k + 1)
    inside = np.sin(angle) * total
    if odd:
        inside = 2 / math.pi * (angle + inside)
    outside: np.ndarray[Any, np.dtype[np.float64]] = np.clip(1.0 - inside, 0.0, 1.0)
    return outside
