from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.stats

from ortune.errors import OrtuneError
from ortune.stats.pairs import (
    rank_sum_distribution,
    sign_flip,
    sign_flip_interval,
    wilcoxon,
    wilcoxon_interval,
)


def samples(seed, sizes=(1, 2, 5, 6, 9, 13)):
    rng = np.random.default_rng(seed)
    for n in sizes:
        yield rng.normal(0.3, 1.0, n)
        yield np.round(rng.normal(0.5, 1.0, n), 1)


def test_sign_flip_counts_every_pattern():
    for d in samples(1):
        signs = np.array(list(itertools.product((-1, 1), repeat=d.size)))
        sums = np.abs(signs @ np.abs(d))
        expected = np.mean(sums >= abs(d.sum()) - 1e-9)
        assert sign_flip(d) == pytest.approx(expected, abs=1e-15)


def test_sign_flip_agrees_with_scipy_on_larger_n():
    d = np.random.default_rng(2).normal(0.3, 1.0, 17)
    reference = scipy.stats.permutation_test(
        (d,), np.mean, permutation_type="samples", n_resamples=np.inf, vectorized=True
    )
    assert sign_flip(d) == pytest.approx(reference.pvalue, rel=1e-12)


def test_sign_flip_of_forty_blocks_is_still_exact():
    assert sign_flip(np.full(40, 0.7)) == 2.0**-39
    assert sign_flip(np.append(np.full(39, 1.0), -1.0)) == 2 * 41 / 2.0**40


def test_sign_flip_beyond_forty_samples_the_flips():
    rng = np.random.default_rng(3)
    d = rng.normal(0.25, 1.0, 60)
    normal = 2 * scipy.stats.norm.sf(abs(d.sum()) / np.sqrt((d**2).sum()))
    assert sign_flip(d) == pytest.approx(normal, rel=0.15)
    assert sign_flip(d) == sign_flip(d)
    assert sign_flip(np.full(60, 1.0)) == pytest.approx(1e-5)


def test_no_difference_at_all_is_no_evidence():
    for test in (sign_flip, wilcoxon):
        assert test(np.zeros(9)) == 1.0
        assert test([1.0, -1.0]) == 1.0


def test_wilcoxon_agrees_with_scipy():
    rng = np.random.default_rng(4)
    for n in (3, 6, 9, 15, 24, 45):
        d = rng.normal(0.4, 1.0, n)
        assert wilcoxon(d) == pytest.approx(scipy.stats.wilcoxon(d, method="exact").pvalue, rel=1e-10)


def test_wilcoxon_with_ties_and_zeros_counts_every_pattern():
    for d in samples(5):
        kept = d[d != 0]
        ranks = scipy.stats.rankdata(np.abs(kept))
        sums = np.array([s @ ranks for s in itertools.product((0, 1), repeat=kept.size)])
        seen = ranks[kept > 0].sum()
        expected = min(1.0, 2 * min(np.mean(sums <= seen), np.mean(sums >= seen)))
        assert wilcoxon(d) == pytest.approx(expected, abs=1e-14)


def test_the_wilcoxon_interval_is_around_the_median_of_pairwise_means():
    for d in samples(6):
        pairs = [(a + b) / 2 for a, b in itertools.combinations_with_replacement(d, 2)]
        assert wilcoxon_interval(d).centre == pytest.approx(np.median(pairs))


@pytest.mark.parametrize("level", [0.8, 0.95, 0.99])
def test_intervals_hold_exactly_what_their_tests_accept(level):
    for d in samples(7, sizes=(6, 9, 12)):
        tied = len(set(d)) < len(d)
        for interval, test in (
            (wilcoxon_interval(d, level), wilcoxon),
            (sign_flip_interval(d, level), sign_flip),
        ):
            if interval.level < level:
                continue
            inside, outside = interval.low + 1e-7, interval.low - 1e-7
            assert test(d - outside) <= 1 - interval.level + 1e-12
            assert tied or test(d - inside) > 1 - interval.level
            inside, outside = interval.high - 1e-7, interval.high + 1e-7
            assert test(d - outside) <= 1 - interval.level + 1e-12
            assert tied or test(d - inside) > 1 - interval.level


def test_intervals_of_few_blocks_say_what_level_they_reach():
    d = np.array([0.1, 0.3, 0.2, 0.5])
    for interval in (wilcoxon_interval(d, 0.95), sign_flip_interval(d, 0.95)):
        assert (interval.low, interval.high, interval.level) == (0.1, 0.5, 0.875)
    assert wilcoxon_interval([0.2], 0.95).level == 0.0
    assert 0.99 <= wilcoxon_interval(np.arange(9.0), 0.99).level < 0.995


def test_wilcoxon_interval_coverage_of_known_level():
    rng = np.random.default_rng(8)
    intervals = [wilcoxon_interval(rng.standard_t(3, 9), 0.9) for _ in range(1500)]
    covered = np.mean([not i.excludes(0.0) for i in intervals])
    assert covered == pytest.approx(intervals[0].level, abs=0.025)


def test_rank_sum_distribution_is_a_distribution():
    p = rank_sum_distribution(np.arange(1, 25))
    assert p.sum() == pytest.approx(1.0)
    assert p == pytest.approx(p[::-1])


def test_bad_input_gives_one_clear_error():
    for call in (sign_flip, wilcoxon, wilcoxon_interval, sign_flip_interval):
        with pytest.raises(OrtuneError, match="needed"):
            call([])
        with pytest.raises(OrtuneError, match="value 1 is nan"):
            call([0.1, float("nan"), 0.2])
    with pytest.raises(OrtuneError, match="21 blocks"):
        sign_flip_interval(np.arange(21.0))
