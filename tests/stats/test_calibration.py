from __future__ import annotations

import math

import numpy as np
import pytest

from ortune.errors import OrtuneError
from ortune.stats.calibration import choose_statistic, guard, identical_control, late_control, spike_control
from ortune.stats.multiplicity import holm
from ortune.stats.warmup import runs_per_trial

NOISE = np.array([0.011, -0.008, 0.004, -0.013, 0.009, 0.002, -0.005, 0.007, -0.006])


def test_identical_control_fails_only_on_strong_evidence():
    sound = identical_control(NOISE)
    assert sound.ok and sound.p is not None and sound.p > 0.5
    assert sound.ratio_low is not None and sound.ratio_low < 1.0 < sound.ratio_high
    one_against = np.append(np.full(8, 0.02), -0.001)
    assert identical_control(one_against).p == pytest.approx(4 / 512)
    assert not identical_control(one_against).ok
    assert late_control(one_against).ok  # 0.0078 is no surprise at 0.001
    assert not late_control(np.full(12, 0.02)).ok
    assert late_control(one_against).name == "identical-late"


def test_spike_control_finds_the_recorded_wait():
    control = spike_control(NOISE + math.log(1.05), math.log(1.05))
    assert control.ok and control.detected
    assert control.expected_ratio == pytest.approx(1.05)
    assert control.ratio_low < 1.05 < control.ratio_high


def test_a_wait_beside_other_callers_may_cost_more_than_itself_and_not_less():
    dearer = [0.27, 0.22, 0.31, 0.27, 0.34, 0.18, 0.25, 0.29, 0.26]
    assert not spike_control(dearer, 0.054).ok
    assert spike_control(dearer, 0.054, alone=False).ok
    assert not spike_control([d - 0.27 for d in dearer], 0.5, alone=False).ok


def test_spike_control_uses_the_wait_of_each_block():
    waits = np.linspace(0.0, 0.5, 9)
    assert spike_control(NOISE + waits, waits).ok
    assert spike_control(NOISE + waits, waits).expected_ratio == pytest.approx(math.exp(0.25))


def test_a_wait_that_is_not_seen_is_not_invalid():
    control = spike_control(20 * NOISE + math.log(1.02), math.log(1.02))
    assert control.ok and control.detected is False


def test_a_wait_that_comes_out_wrong_is_invalid():
    assert not spike_control(NOISE, math.log(1.05)).ok
    assert not spike_control(NOISE + math.log(1.15), math.log(1.05)).ok


def test_a_quiet_machine_is_not_invalid_for_what_the_wait_itself_disturbs():
    quiet = 0.01 * NOISE + math.log(1.05)
    assert spike_control(quiet + 0.004, math.log(1.05)).ok
    assert not spike_control(quiet + 0.004, math.log(1.05), slack=0.0).ok
    assert not spike_control(quiet + 0.006, math.log(1.05)).ok
    assert not spike_control(quiet - 0.006, math.log(1.05)).ok


def test_the_usual_statistic_stays_unless_another_is_clearly_steadier():
    assert choose_statistic({"paired": NOISE, "p10": 0.9 * NOISE}) == "paired"
    assert choose_statistic({"paired": NOISE, "p10": 0.5 * NOISE}) == "p10"
    assert choose_statistic({"paired": NOISE, "p10": 0.6 * NOISE, "mean": 0.4 * NOISE}) == "mean"
    assert choose_statistic({"cpu": NOISE}) == "cpu"


def test_guards_fail_only_wholly_above_their_limit():
    assert not guard("mean", NOISE).failed
    beyond = guard("mean", NOISE + math.log(1.1))
    assert beyond.failed and beyond.ratio_low > beyond.limit_ratio == 1.05
    assert not guard("mean", NOISE + math.log(1.055)).failed  # perhaps above, not surely
    assert not guard("cpu", NOISE + math.log(1.1)).failed
    assert guard("cpu", NOISE + math.log(1.3)).failed
    assert not guard("p95", NOISE - 0.5).failed


def test_the_memory_guard_allows_16_mb():
    doubled = np.full(9, math.log(2.0))
    assert guard("memory", doubled).failed
    assert guard("memory", doubled, base_bytes=1e9).failed
    small = guard("memory", doubled, base_bytes=10e6)
    assert not small.failed and small.limit_ratio == pytest.approx(2.6)
    assert guard("memory", doubled, base_bytes=1e9).limit_ratio == 1.10


def test_too_few_blocks_make_a_guard_not_known():
    for d in (None, [], NOISE[:5] + 1.0):
        answer = guard("p95", d)
        assert not answer.known and not answer.failed and answer.ratio is None
        assert answer.note.startswith("not known")
    assert guard("p95", NOISE[:6]).known


def test_holm_adjusts_step_by_step():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx((0.03, 0.06, 0.06))
    assert holm([0.9, 0.5]) == (1.0, 1.0)
    assert holm([]) == ()
    with pytest.raises(OrtuneError, match="p-values"):
        holm([1.2])


def test_runs_per_trial_is_kalibera_jones():
    costs = {"cost_process_ns": 1e9, "cost_run_ns": 1e6, "low": 5, "high": 100}
    assert runs_per_trial(**costs, var_within=1.0, var_between=1.0) == 31  # sqrt(1000)
    assert runs_per_trial(**costs, var_within=1.0, var_between=100.0) == 5
    assert runs_per_trial(**costs, var_within=100.0, var_between=1.0) == 100
    assert runs_per_trial(**costs, var_within=1.0, var_between=-0.1) == 100
    assert runs_per_trial(**costs, var_within=0.0, var_between=0.0) == 5
    with pytest.raises(OrtuneError, match="runs_per_trial"):
        runs_per_trial(**costs | {"cost_run_ns": 0.0}, var_within=1.0, var_between=1.0)
