"""Selection of rounds by the total waiting time of all sides."""

from __future__ import annotations

import numpy as np


def quiet_rounds(waits_ns: np.ndarray, times_ns: np.ndarray, most: float) -> np.ndarray:
    """Return whether each round counts as quiet; shape (n_rounds,).

    The criterion is the sum over all sides, so it does not depend on their order: equal sides are selected equally, and
    their log ratios stay symmetric around 0 in the selected rounds.

    Args:
        waits_ns: Time that each side's threads waited for a CPU in each round; shape (n_sides, n_rounds).
        times_ns: Time of each side's runs in each round; shape (n_sides, n_rounds).
        most: Maximum fraction of waiting time in a quiet round.
    """
    return np.asarray(waits_ns.sum(axis=0) <= most * times_ns.sum(axis=0))
