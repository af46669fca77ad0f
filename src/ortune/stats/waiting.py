"""Selecting rounds by the waiting of all their sides together."""

from __future__ import annotations

import numpy as np


def quiet_rounds(waits_ns: np.ndarray, times_ns: np.ndarray, most: float) -> np.ndarray:
    """Return which rounds count as quiet; shape (n_rounds,).

    The criterion is the sum over all sides, so exchanging two sides changes nothing: two equal sides are selected
    alike, and their log ratios stay symmetric around 0 in the selected rounds.

    Args:
        waits_ns: Time that each side's threads waited for a CPU in each round; shape (n_sides, n_rounds).
        times_ns: Time of its runs; the same shape.
        most: The largest share of waiting in a quiet round.
    """
    return np.asarray(waits_ns.sum(axis=0) <= most * times_ns.sum(axis=0))
