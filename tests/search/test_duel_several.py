"""Several sides in the same blocks: each is decided by itself, and all share one error."""

from __future__ import annotations

import numpy as np
import pytest
from duel_machine import TRIAL_NS, Machine, design, fight, rules

from ortune.errors import MeasurementError
from ortune.search import duel
from ortune.search.blocks import BASE, NEW
from ortune.stats import evidence

THREE = (NEW, "new-c", "new-d")


def test_a_sequence_that_the_clock_ends_before_it_could_speak_is_told_by_an_exact_test() -> None:
    """Of three sides each has a third of the error, and the evidence needs ten blocks."""
    machine = Machine(5, dict.fromkeys(THREE, 0.8))
    r = rules(budget_ns=9 * 6 * TRIAL_NS + 36 * TRIAL_NS)
    plan = design(machine.trial_ns, r, n_new=3)
    assert plan.sequential

    def slower(state: duel.Duel) -> None:
        machine.trial_ns = 2 * TRIAL_NS

    state = fight(machine, r, arms=THREE, on_block=slower)
    found = state.conclude_all()
    assert state.ended == "budget"
    assert [found[arm].n_blocks for arm in THREE] == [8, 8, 8]
    assert machine.now <= r.budget_ns
    assert {(c.method, c.verdict) for c in found.values()} == {("sign-flip", "faster")}


def test_thirteen_sides_get_the_ten_blocks_that_each_needs() -> None:
    budget_ns = 10 * (13 + 3) * TRIAL_NS
    assert duel.least_blocks(rules().share(13)) == 10
    assert design(TRIAL_NS, rules(budget_ns=budget_ns), n_new=13).n_blocks == 10


def test_several_sides_stand_in_the_same_blocks_until_each_is_decided() -> None:
    machine = Machine(1, {NEW: 0.7, "new-c": 1.02, "new-d": 1.3}, noise=0.02)
    state = fight(machine, rules(budget_ns=600_000_000_000), arms=THREE)
    assert all({t.arm for t in b.trials} >= {BASE, *THREE} for b in state.blocks[:9])
    found = state.conclude_all()
    assert [found[arm].verdict for arm in THREE] == ["faster", "slower", "slower"]
    # What is decided first is not measured any longer.
    assert found[NEW].n_blocks < found["new-c"].n_blocks > found["new-d"].n_blocks
    assert not any(t.arm == NEW for t in state.blocks[-1].trials)
    assert all(c.level == pytest.approx(1 - 0.05 / 3) for c in found.values())


@pytest.mark.parametrize("n", [pytest.param(20, marks=pytest.mark.long), 5])
def test_among_several_equal_sides_hardly_any_is_told_apart(n: int) -> None:
    wrong = invalid = 0
    for seed in range(n):
        machine = Machine(seed, {"new-c": 1.0, "new-d": 1.0}, noise=0.03)
        try:
            state = fight(machine, rules(), seed, arms=THREE)
        except MeasurementError:
            invalid += 1
            continue
        found = state.conclude_all()
        wrong += any(c.verdict in ("faster", "slower") for c in found.values())
    assert wrong <= n / 10
    assert invalid <= 1


def test_once_one_side_is_proven_holm_tests_the_next_at_more_of_the_error() -> None:
    plan = duel.Design(sequential=True, n_blocks=60)
    state = duel.Duel(rules=rules(), design=plan, arms=(NEW, "new-c"), prior_scale=0.02)
    rng = np.random.default_rng(5)
    # The evidence against "no difference" of the second lies between the two limits, 1 / 0.025 and 1 / 0.05.
    series = {NEW: rng.normal(-0.3, 0.01, 20), "new-c": np.tile([0.012, 0.03, 0.002, 0.022, -0.012], 6)[:15]}
    n = next(
        n for n in range(10, 200)
        if 0.025 < np.exp(-evidence.log_evidence(np.resize(series["new-c"], n), 0.0, 0.02)) <= 0.05
    )  # fmt: skip
    series["new-c"] = np.resize(series["new-c"], n)
    state._series = {(arm, "median", 0): (0, d) for arm, d in series.items()}
    found = state.conclude_all()
    assert (found[NEW].verdict, found["new-c"].verdict) == ("faster", "slower")
    assert found[NEW].level == pytest.approx(0.975)
    assert found["new-c"].level == pytest.approx(0.95)
    assert found["new-c"].ratio_low > 1
    # Beside one that shows nothing it stays undecided.
    state._series[NEW, "median", 0] = (0, rng.normal(0.0, 0.05, 20))
    found = state.conclude_all()
    assert found["new-c"].verdict == "inconclusive"


def test_a_side_that_keeps_failing_leaves_the_others_their_blocks() -> None:
    machine = Machine(9, {NEW: 0.8, "new-c": 1.0, "new-d": 1.2})
    machine.fail = {"new-c": 99}
    state = fight(machine, rules(), arms=THREE)
    assert state.ended == "verdict"
    assert list(state.failed) == ["new-c"]
    assert not any(b.dropped for b in state.blocks)
    found = state.conclude_all()
    assert {arm: c.verdict for arm, c in found.items()} == {NEW: "faster", "new-d": "slower"}
    # It counts among those that were tested.
    assert all(c.level == pytest.approx(1 - 0.05 / 3) for c in found.values())


@pytest.mark.parametrize(("n_new", "least"), [(1, 6), (2, 7), (3, 7), (4, 8), (7, 9)])
def test_more_sides_need_more_blocks_for_an_exact_test(n_new: int, least: int) -> None:
    assert duel.least_blocks(rules().share(n_new)) == least
    full_ns = (n_new + 3) * TRIAL_NS
    enough = design(TRIAL_NS, rules(budget_ns=least * full_ns), n_new=n_new)
    assert enough == duel.Design(sequential=False, n_blocks=least)
    fewer = design(TRIAL_NS, rules(budget_ns=least * full_ns - 1), n_new=n_new)
    assert not fewer.controlled
    assert fewer.n_blocks >= least


def test_a_gate_of_several_sides_ends_with_an_interval_of_each() -> None:
    r = rules(threshold_ratio=0.5)
    state = fight(Machine(18, {"new-c": 0.99, "new-d": 1.01}), r, arms=THREE)
    found = state.conclude_all()
    assert [state.gate(arm=arm).answer for arm in THREE] == ["pass"] * 3
    assert all(c.ratio_high is not None for c in found.values())
