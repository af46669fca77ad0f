from __future__ import annotations

import math

import numpy as np
import pytest

from ortune.errors import OrtuneError
from ortune.stats.evidence import (
    confidence_sequence,
    evidence_path,
    log_e,
    log_evidence,
    log_evidence_above,
    log_evidence_below,
    past_scales,
    stakes,
)
from ortune.stats.intervals import Interval, robust_scale, verdict

RNG = np.random.default_rng(5)
D = RNG.normal(0.02, 0.03, 60)


def test_log_evidence_is_the_formula_written_out():
    scales = [0.04] * 5
    for t in range(5, 12):
        past = sorted(D[:t])
        middle = float(np.median(past))
        scales.append(max(0.003, 1.4826 * float(np.median([abs(x - middle) for x in past]))))
    z = [max(-2.0, min(2.0, (d - 0.01) / scale)) for d, scale in zip(D[:12], scales, strict=True)]
    bets = [1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 2]
    weights = [b * math.exp(-b * b) for b in bets]
    above = both = 0.5  # half of the wealth is not at stake
    for bet, weight in zip(bets, weights, strict=True):
        up = math.prod(1 + math.tanh(bet * x) for x in z)
        down = math.prod(1 - math.tanh(bet * x) for x in z)
        above += 0.5 * weight / sum(weights) * up
        both += 0.5 * weight / sum(weights) * (up + down) / 2
    assert log_evidence(D[:12], 0.01, 0.04) == pytest.approx(math.log(both), rel=1e-9)
    assert log_evidence_above(D[:12], 0.01, 0.04) == pytest.approx(math.log(above), rel=1e-9)


def test_the_bets_are_fair_whatever_the_sizes_of_symmetric_blocks_are():
    """The mean of e over all signs of any sizes is exactly 1: what makes it an e-value."""
    rng = np.random.default_rng(3)
    for sizes in (np.abs(rng.standard_cauchy(12)), np.full(12, 0.3), rng.uniform(0, 0.05, 12)):
        signs = 2.0 * ((np.arange(2**12)[:, None] >> np.arange(12)) & 1) - 1.0
        z = np.clip(signs * sizes / 0.04, -2, 2)
        assert np.exp(log_e(z.sum(axis=1), stakes(z).sum(axis=2))).mean() == pytest.approx(1.0, rel=1e-12)
        one_sided = log_e(z.sum(axis=1), stakes(z).sum(axis=2), above=True)
        assert np.exp(one_sided).mean() == pytest.approx(1.0, rel=1e-12)


def test_the_scale_of_a_block_never_sees_that_block_or_a_later_one():
    changed = D.copy()
    changed[30:] += RNG.normal(0, 5, 30)
    assert (past_scales(changed)[:31] == past_scales(D)[:31]).all()
    assert (past_scales(changed)[31:] != past_scales(D)[31:]).any()


def test_scales_do_not_depend_on_theta_and_have_a_floor():
    assert past_scales(D + 1.0) == pytest.approx(past_scales(D))
    assert (past_scales(np.full(20, 0.1), prior_scale=0.0) == 0.003).all()


def test_many_streams_at_once_equal_one_at_a_time():
    many = RNG.standard_cauchy((4, 150))
    assert evidence_path(many, 0.1) == pytest.approx(np.stack([evidence_path(row, 0.1) for row in many]))


def test_evidence_of_the_last_block_is_the_end_of_the_path():
    assert log_evidence(D) == evidence_path(D)[-1]
    assert log_evidence([]) == 0.0 == log_evidence_above([])


def test_one_sided_evidence_mirrors():
    assert log_evidence_above(D, 0.01) == pytest.approx(log_evidence_below(-D, -0.01))
    assert log_evidence_above(D, -0.02) > math.log(20) > 0 > log_evidence_below(D, -0.02)


def test_one_sided_evidence_far_on_the_other_side_stays_finite():
    path = evidence_path(np.full((1, 5000), -1.0)[:, :1200], above=True)
    assert np.isfinite(path).all()
    assert path[0, -1] == pytest.approx(math.log(0.5))


def test_one_burst_cannot_decide():
    quiet = np.append(np.full(5, 0.0), RNG.normal(0, 0.001, 30))
    assert log_evidence(np.append(quiet, 50.0)) < math.log(20)


