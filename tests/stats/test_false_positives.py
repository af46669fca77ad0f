"""The calibration of the whole method: false positives, power and coverage, simulated and recorded."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from streams import KINDS

from ortune.stats.calibration import (
    choose_statistic,
    identical_control,
    late_control,
    null_scale,
    spike_control,
)
from ortune.stats.evidence import confidence_sequence, evidence_path
from ortune.stats.intervals import robust_scale
from ortune.stats.pairs import sign_flip, wilcoxon, wilcoxon_interval

LIMIT = math.log(1 / 0.05)

# Share of 600 streams with a shift of 2 % that is found by block 20, 40 and 80. A change that finds a tenth
# fewer has lost power that users pay for in minutes.
POWER = {
    "normal": (0.485, 0.993, 1.0),
    "cauchy": (0.432, 0.91, 1.0),
    "drifting_volatility": (0.537, 0.878, 0.95),
    "bursts": (0.59, 0.975, 1.0),
    "ties": (1.0, 1.0, 1.0),
    "level_drift": (0.712, 0.998, 1.0),
    "contention": (0.113, 0.45, 0.813),
}


def of_each_kind():
    for kind in KINDS:
        yield pytest.param((kind, 1000), id=kind)
        yield pytest.param((kind, 3000), id=f"{kind}, many", marks=pytest.mark.long)


@pytest.fixture(scope="module", params=of_each_kind())
def streams(request):
    """Streams of 200 blocks in which nothing differs: 1,000, or 3,000 where there is time."""
    kind, n = request.param
    rng = np.random.default_rng([7, list(KINDS).index(kind)])
    return kind, KINDS[kind](rng, (n, 200))


def at_most(share, n):
    """What a share of so many streams stays below but for one time in forty."""
    return share + 2 * math.sqrt(share * (1 - share) / n)


def test_watching_every_block_keeps_false_positives_below_5_percent(streams):
    _, d = streams
    rejected = evidence_path(d).max(axis=1) >= LIMIT
    assert 0.0 < rejected.mean() <= 0.05  # none at all would mean that the test has no power to speak of


def test_one_sided_watching_keeps_false_positives_below_5_percent(streams):
    _, d = streams
    assert (evidence_path(d[: len(d) // 3], above=True).max(axis=1) >= LIMIT).mean() <= 0.05


def test_a_true_shift_is_found_as_often_as_ever(streams):
    kind, d = streams
    found = evidence_path(d[:600, :100] + 0.02) >= LIMIT
    for blocks, before in zip((20, 40, 80), POWER[kind], strict=True):
        assert found[:, :blocks].any(axis=1).mean() >= 0.9 * before, blocks


def test_the_intervals_cover_the_truth(streams):
    _, d = streams
    sequence = [not confidence_sequence(row + 0.013).excludes(0.013) for row in d[: len(d) // 20, :40]]
    assert np.mean(sequence) >= 0.95
    exact = [not wilcoxon_interval(row + 0.013).excludes(0.013) for row in d[: len(d) // 3, 50:62]]
    assert np.mean(exact) >= 1 - at_most(0.05, len(exact))  # 95 % attained exactly


def test_exact_tests_reject_an_identical_plan_as_often_as_promised(streams):
    _, d = streams
    nine = d[: len(d) // 3, 100:109]
    for test in (sign_flip, wilcoxon):
        p = np.array([test(row) for row in nine])
        assert np.mean(p <= 0.05) <= at_most(0.05, len(p))
        assert np.mean(p <= 0.01) <= at_most(0.01, len(p))


def test_controls_of_a_sound_session_hold(streams):
    kind, d = streams
    nine = d[: len(d) // 6, 110:119]
    enough = min(0.98, 1 - at_most(0.01, len(nine)))
    assert np.mean([identical_control(row).ok for row in nine]) >= enough
    wait = np.random.default_rng(1).normal(0.0488, 0.001, nine.shape)
    held = [spike_control(r + w, w) for r, w in zip(nine, wait, strict=True)]
    assert np.mean([c.ok for c in held]) >= enough
    if kind in ("ties", "normal"):
        assert np.mean([c.detected for c in held]) >= 0.9


@pytest.fixture(scope="module")
def recorded():
    """Real A/A trials of ONNX Runtime on a busy machine; see ``record.py``."""
    arms = json.loads((Path(__file__).parent / "data" / "aa_perceptron.json").read_text())["arms"]
    base = {figure: np.array(values) for figure, values in arms["base"].items()}
    return {
        (arm, figure): np.log(np.array(arms[arm][figure]) / base[figure])
        for arm in ("twin", "spike")
        for figure in ("median_ns", "p10_ns", "mean_ns", "p95_ns")
    } | {("spike", "wait"): np.array(arms["spike"]["wait_log_ratio"])}


@pytest.mark.parametrize("figure", ["median_ns", "p10_ns", "mean_ns", "p95_ns"])
def test_recorded_identical_arms_are_told_apart_no_more_often_than_promised(recorded, figure):
    d = recorded["twin", figure]
    windows = np.stack([d[start : start + 50] for start in range(0, d.size - 49, 5)])
    assert len(windows) >= 20
    both = np.concatenate([windows, windows[:, ::-1]])
    assert (evidence_path(both).max(axis=1) >= LIMIT).mean() <= 0.05


def test_a_recorded_wait_of_5_percent_is_found_and_measured(recorded):
    d, wait = recorded["spike", "median_ns"], recorded["spike", "wait"]
    assert np.allclose(wait, np.log1p(0.05), atol=0.003)
    prior = robust_scale(recorded["twin", "median_ns"][:9])
    starts = range(0, d.size - 39, 10)
    paths = np.stack([evidence_path(d[s : s + 40], prior_scale=prior) for s in starts])
    assert (paths >= LIMIT).any(axis=1).all()
    covered = [not confidence_sequence(d[s : s + 40], 0.05, prior).excludes(np.log1p(0.05)) for s in starts]
    assert np.mean(covered) >= 0.9
    assert abs(wilcoxon_interval(d).centre - np.log1p(0.05)) < 0.01


def test_recorded_calibrations_of_nine_blocks_hold(recorded):
    twin, spike, wait = (
        recorded[key] for key in (("twin", "median_ns"), ("spike", "median_ns"), ("spike", "wait"))
    )
    nines = [slice(start, start + 9) for start in range(0, twin.size - 8, 9)]
    assert len(nines) >= 12
    assert all(identical_control(twin[nine]).ok for nine in nines)
    controls = [spike_control(spike[nine], wait[nine]) for nine in nines]
    assert all(control.ok for control in controls)
    assert sum(bool(control.detected) for control in controls) >= 0.5 * len(nines)
    assert late_control(twin).ok


def test_controls_catch_a_biased_machine(recorded):
    """What a fixed A-B order on a warming machine does: every second trial a little slower."""
    biased = recorded["twin", "median_ns"] + 0.2
    assert not identical_control(biased[:9]).ok
    assert not late_control(biased).ok
    lost_wait = spike_control(recorded["twin", "median_ns"][:9] - 0.3, np.full(9, np.log1p(0.05)))
    assert not lost_wait.ok


STREAMS = json.loads((Path(__file__).parent / "data" / "turns.json").read_text())
"""Blocks of identical plans whose processes took turns, recorded by ``benchmarks/evidence.py``: two models, quiet,
beside a neighbour that comes and goes, and with one core taken all the time."""


@pytest.mark.parametrize("stream", STREAMS, ids=lambda s: f"{s['model']}, {s['machine']}")
def test_recorded_turns_claim_nothing_whichever_statistic_calibration_chooses(stream):
    noise = {name: np.array(values) for name, values in stream["ratios"].items()}
    for sign in (1.0, -1.0):
        chosen = choose_statistic({name: sign * d[:9] for name, d in noise.items()})
        d, prior = sign * noise[chosen], null_scale(noise[chosen][:9])
        # As compare does: the blocks of the calibration count too.
        assert identical_control(d[:9]).ok
        assert (evidence_path(d, prior_scale=prior) < LIMIT).all()
        assert (evidence_path(d[::-1], prior_scale=prior) < LIMIT).all()


@pytest.mark.parametrize("effect", [0.05, -0.05])
def test_five_percent_is_found_in_recorded_turns_wherever_a_core_is_free_now_and_then(effect):
    for stream in STREAMS:
        noise = {name: np.array(values) for name, values in stream["ratios"].items()}
        chosen = choose_statistic({name: d[:9] for name, d in noise.items()})
        shifted = noise[chosen] + np.log1p(effect)
        found = (evidence_path(shifted, prior_scale=null_scale(noise[chosen][:9])) >= LIMIT).any()
        assert found or (stream["model"], stream["machine"]) == ("minilm-int8", "one core taken")


def test_choosing_the_steadiest_statistic_on_the_blocks_that_count_claims_no_more():
    """Three correlated statistics of the same blocks, chosen by their spread in the first nine, all blocks counted."""
    rng = np.random.default_rng(11)
    claims = 0
    for _ in range(2000):
        common = rng.standard_normal(40)
        d = {
            n: 0.01 * (0.7 * common + w * rng.standard_t(3, 40))
            for n, w in (("a", 0.7), ("b", 0.5), ("c", 1.0))
        }
        chosen = choose_statistic({name: values[:9] for name, values in d.items()})
        path = evidence_path(d[chosen], prior_scale=null_scale(d[chosen][:9]))
        claims += bool((path >= LIMIT).any())
    assert claims / 2000 <= 0.02
