"""The closed forms of what can be seen, against simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ortune.errors import OrtuneError
from ortune.stats.detect import blocks_needed, more_blocks, reported_effect, smallest_effect
from ortune.stats.evidence import confidence_sequence, evidence_path
from ortune.stats.intervals import Interval
from ortune.stats.pairs import sign_flip, sign_flip_interval, wilcoxon


def simulated_effect(found, scale, near):
    """The shift with 80 % power, by interpolating the share found at a few shifts (log units)."""
    shifts = math.log1p(near) * np.array([0.7, 0.85, 1.0, 1.15, 1.3])
    powers = [found(shift) for shift in shifts]
    assert powers[0] < 0.8 < powers[-1]
    return math.expm1(float(np.interp(0.8, powers, shifts)))


@pytest.mark.parametrize("n", [14, 24, 60, 150])
@pytest.mark.parametrize("prior", [None, 0.02])
def test_the_sequence_sees_what_the_closed_form_says(n, prior):
    noise = np.random.default_rng(n).normal(0.0, 0.02, (700, n))
    predicted = smallest_effect(0.02, n, prior_scale=prior)

    def found(shift):
        return (evidence_path(noise + shift, 0.0, prior)[:, -1] >= math.log(20)).mean()

    assert simulated_effect(found, 0.02, predicted) == pytest.approx(predicted, rel=0.15)


@pytest.mark.parametrize(("method", "test"), [("wilcoxon", wilcoxon), ("sign-flip", sign_flip)])
@pytest.mark.parametrize("n", [6, 9, 16])
def test_the_exact_tests_see_what_the_closed_form_says(method, test, n):
    noise = np.random.default_rng(n).normal(0.0, 0.02, (500, n))
    predicted = smallest_effect(0.02, n, method=method)

    def found(shift):
        return np.mean([test(row + shift) <= 0.05 for row in noise])

    assert simulated_effect(found, 0.02, predicted) == pytest.approx(predicted, rel=0.15)


def test_too_few_blocks_can_see_nothing():
    assert smallest_effect(0.01, 7) == math.inf
    assert smallest_effect(0.01, 5, method="wilcoxon") == math.inf
    assert smallest_effect(0.01, 5, method="sign-flip") == math.inf
    assert smallest_effect(0.01, 6, method="sign-flip") < 0.05


@pytest.mark.parametrize("method", ["sequence", "wilcoxon", "sign-flip"])
def test_more_blocks_less_noise_and_less_power_make_smaller_effects_visible(method):
    effects = [smallest_effect(0.02, n, method=method) for n in (14, 20, 40, 59, 61, 200)]
    assert effects == sorted(effects, reverse=True)
    assert smallest_effect(0.01, 40, method=method) < smallest_effect(0.02, 40, method=method)
    assert smallest_effect(0.02, 40, power=0.5, method=method) < smallest_effect(0.02, 40, method=method)
    assert smallest_effect(0.02, 40, 0.1, method=method) < smallest_effect(0.02, 40, 0.01, method=method)


@pytest.mark.parametrize("method", ["sequence", "wilcoxon", "sign-flip"])
@pytest.mark.parametrize("effect", [0.2, 0.05, 0.01, -0.01])
def test_blocks_needed_inverts_smallest_effect(method, effect):
    n = blocks_needed(0.02, effect, method=method)
    assert n is not None
    assert (
        smallest_effect(0.02, n, method=method) <= abs(effect) < smallest_effect(0.02, n - 1, method=method)
    )


def test_blocks_needed_gives_up_in_words():
    assert blocks_needed(0.1, 1e-5) is None
    assert blocks_needed(0.1, 0.0) is None
    assert blocks_needed(0.02, 0.01, most=10) is None


def test_a_silent_machine_still_has_a_scale():
    assert 0.0 < smallest_effect(0.0, 20) < 0.02


def test_more_blocks_says_about_how_many_are_missing():
    rng = np.random.default_rng(4)
    d = rng.normal(0.012, 0.02, 400)
    missing = more_blocks(d[:20], confidence_sequence(d[:20]))
    assert missing is not None
    assert 10 < missing < 400
    for known in (rng.normal(0.0, 0.003, 60), rng.normal(0.2, 0.003, 60)):  # equivalent, and slower, by now
        assert more_blocks(known, confidence_sequence(known)) == 0
    assert more_blocks([0.1], confidence_sequence([0.1])) is None  # one block says nothing of its scale


def test_outliers_that_widen_an_interval_are_in_the_forecast():
    """Most blocks agree, and some lie far out: a robust scale alone says that the answer is there already."""
    d = np.array([0.02, 0.021, 0.019, 0.02, 0.35, 0.022, -0.4, 0.018, 0.02])
    interval = sign_flip_interval(d)
    assert interval.low < -0.03 and interval.high > 0.05
    missing = more_blocks(d, interval, method="sign-flip")
    assert missing is None or missing > 9


@pytest.mark.parametrize("seen", [0.1, -0.05, 0.02])
def test_a_gate_promises_no_answer_from_a_difference_that_noise_made(seen):
    """A limit of 5 % needs an interval of about that half-width, whatever nine noisy blocks happen to show."""
    d = np.random.default_rng(7).normal(0.0, 0.35, 9)
    d += seen - np.median(d)
    interval = sign_flip_interval(d)
    missing = more_blocks(d, interval, method="sign-flip", limit=0.05)
    assert missing is None or missing > 100
    sure = np.random.default_rng(7).normal(0.2, 0.02, 12)
    assert more_blocks(sure, sign_flip_interval(sure), method="sign-flip", limit=0.05) == 0


def test_bad_input_gives_one_clear_error():
    for bad in ((-1.0, 9), (math.nan, 9), (0.1, 0)):
        with pytest.raises(OrtuneError, match="smallest effect"):
            smallest_effect(*bad)


def test_an_effect_is_never_said_to_be_seen_that_the_interval_could_not_show() -> None:
    wide = Interval(low=-0.05, centre=0.0, high=0.15, level=0.95)
    found = reported_effect(0.01, wide)
    assert found is not None
    assert 0.10 <= found <= 0.11
    assert reported_effect(0.3, wide) == 0.3
    assert reported_effect(math.inf, wide) is None
    assert reported_effect(0.01, Interval(low=-math.inf, centre=0.0, high=math.inf, level=0.95)) is None