@pytest.mark.parametrize("prior", [None, 0.01])
@pytest.mark.parametrize("kind", ["normal", "cauchy", "ties"])
def test_the_interval_ends_where_the_evidence_reaches_its_limit(prior, kind):
    rng = np.random.default_rng(11)
    for n in (12, 25, 70):
        d = {
            "normal": rng.normal(0.02, 0.02, n),
            "cauchy": 0.02 + 0.01 * rng.standard_cauchy(n),
            "ties": np.round(rng.normal(0.02, 0.01, n), 2),
        }[kind]
        interval = confidence_sequence(d, 0.05, prior)
        assert interval.low < interval.centre < interval.high
        for end, out in ((interval.low, -1e-7), (interval.high, 1e-7)):
            assert log_evidence(d, end + out, prior) >= math.log(20)
            assert log_evidence(d, end - out, prior) < math.log(20)
        # Brute force over a fine grid accepts nothing outside.
        grid = np.linspace(d.min() - 1, d.max() + 1, 4001)
        z = np.clip((d - grid[:, None]) / past_scales(d, prior), -2, 2)
        accepted = grid[log_e(z.sum(axis=1), stakes(z).sum(axis=2)) < math.log(20)]
        assert interval.low <= accepted.min() < accepted.max() <= interval.high


def test_the_interval_moves_with_the_data_and_mirrors():
    a, b, c = confidence_sequence(D), confidence_sequence(D + 0.3), confidence_sequence(-D)
    assert (b.low, b.centre, b.high) == pytest.approx((a.low + 0.3, a.centre + 0.3, a.high + 0.3), abs=1e-9)
    assert (c.low, c.centre, c.high) == pytest.approx((-a.high, -a.centre, -a.low), abs=1e-9)


def test_too_few_blocks_bound_nothing():
    seven, eight = confidence_sequence(np.full(7, 1.0)), confidence_sequence(np.full(8, 1.0))
    assert (seven.low, seven.high, seven.centre) == (-math.inf, math.inf, pytest.approx(1.0))
    assert math.isfinite(eight.low) and math.isfinite(eight.high)
    assert seven.ratio_low == 0.0 and seven.ratio_high == math.inf
    assert verdict(seven) == "inconclusive"


def test_the_interval_narrows_as_in_the_description():
    """Half-width about 1.6, 1 and 0.7 % after 20, 40 and 80 blocks of a machine with a scale of 2 %."""
    rng = np.random.default_rng(2)
    for n, most in ((20, 0.021), (40, 0.013), (80, 0.009)):
        widths = [
            (i.high - i.low) / 2
            for i in (confidence_sequence(rng.normal(0, 0.02, n), 0.05, 0.02) for _ in range(20))
        ]
        assert np.median(widths) < most


@pytest.mark.parametrize(
    ("low", "high", "answer"),
    [
        (-0.05, -0.02, "faster"),
        (0.02, 0.05, "slower"),
        (-0.005, 0.004, "equivalent"),
        (-0.02, 0.004, "inconclusive"),
        (-0.004, 0.02, "inconclusive"),
        (0.001, 0.004, "slower"),
        (math.log1p(-0.01), math.log1p(0.01), "equivalent"),
        (math.log1p(-0.01) - 1e-9, 0.0, "inconclusive"),
    ],
)
def test_verdicts(low, high, answer):
    assert verdict(Interval(low=low, centre=0.0, high=high, level=0.95), 0.01) == answer


def test_intervals_as_ratios():
    interval = Interval(low=math.log(0.8), centre=math.log(0.9), high=0.0, level=0.95).shifted(math.log(2))
    assert (interval.ratio_low, interval.ratio, interval.ratio_high) == pytest.approx((1.6, 1.8, 2.0))


def test_robust_scale_is_the_standard_deviation_of_normal_data_and_ignores_bursts():
    x = RNG.normal(3.0, 0.5, 20_000)
    assert robust_scale(x) == pytest.approx(0.5, rel=0.05)
    x[:1000] = 1e6
    assert robust_scale(x) == pytest.approx(0.5, rel=0.15)


@pytest.mark.parametrize("bad", [[0.1, math.nan], [math.inf], [[0.1, 0.2]]])
def test_bad_blocks_give_one_clear_error(bad):
    with pytest.raises(OrtuneError, match="block log ratios"):
        log_evidence(bad)
    with pytest.raises(OrtuneError, match="block log ratios"):
        confidence_sequence(bad)


def test_other_bad_arguments():
    with pytest.raises(OrtuneError, match="at least 1 needed"):
        confidence_sequence([])
    with pytest.raises(OrtuneError, match="alpha"):
        confidence_sequence(D, 1.5)
    with pytest.raises(OrtuneError, match="prior scale"):
        log_evidence(D, 0.0, -0.1)
