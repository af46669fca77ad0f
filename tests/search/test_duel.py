"""The comparison's schedule and verdicts, with a fake executor and a clock that only moves when a trial runs."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from duel_machine import TRIAL_NS, Machine, design, fight, rules

from ortune.errors import Interrupted, MeasurementError
from ortune.search import duel
from ortune.search.blocks import BASE, IDENTICAL, NEW, SPIKE, log_ratios
from ortune.search.sequential import Sequential


@pytest.mark.parametrize("n", [pytest.param(40, marks=pytest.mark.long), 10])
def test_equal_sides_are_hardly_ever_told_apart(n: int) -> None:
    claims = Counter()
    for seed in range(n):
        machine = Machine(seed, {}, noise=0.03)
        try:
            state = fight(machine, rules(), seed)
        except (
            MeasurementError
        ):  # the identical control fails once in a hundred calibrations, twice hardly ever
            claims["invalid"] += 1
            continue
        claims[state.conclude().verdict] += 1
    assert claims["faster"] + claims["slower"] <= n / 20
    assert claims["invalid"] <= 1


@pytest.mark.parametrize(("factor", "verdict"), [(0.9, "faster"), (1.1, "slower")])
def test_a_tenth_is_found_with_the_right_sign(factor: float, verdict: str) -> None:
    machine = Machine(1, {NEW: factor})
    state = fight(machine, rules())
    found = state.conclude()
    assert (state.ended, found.verdict) == ("verdict", verdict)
    assert found.ratio_high is not None
    assert found.ratio_low < factor < found.ratio_high
    assert found.n_blocks < 30


def test_no_noise_ends_as_equivalent_and_names_what_would_have_been_seen() -> None:
    state = fight(Machine(2, {}, noise=0.002), rules())
    found = state.conclude()
    assert found.verdict == "equivalent"
    assert found.smallest_effect_ratio is not None
    assert 0 < found.smallest_effect_ratio < 0.02


@pytest.mark.parametrize("seed", range(8))
def test_equivalent_is_said_as_soon_as_the_interval_lies_inside(seed: int) -> None:
    state = fight(Machine(seed, {}, noise=0.01), rules())
    found = state.conclude()
    if found.verdict == "equivalent":
        assert 0.99 <= found.ratio_low < found.ratio_high <= 1.01
        del state.blocks[-1:]
        fewer = replace(state, ended="", _series={})
        assert len(state.blocks) < 9 or not fewer.decided()
    else:
        assert state.ended in ("blocks", "verdict")


def test_the_budget_is_kept() -> None:
    machine = Machine(3, {}, noise=0.05)
    state = fight(machine, rules(budget_ns=40_000_000_000))
    assert state.ended == "budget"
    assert machine.now <= 40_000_000_000


def test_never_more_than_the_blocks_allowed() -> None:
    machine = Machine(4, {}, noise=0.05, trial_ns=1_000_000)
    state = fight(machine, rules(max_blocks=20))
    assert state.ended in ("blocks", "verdict")
    assert len(log_ratios(state.blocks, NEW, state.statistic)) <= 20


def test_dear_trials_get_a_fixed_number_of_blocks_and_an_exact_test() -> None:
    machine = Machine(5, {NEW: 0.8}, trial_ns=4_000_000_000)
    r = rules()
    plan = design(machine.trial_ns, r)
    assert plan == duel.Design(sequential=False, n_blocks=7)
    state = fight(machine, r)
    found = state.conclude()
    assert (found.method, found.verdict, found.n_blocks) == ("sign-flip", "faster", 7)
    assert found.p is not None
    assert found.p < 0.05


def test_six_blocks_are_enough_for_an_exact_test_where_no_more_are_allowed() -> None:
    assert design(1_000_000, rules(max_blocks=6)) == duel.Design(sequential=False, n_blocks=6)
    machine = Machine(7, {NEW: 0.8}, trial_ns=1_000_000)
    r = rules(max_blocks=6)
    found = fight(machine, r).conclude()
    assert (found.method, found.verdict, found.n_blocks) == ("sign-flip", "faster", 6)


@pytest.mark.parametrize(("budget_s", "n_blocks"), [(32, 5), (20, 3), (1, 1)])
def test_a_budget_that_holds_no_test_tells_figures_and_claims_nothing(budget_s: int, n_blocks: int) -> None:
    machine = Machine(0, {NEW: 0.5}, trial_ns=3_000_000_000)
    r = rules(budget_ns=budget_s * 1_000_000_000, threshold_ratio=0.05)
    plan = design(machine.trial_ns, r)
    assert plan == duel.Design(sequential=False, n_blocks=n_blocks, controlled=False)
    state = fight(machine, r)
    found = state.conclude()
    assert (found.verdict, found.n_blocks) == ("inconclusive", n_blocks)
    assert (found.ratio_low, found.ratio_high, found.smallest_effect_ratio) == (0, None, None)
    assert found.ratio == pytest.approx(0.5, rel=0.1)
    assert found.more_blocks == 6 - n_blocks
    gate = state.gate()
    assert (gate.answer, gate.reason) == ("no-answer", "too-few-blocks")
    assert not state.controls


@pytest.mark.parametrize(
    ("budget_s", "trial_s", "n_blocks"), [(20, 20, 0), (60, 35, 1), (60, 41, 0), (5, 7, 1)]
)
def test_one_block_may_end_late_by_a_part_of_the_budget_and_no_more(
    budget_s: int, trial_s: int, n_blocks: int
) -> None:
    r = rules(budget_ns=budget_s * 1_000_000_000, threshold_ratio=0.05)
    plan = design(trial_s * 1e9, r)
    assert plan == duel.Design(sequential=False, n_blocks=n_blocks, controlled=False)
    machine = Machine(0, {NEW: 0.5}, trial_ns=trial_s * 1_000_000_000)
    state = fight(machine, r, plan=plan)
    assert len(state.blocks) == n_blocks
    assert bool(state.conclude_all()) == bool(n_blocks)
    assert state.gate().answer == "no-answer"


def test_a_budget_that_is_spent_before_the_first_block_holds_one_that_is_short() -> None:
    r = rules(budget_ns=20_000_000_000, threshold_ratio=0.05)
    plan = design(4e9, r, spent_ns=21e9)
    assert plan == duel.Design(sequential=False, n_blocks=1, controlled=False)
    machine = Machine(0, {NEW: 0.5})
    machine.now = r.budget_ns + 1
    state = fight(machine, r, schedule=Sequential(r, plan))
    assert len(state.blocks) == 1
    gate = state.gate()
    assert (gate.answer, gate.reason) == ("no-answer", "too-few-blocks")


@pytest.mark.parametrize(
    ("factor", "verdict", "answer"), [(0.5, "faster", "no-answer"), (1.5, "slower", "fail")]
)
def test_controls_are_left_out_before_blocks_are_and_then_nothing_passes(
    factor: float, verdict: str, answer: str
) -> None:
    machine = Machine(0, {NEW: factor}, trial_ns=6_000_000_000)
    r = rules(budget_ns=120_000_000_000, threshold_ratio=0.05)
    plan = design(machine.trial_ns, r)
    assert plan == duel.Design(sequential=False, n_blocks=10, controlled=False)
    state = fight(machine, r)
    found, gate = state.conclude(), state.gate()
    assert (found.verdict, found.n_blocks, state.controls) == (verdict, 10, [])
    assert (gate.answer, gate.reason) == (answer, "controls-not-run" if answer == "no-answer" else "")


@pytest.mark.parametrize(("said_ns", "arms"), [(12_000_000_000, (NEW,)), (9_000_000_000, (NEW, "new-c"))])
def test_time_that_is_left_is_used_up_to_the_fewest_blocks_of_a_claim(
    said_ns: int, arms: tuple[str, ...]
) -> None:
    machine = Machine(0, dict.fromkeys(arms, 0.5), trial_ns=2_000_000_000)
    r = rules(budget_ns=60_000_000_000)
    plan = design(said_ns, r, n_new=len(arms))
    assert plan.n_blocks == 2
    state = fight(machine, r, plan=plan, arms=arms)
    found = state.conclude_all()
    assert machine.now <= r.budget_ns
    assert {c.verdict for c in found.values()} == {"faster"}
    assert {c.n_blocks for c in found.values()} == {duel.least_blocks(r.share(len(arms)))}


@pytest.mark.parametrize(
    ("times", "n_blocks", "controls", "verdict"),
    [(1.5, 6, 2, "faster"), (2.5, 6, 0, "faster"), (6, 2, 0, "inconclusive"), (40, 1, 0, "inconclusive")],
)
def test_blocks_that_are_dearer_than_was_said_keep_to_the_budget(
    times: float, n_blocks: int, controls: int, verdict: str
) -> None:
    """First the number of blocks goes, then the controls, then the claim."""
    machine = Machine(0, {NEW: 0.5}, trial_ns=int(times * TRIAL_NS))
    r = rules(budget_ns=9 * 4 * TRIAL_NS, threshold_ratio=0.05)
    plan = design(TRIAL_NS, r)
    assert plan == duel.Design(sequential=False, n_blocks=9)
    schedule = Sequential(r, plan)
    state = fight(machine, r, schedule=schedule)
    found = state.conclude()
    assert (found.n_blocks, len(state.controls), found.verdict) == (n_blocks, controls, verdict)
    assert state.design.controlled == bool(controls)
    assert machine.now <= max(r.budget_ns, 4 * machine.trial_ns)
    assert (state.gate().answer == "pass") == bool(controls)


def test_a_block_that_alone_took_long_does_not_cost_the_controls() -> None:
    machine = Machine(0, {NEW: 0.5})
    r = rules(budget_ns=15 * 4 * TRIAL_NS)

    def hiccup(state: duel.Duel) -> None:
        machine.now += 5 * 4 * TRIAL_NS if len(state.blocks) == 2 else 0

    schedule = Sequential(r, design(TRIAL_NS, r))
    state = fight(machine, r, schedule=schedule, on_block=hiccup)
    assert len(state.controls) == 2 and state.design.controlled
    assert machine.now <= r.budget_ns


def test_a_calibration_that_failed_is_not_repeated_without_time_for_it() -> None:
    machine = Machine(0, {IDENTICAL: 1.5, NEW: 0.5})
    r = rules(budget_ns=13 * 4 * TRIAL_NS)
    with pytest.raises(MeasurementError, match="no time is left"):
        fight(machine, r)
    assert machine.now == 9 * 4 * TRIAL_NS


def test_a_forecast_says_a_time_from_what_blocks_took() -> None:
    r = rules(budget_ns=20_000_000_000 + 9 * 4 * TRIAL_NS)
    state = fight(Machine(3, {NEW: 1.015}, noise=0.02), r)
    found = state.conclude()
    assert found.verdict == "inconclusive" and found.more_blocks
    assert found.more_s == pytest.approx(found.more_blocks * 2 * TRIAL_NS / 1e9)


def test_arms_come_in_random_order_and_are_adjacent() -> None:
    machine = Machine(6, {}, noise=0.03)
    state = fight(machine, rules())
    first = Counter(block.trials[0].arm for block in state.blocks if len(block.trials) == 2)
    assert first[BASE] > 3
    assert first[NEW] > 3
    flat = [trial.arm for block in state.blocks for trial in block.trials]
    assert flat == machine.calls


def test_one_block_in_ten_carries_a_late_control() -> None:
    state = fight(Machine(7, {}, noise=0.05), rules())
    late = [b for b in state.blocks if b.phase == "race" and any(t.arm == IDENTICAL for t in b.trials)]
    assert len(late) == sum(1 for b in state.blocks if b.phase == "race" and b.index % 10 == 0)
    assert any(c.name == "identical-late" and c.ok for c in state.controls)


def test_a_failed_trial_drops_its_whole_block_and_is_counted() -> None:
    machine = Machine(8, {NEW: 0.9})
    machine.fail = {NEW: 1}
    state = fight(machine, rules())
    found = state.conclude()
    assert found.n_dropped == 1
    assert found.verdict == "faster"


def test_a_new_side_that_keeps_failing_ends_it_with_the_reason() -> None:
    machine = Machine(9, {})
    machine.fail = {NEW: 99}
    state = fight(machine, rules())
    assert state.ended == "failed"
    assert state.failed[NEW].reason == "crash"


def test_a_base_that_keeps_failing_is_an_error() -> None:
    machine = Machine(10, {})
    machine.fail = {BASE: 99}
    with pytest.raises(MeasurementError, match="SIGSEGV"):
        fight(machine, rules())


def test_controls_that_fail_twice_leave_no_verdict() -> None:
    with pytest.raises(MeasurementError, match="invalid"):
        fight(Machine(11, {IDENTICAL: 1.2}), rules())
    with pytest.raises(MeasurementError, match="invalid"):
        fight(Machine(12, {SPIKE: 1.2}), rules())


def test_controls_that_fail_once_are_not_said_to_have_failed_twice() -> None:
    r = rules(budget_ns=9 * 4 * TRIAL_NS)  # nine blocks with their controls, and no time for others
    with pytest.raises(MeasurementError, match="no time is left") as raised:
        fight(Machine(11, {IDENTICAL: 1.2}), r)
    assert "twice" not in raised.value.what and "--budget" in raised.value.do


def test_a_calibration_that_fails_once_is_repeated_on_fresh_blocks() -> None:
    machine = Machine(13, {IDENTICAL: 1.3, NEW: 0.9})

    def mended(state: duel.Duel) -> None:
        if len(state.blocks) == 9:
            machine.factors[IDENTICAL] = 1.0

    state = fight(machine, rules(), on_block=mended)
    found = state.conclude()
    assert found.n_dropped == 9
    assert found.verdict == "faster"
    assert state.calibrations == 2


def test_a_stop_before_the_controls_tells_nothing() -> None:
    machine = Machine(14, {})
    with pytest.raises(Interrupted):
        fight(machine, rules(), stop=lambda: len(machine.calls) >= 10)


def test_a_stop_later_keeps_what_is_known() -> None:
    machine = Machine(15, {}, noise=0.05)
    state = fight(machine, rules(), stop=lambda: len(machine.calls) >= 50)
    assert state.ended == "stopped"
    assert len(log_ratios(state.blocks, NEW, state.statistic)) >= 9


@pytest.mark.parametrize(("factor", "answer"), [(1.15, "fail"), (1.0, "pass"), (0.9, "pass")])
def test_the_gate_answers(factor: float, answer: str) -> None:
    r = rules(threshold_ratio=0.05)
    state = fight(Machine(16, {NEW: factor}), r)
    assert state.gate().answer == answer


def test_a_regression_at_the_threshold_stays_undecided() -> None:
    r = rules(threshold_ratio=0.05)
    state = fight(Machine(17, {NEW: 1.05}, noise=0.03), r)
    answer = state.gate("fail")
    assert answer.answer == "undecided"
    assert answer.undecided_counts_as == "fail"
    assert answer.provable_ratio is not None


@pytest.mark.parametrize("n", [pytest.param(30, marks=pytest.mark.long), 7])
def test_the_gate_cries_on_equal_sides_less_than_once_in_twenty(n: int) -> None:
    r = rules(threshold_ratio=0.02)
    fails = 0
    for seed in range(n):
        try:
            state = fight(Machine(100 + seed, {NEW: 1.02}, noise=0.03), r, seed)
        except MeasurementError:
            continue
        fails += state.gate().answer == "fail"
    assert fails <= n / 7
