"""Many claims in one report: Holm for p-values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ortune.errors import OrtuneError


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Holm's adjusted p-values, in the order given: claim those at or below alpha.

    Controls the chance of even one false claim, whatever the dependence between the tests.

    Raises:
        OrtuneError: A p-value outside 0 to 1.
    """
    p = np.asarray(p_values, dtype=np.float64)
    if not ((p >= 0.0) & (p <= 1.0)).all():
        raise OrtuneError(f"p-values must lie between 0 and 1: {list(p_values)}")
    order = np.argsort(p, kind="stable")
    scaled = np.minimum(1.0, np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1)))
    adjusted = np.empty_like(p)
    adjusted[order] = scaled
    return tuple(float(value) for value in adjusted)
