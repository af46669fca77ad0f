from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats

from ortune.errors import OrtuneError
from ortune.stats.tails import grouped_log_ratios, minimum_requests, quantile_interval


def test_the_least_requests_of_each_tail():
    assert [minimum_requests(q) for q in (0.9, 0.95, 0.99, 0.999)] == [64, 130, 662, 6636]
    assert minimum_requests(0.1) == minimum_requests(0.9)


def test_below_the_least_requests_a_tail_is_not_known():
    values = np.random.default_rng(0).exponential(1.0, 662)
    assert quantile_interval(values[:661], 0.99) is None
    assert quantile_interval(values, 0.99) is not None


@pytest.mark.parametrize(("quantile", "n"), [(0.5, 40), (0.9, 100), (0.95, 400), (0.99, 3000)])
def test_order_statistics_are_those_of_scipy(quantile, n):
    values = np.random.default_rng(1).exponential(1.0, n)
    ordered, binomial = np.sort(values), scipy.stats.binom(n, quantile)
    low = max(k for k in range(1, n + 1) if binomial.cdf(k - 1) <= 0.025)
    high = min((k for k in range(1, n + 1) if binomial.sf(k - 1) <= 0.025), default=n + 1)
    interval = quantile_interval(values, quantile)
    assert interval is not None
    assert interval.low == ordered[low - 1]
    assert interval.high == (ordered[high - 1] if high <= n else math.inf)
    assert interval.level == pytest.approx(binomial.cdf(high - 1) - binomial.cdf(low - 1), abs=1e-9)
    assert interval.level >= 0.95


def test_quantile_intervals_cover_the_true_quantile():
    rng = np.random.default_rng(2)
    truth = -math.log(0.1)
    hits = [not quantile_interval(rng.exponential(1.0, 200), 0.9).excludes(truth) for _ in range(1000)]
    assert np.mean(hits) >= 0.935


def test_large_samples_neither_under_nor_overflow():
    interval = quantile_interval(np.arange(100_000.0), 0.999)
    assert interval is not None
    assert 99_850 < interval.low < interval.centre < interval.high < 99_950


def test_an_unbounded_side_is_infinite():
    interval = quantile_interval(np.arange(64.0), 0.9, level=0.9999)
    assert interval is not None
    assert interval.high == math.inf


def test_groups_hold_enough_requests_and_use_every_block():
    rng = np.random.default_rng(3)
    base = [rng.exponential(1.0, 40) for _ in range(26)]
    new = [1.2 * trial for trial in base]
    ratios = grouped_log_ratios(base, new, 0.95)  # 130 needed: four blocks a group, six groups, two left over
    assert ratios is not None
    assert ratios == pytest.approx(np.full(6, math.log(1.2)))
    last = np.log(np.quantile(np.concatenate(base[20:]), 0.95))
    changed = [*new[:-1], new[-1] * 100]
    moved = grouped_log_ratios(base, changed, 0.95)
    assert moved is not None
    assert moved[:5] == pytest.approx(ratios[:5])
    assert moved[5] == pytest.approx(np.log(np.quantile(np.concatenate(changed[20:]), 0.95)) - last)


def test_too_few_groups_are_not_known():
    base = [np.ones(40)] * 23
    assert grouped_log_ratios(base, base, 0.95) is None
    assert grouped_log_ratios(base, base, 0.9) is not None
    assert grouped_log_ratios(base, base, 0.95, requests=100) is not None
    assert grouped_log_ratios([], [], 0.95) is None


def test_the_arm_with_fewer_requests_decides_the_groups():
    base, new = [np.ones(100)] * 12, [np.ones(70)] * 12
    ratios = grouped_log_ratios(base, new, 0.95)
    assert ratios is not None
    assert ratios.size == 6


def test_bad_input_gives_one_clear_error():
    for quantile in (0.0, 1.0, 99, math.nan):
        with pytest.raises(OrtuneError, match="between 0 and 1"):
            quantile_interval(np.ones(100), quantile)
    with pytest.raises(OrtuneError, match="finite"):
        quantile_interval([1.0, math.nan], 0.5)
    with pytest.raises(OrtuneError, match="same blocks"):
        grouped_log_ratios([np.ones(9)], [], 0.9)
