"""Rounds that are selected by the waiting of both sides: equal sides stay equal, and a difference stays what it is."""

from __future__ import annotations

import numpy as np
import pytest

from ortune.stats import pairs
from ortune.stats.waiting import quiet_rounds

STREAMS, BLOCKS, ROUNDS = 400, 12, 10
MOST = 0.01


def stream(
    draw: np.random.Generator, *, log_ratio: float, meets: tuple[float, float], process: float = 0.005
) -> np.ndarray:
    """Log ratios of blocks over their quiet rounds; nan for blocks without one.

    Args:
        log_ratio: By how much the second side differs without other programs.
        meets: The chance of each side that a turn waits for a CPU.
        process: Scatter of processes; rounds scatter by 2 %.
    """
    shape = (2, BLOCKS, ROUNDS)
    share = np.where(
        draw.random(shape) < np.asarray(meets)[:, None, None], draw.uniform(0.05, 0.9, shape), 0.0
    )
    log_ns = 0.02 * draw.standard_normal(shape) + process * draw.standard_normal((2, BLOCKS, 1))
    times = np.exp(log_ns + np.asarray([0.0, log_ratio])[:, None, None]) * (1 + share)
    waits = times * share / (1 + share)
    ratios = []
    for block in range(BLOCKS):
        rounds = quiet_rounds(waits[:, block], times[:, block], MOST)
        logs = np.log(times[1, block] / times[0, block])[rounds]
        ratios.append(np.median(logs) if len(logs) else np.nan)
    return np.asarray(ratios)


@pytest.mark.parametrize("meets", [(0.0, 0.0), (0.5, 0.5), (0.7, 0.7), (0.6, 0.0), (0.2, 0.7)])
def test_equal_sides_are_called_different_as_seldom_as_without_the_selection(
    meets: tuple[float, float],
) -> None:
    draw, rejected = np.random.default_rng(5), 0
    n_streams = 0
    for _ in range(STREAMS):
        d = stream(draw, log_ratio=0.0, meets=meets)
        d = d[~np.isnan(d)]
        if len(d) >= 9:
            n_streams += 1
            rejected += pairs.wilcoxon(d) < 0.05
    # Three standard errors of the rate.
    assert rejected / max(1, n_streams) < 0.05 + 3 * (0.05 * 0.95 / max(1, n_streams)) ** 0.5


@pytest.mark.parametrize("log_ratio", [-0.2, 0.0, 0.05])
def test_a_difference_in_quiet_rounds_is_the_one_without_other_programs(log_ratio: float) -> None:
    draw = np.random.default_rng(6)
    streams = [stream(draw, log_ratio=log_ratio, meets=(0.75, 0.1)) for _ in range(200)]
    assert float(np.nanmean(np.concatenate(streams))) == pytest.approx(log_ratio, abs=0.002)


def test_the_selection_knows_no_side() -> None:
    draw = np.random.default_rng(7)
    waits, times = draw.random((2, 50)) ** 8, np.ones((2, 50))
    assert (quiet_rounds(waits, times, MOST) == quiet_rounds(waits[::-1], times[::-1], MOST)).all()
    assert 0 < quiet_rounds(waits, times, MOST).sum() < 50
