"""Many claims in one report: Holm for p-values, e-BH for e-values."""

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


def e_bh(log_e: Sequence[float], alpha: float = 0.05) -> tuple[bool, ...]:
    """Which hypotheses the e-BH procedure rejects, in the order given.

    Keeps the expected share of false claims below alpha for e-values of any dependence: rejects the k
    largest, for the largest k whose k-th value reaches n / (k alpha).

    Args:
        log_e: Natural logs of the e-values.
        alpha: Bound on the false discovery rate.

    Raises:
        OrtuneError: A log e-value that is not a number.
    """
    values = np.asarray(log_e, dtype=np.float64)
    if np.isnan(values).any():
        raise OrtuneError(f"log e-values must be numbers: {list(log_e)}")
    n = values.size
    order = np.argsort(-values, kind="stable")
    reached = np.flatnonzero(values[order] >= np.log(n / (alpha * np.arange(1, n + 1))))
    rejected = np.zeros(n, dtype=bool)
    rejected[order[: int(reached[-1]) + 1 if reached.size else 0]] = True
    return tuple(bool(value) for value in rejected)
