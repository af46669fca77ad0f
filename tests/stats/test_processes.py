from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats

from ortune.errors import OrtuneError
from ortune.stats.processes import effective_requests, pooled_quantile, ranks, typical_interval


@pytest.mark.parametrize(
    ("quantile", "n"), [(0.5, 40), (0.9, 100), (0.95, 400), (0.99, 3000), (0.999, 100_000)]
)
def test_ranks_are_those_of_scipy(quantile, n):
    binomial = scipy.stats.binom(n, quantile)
    counts = np.arange(1, n + 1)
    low, high, level = ranks(n, quantile)
    assert low == counts[binomial.cdf(counts - 1) <= 0.025].max()
    assert high == min(counts[binomial.sf(counts - 1) <= 0.025], default=n + 1)
    assert level == pytest.approx(binomial.cdf(high - 1) - binomial.cdf(low - 1), abs=1e-9)
    assert level >= 0.95


def times(rng, processes, requests, between, within=0.05):
    """Latencies of each process: a level of its own, and requests with an exponential tail above it."""
    levels = np.exp(between * rng.standard_normal(processes))
    return levels[:, None] * (1 + within * rng.exponential(size=(processes, requests)))


often = pytest.mark.parametrize("n", [pytest.param(400, marks=pytest.mark.long), 150])


@often
@pytest.mark.parametrize("between", [0.0, 0.02, 0.1])
@pytest.mark.parametrize("processes", [3, 5, 6, 9, 30])
def test_typical_intervals_cover_whatever_lies_between_processes(processes, between, n):
    rng = np.random.default_rng(processes)
    truth = 1 + 0.05 * math.log(2)
    found = [typical_interval(np.median(times(rng, processes, 25, between), axis=1)) for _ in range(n)]
    assert np.mean([i.low <= truth <= i.high for i in found]) >= 0.92


@often
@pytest.mark.parametrize("between", [0.0, 0.01, 0.05])
@pytest.mark.parametrize(
    ("quantile", "processes", "requests"), [(0.1, 30, 40), (0.9, 5, 40), (0.95, 30, 60), (0.99, 12, 100)]
)
def test_tails_cover_whatever_lies_between_processes(quantile, processes, requests, between, n):
    rng = np.random.default_rng(2)
    truth = np.quantile(np.concatenate(times(rng, 20_000, 20, between)), quantile)
    found = [pooled_quantile(times(rng, processes, requests, between), quantile) for _ in range(n // 2)]
    assert np.mean([i.low <= truth <= i.high for i in found]) >= 0.9


def test_pooling_as_if_independent_would_not_cover():
    rng = np.random.default_rng(3)
    truth = np.quantile(np.concatenate(times(rng, 20_000, 20, 0.05)), 0.9)
    low, high, _ = ranks(1200, 0.9)
    naive = [np.sort(np.concatenate(times(rng, 12, 100, 0.05))) for _ in range(200)]
    assert np.mean([values[low - 1] <= truth <= values[high - 1] for values in naive]) < 0.7


def test_a_tail_that_few_differing_processes_cannot_bound_stays_open():
    processes = [level * np.linspace(1.0, 1.1, 100) for level in (1.0, 1.5, 2.0)]
    found = pooled_quantile(processes, 0.95)
    assert found is not None
    assert found.high == math.inf
    assert found.centre == np.quantile(np.concatenate(processes), 0.95)


def test_alike_processes_keep_nearly_all_requests():
    same = np.linspace(1.0, 2.0, 100)
    assert effective_requests([same] * 30, 1.5) == pytest.approx(3000 * (1.96 / 2.045) ** 2, rel=0.01)
    assert effective_requests([same, same + 9, same + 9], 5.0) == 1


def test_what_is_not_known_is_none():
    assert typical_interval([1.0, 2.0]) is None
    assert pooled_quantile([np.ones(100)] * 2, 0.9) is None
    assert pooled_quantile([np.ones(21)] * 3, 0.9) is None
    assert pooled_quantile([np.ones(22)] * 3, 0.9) is not None


def test_order_statistics_shrug_off_a_disturbed_process():
    found = typical_interval([1.0, 1.01, 1.02, 1.03, 1.04, 1.05, 1.06, 1.07, 1.08, 50.0])
    assert found is not None
    assert found.high < 1.1


def test_bad_input_gives_one_clear_error():
    with pytest.raises(OrtuneError, match="above 0"):
        typical_interval([1.0, 0.0, 2.0])
    with pytest.raises(OrtuneError, match="finite"):
        pooled_quantile([np.full(100, math.nan)] * 3, 0.9)
