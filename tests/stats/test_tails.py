from __future__ import annotations

import math

import numpy as np
import pytest

from ortune.errors import OrtuneError
from ortune.stats.tails import grouped_log_ratios, minimum_requests


def test_the_least_requests_of_each_tail():
    assert [minimum_requests(q) for q in (0.9, 0.95, 0.99, 0.999)] == [64, 130, 662, 6636]
    assert minimum_requests(0.1) == minimum_requests(0.9)


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
    assert grouped_log_ratios([], [], 0.95) is None


def test_the_arm_with_fewer_requests_decides_the_groups():
    base, new = [np.ones(100)] * 12, [np.ones(70)] * 12
    ratios = grouped_log_ratios(base, new, 0.95)
    assert ratios is not None
    assert ratios.size == 6


def test_bad_input_gives_one_clear_error():
    for quantile in (0.0, 1.0, 99, math.nan):
        with pytest.raises(OrtuneError, match="between 0 and 1"):
            minimum_requests(quantile)
    with pytest.raises(OrtuneError, match="same blocks"):
        grouped_log_ratios([np.ones(9)], [], 0.9)
