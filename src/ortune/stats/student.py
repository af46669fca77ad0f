"""Student's t for whole degrees of freedom, also far out in its tails, where few processes and many rows lead."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ortune.errors import OrtuneError

HALVINGS = 60  # of the angle between 0 and a right one: beyond what a float can tell


def t_chance(t: ArrayLike, df: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Chance that Student's t lies farther from 0 than each ``t``, on either side; the shape is that of ``t``."""
    if df < 1:
        raise OrtuneError(f"t needs at least 1 degree of freedom: {df}")
    return _beyond(np.arctan(np.abs(np.asarray(t, dtype=np.float64)) / math.sqrt(df)), df)


def t_quantile(share: float, df: int) -> float:
    """Quantile of Student's t."""
    if not 0.5 <= share < 1.0 or df < 1:
        raise OrtuneError(
            f"the t quantile needs a probability from 0.5 to 1 and at least 1 degree of freedom: {share}, {df}"
        )
    # By the angle of t = tan(angle) sqrt(df): an interval that ends, where t itself does not.
    low, high = 0.0, math.pi / 2
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if _beyond(np.float64(middle), df) > 2 * (1 - share):
            low = middle
        else:
            high = middle
    return math.tan(low) * math.sqrt(df)


def _beyond(angle: Any, df: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the chance beyond t = tan(angle) sqrt(df): finite series, Abramowitz and Stegun 26.7.3 and 26.7.4."""
    cosine = np.cos(angle)
    odd = df % 2
    # cos + 2/3 cos^3 + 2/3 4/5 cos^5 + ... of an odd number, 1 + 1/2 cos^2 + 1/2 3/4 cos^4 + ... of an even
    # one.
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
