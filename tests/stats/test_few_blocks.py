"""Few dear blocks beside a neighbour: what calibration chooses in the blocks that are then tested claims no more often.

The statistic is chosen by the controls of the very blocks that decide, and the base is in both ratios. A neighbour only
ever adds, so noise is skewed, and a choice that follows the base could lean to one side.
"""

from __future__ import annotations

import numpy as np
import pytest

from ortune.stats import pairs
from ortune.stats.calibration import choose_statistic, identical_control, spike_control

ARMS, ROUNDS, RUNS = 4, 5, 8  # base, new, identical, with a wait that is taken off
WAIT = 0.05


def waits(rng: np.random.Generator, n: int) -> np.ndarray:
    """Each run may wait for a CPU, by steps of the scheduler, more often in some blocks than in others."""
    often = rng.beta(4, 2, (n, 1, 1, 1))
    runs = (n, ARMS, ROUNDS, RUNS)
    return 0.8 * (rng.random(runs) < often) * rng.geometric(0.35, runs)


def whole_processes(rng: np.random.Generator, n: int) -> np.ndarray:
    """Three processes in ten lie badly for as long as they live."""
    process = (n, ARMS, 1, 1)
    return (rng.random(process) < 0.3) * rng.exponential(0.3, process) + 0.5 * waits(rng, n)


def figures(added: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Log ratios to the base (n, arms - 1) by each statistic of latency."""
    n = len(added)
    times = np.exp(0.01 * rng.standard_normal((n, ARMS, 1, 1))) * (1 + added)
    found = {}
    for name, q in (("paired", 0.5), ("paired-low", 0.25)):
        turns = np.log(np.quantile(times, q, axis=3))
        found[name] = np.median(turns[:, 1:] - turns[:, :1], axis=2)
    low = np.log(np.quantile(times.reshape(n, ARMS, -1), 0.1, axis=2))
    return {**found, "p10": low[:, 1:] - low[:, :1]}


@pytest.mark.parametrize("noise", [waits, whole_processes])
@pytest.mark.parametrize("n", [6, 9])
@pytest.mark.parametrize("streams", [pytest.param(2000, marks=pytest.mark.long), 300])
def test_identical_sides_are_told_apart_once_in_twenty_at_most(streams: int, n: int, noise: object) -> None:
    assert callable(noise)
    rng = np.random.default_rng(20)
    claims, slower = 0, 0
    for _ in range(streams):
        for _ in range(2):  # controls that fail are repeated once, on fresh blocks
            seen = figures(noise(rng, n), rng)
            chosen = choose_statistic({name: np.concatenate([d[:, 1], d[:, 2]]) for name, d in seen.items()})
            new, identical, wait = seen[chosen].T
            known = np.full(n, np.log1p(WAIT))
            if identical_control(identical).ok and spike_control(wait + known, known).ok:
                claims += pairs.sign_flip(new) <= 0.05
                slower += pairs.sign_flip(new) <= 0.05 and new.mean() > 0
                break
    spread = 3 * (0.05 * 0.95 / streams) ** 0.5
    assert claims / streams <= 0.05 + spread
    # To neither side more often than a coin.
    assert abs(slower - claims / 2) <= 2 + 3 * (claims / 4) ** 0.5
