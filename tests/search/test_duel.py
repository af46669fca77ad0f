"""The comparison's schedule and verdicts, with a fake executor and a clock that only moves when a trial runs."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from groups import OneByOne
from ortune.errors import Interrupted, MeasurementError
from ortune.records import CaseTimes, Failed, Measured, Outcome, TrialDone
from ortune.search import duel
from ortune.search.blocks import BASE, IDENTICAL, NEW, SPIKE, log_ratios

TRIAL_NS = 500_000_000
RUN_NS = 5_000_000


class Machine(OneByOne):
    """Runs trials of arms whose latencies are the given factors, with noise between and within processes."""

    def __init__(
        self, seed: int, factors: dict[str, float], *, noise: float = 0.01, trial_ns: int = TRIAL_NS
    ) -> None:
        self.rng = np.random.default_rng(seed)
        self.factors = {BASE: 1.0, NEW: 1.0, IDENTICAL: 1.0, SPIKE: 1.0} | factors
        self.noise = noise
        self.trial_ns = trial_ns
        self.now = 0
        self.calls: list[str] = []
        self.fail: dict[str, int] = {}

    def clock(self) -> int:
        return self.now

    def trial(self, arm: str) -> Outcome:
        self.now += self.trial_ns
        self.calls.append(arm)
        if self.fail.get(arm, 0) > 0:
            self.fail[arm] -= 1
            return Failed(plan=arm, reason="crash", what="killed by SIGSEGV while running", phase="running")
        level = RUN_NS * self.factors[arm] * np.exp(self.noise * self.rng.standard_normal())
        runs = level * np.exp(0.02 * np.abs(self.rng.standard_normal(20)))
        waits = runs * 0.05 if arm == SPIKE else np.zeros(0)
        total = runs + waits if arm == SPIKE else runs
        case = CaseTimes(
            case="x",
            weight=1.0,
            latency_ns=tuple(int(v) for v in total),
            first_ns=RUN_NS,
            waits_ns=tuple(int(v) for v in waits),
        )
        done = TrialDone(
            load_ns=RUN_NS,
            cases=(case,),
            cpu_ns=int(total.sum()),
            wall_ns=int(total.sum()),
            n_runs=20,
            peak_bytes=10**8,
        )
        return Measured(plan=arm, done=done, elapsed_ns=self.trial_ns)


def fight(machine: Machine, rules: duel.Rules, seed: int = 0, **more: object) -> duel.Duel:
    plan = duel.design(machine.trial_ns, rules)
    assert plan is not None
    return duel.run(machine, rules, plan, rng=random.Random(seed), clock=machine.clock, **more)  # type: ignore[arg-type]


def rules(**changes: object) -> duel.Rules:
    return duel.Rules(**({"budget_ns": 120_000_000_000} | changes))  # type: ignore[arg-type]


def test_equal_sides_are_hardly_ever_told_apart() -> None:
    claims = Counter()
    for seed in range(40):
        machine = Machine(seed, {}, noise=0.03)
        try:
            state = fight(machine, rules(), seed)
        except (
            MeasurementError
        ):  # the identical control fails once in a hundred calibrations, twice hardly ever
            claims["invalid"] += 1
            continue
        claims[duel.conclude(state, rules(), duel.Design(sequential=True, n_blocks=60)).verdict] += 1
    assert claims["faster"] + claims["slower"] <= 2
    assert claims["invalid"] <= 1


@pytest.mark.parametrize(("factor", "verdict"), [(0.9, "faster"), (1.1, "slower")])
def test_a_tenth_is_found_with_the_right_sign(factor: float, verdict: str) -> None:
    machine = Machine(1, {NEW: factor})
    state = fight(machine, rules())
    found = duel.conclude(state, rules(), duel.Design(sequential=True, n_blocks=60))
    assert (state.ended, found.verdict) == ("verdict", verdict)
    assert found.ratio_high is not None
    assert found.ratio_low < factor < found.ratio_high
    assert found.n_blocks < 30


def test_no_noise_ends_as_equivalent_and_names_what_would_have_been_seen() -> None:
    state = fight(Machine(2, {}, noise=0.002), rules())
    found = duel.conclude(state, rules(), duel.Design(sequential=True, n_blocks=60))
    assert found.verdict == "equivalent"
    assert found.smallest_effect_ratio is not None
    assert 0 < found.smallest_effect_ratio < 0.01


@pytest.mark.parametrize("seed", range(8))
def test_no_difference_is_not_said_before_one_of_that_size_could_be_seen(seed: int) -> None:
    state = fight(Machine(seed, {}, noise=0.01), rules())
    found = duel.conclude(state, rules(), duel.Design(sequential=True, n_blocks=60))
    assert found.verdict != "equivalent" or state.ended != "verdict" or found.smallest_effect_ratio <= 0.01


def test_the_budget_is_kept() -> None:
    machine = Machine(3, {}, noise=0.05)
    state = fight(machine, rules(budget_ns=40_000_000_000))
    assert state.ended == "budget"
    assert machine.now <= 40_000_000_000


def test_never_more_than_the_blocks_allowed() -> None:
    machine = Machine(4, {}, noise=0.05, trial_ns=1_000_000)
    state = fight(machine, rules(max_blocks=20))
    assert state.ended in ("blocks", "verdict")
    assert len(log_ratios(state.blocks, NEW, state.estimand)) <= 20


def test_dear_trials_get_a_fixed_number_of_blocks_and_an_exact_test() -> None:
    machine = Machine(5, {NEW: 0.8}, trial_ns=4_000_000_000)
    r = rules()
    plan = duel.design(machine.trial_ns, r)
    assert plan == duel.Design(sequential=False, n_blocks=7)
    state = fight(machine, r)
    found = duel.conclude(state, r, plan)
    assert (found.method, found.verdict, found.n_blocks) == ("sign-flip", "faster", 7)
    assert found.p is not None
    assert found.p < 0.05


def test_six_blocks_are_enough_for_an_exact_test_where_no_more_are_allowed() -> None:
    assert duel.design(1_000_000, rules(max_blocks=6)) == duel.Design(sequential=False, n_blocks=6)
    machine = Machine(7, {NEW: 0.8}, trial_ns=1_000_000)
    r = rules(max_blocks=6)
    found = duel.conclude(fight(machine, r), r, duel.design(machine.trial_ns, r))
    assert (found.method, found.verdict, found.n_blocks) == ("sign-flip", "faster", 6)


def test_a_budget_that_holds_not_six_blocks_is_refused_beforehand() -> None:
    assert duel.design(6_000_000_000, rules()) is None


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
    found = duel.conclude(state, rules(), duel.Design(sequential=True, n_blocks=60))
    assert found.n_dropped == 1
    assert found.verdict == "faster"


def test_a_new_side_that_keeps_failing_ends_it_with_the_reason() -> None:
    machine = Machine(9, {})
    machine.fail = {NEW: 99}
    state = fight(machine, rules())
    assert state.ended == "failed"
    assert state.failed is not None
    assert state.failed.reason == "crash"


def test_a_base_that_keeps_failing_is_an_error() -> None:
    machine = Machine(10, {})
    machine.fail = {BASE: 99}
    with pytest.raises(MeasurementError, match="SIGSEGV"):
        fight(machine, rules())


def test_controls_that_fail_twice_leave_no_verdict() -> None:
    with pytest.raises(MeasurementError, match="no verdict"):
        fight(Machine(11, {IDENTICAL: 1.2}), rules())
    with pytest.raises(MeasurementError, match="no verdict"):
        fight(Machine(12, {SPIKE: 1.2}), rules())


def test_a_calibration_that_fails_once_is_repeated_on_fresh_blocks() -> None:
    machine = Machine(13, {IDENTICAL: 1.3, NEW: 0.9})

    def mended(state: duel.Duel, block: object) -> None:
        if len(state.blocks) == 9:
            machine.factors[IDENTICAL] = 1.0

    state = fight(machine, rules(), on_block=mended)
    found = duel.conclude(state, rules(), duel.Design(sequential=True, n_blocks=60))
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
    assert len(log_ratios(state.blocks, NEW, state.estimand)) >= 9


@pytest.mark.parametrize(("factor", "answer"), [(1.15, "fail"), (1.0, "pass"), (0.9, "pass")])
def test_the_gate_answers(factor: float, answer: str) -> None:
    r = rules(threshold_ratio=0.05)
    state = fight(Machine(16, {NEW: factor}), r)
    plan = duel.Design(sequential=True, n_blocks=60)
    assert duel.gate(state, r, plan).answer == answer


def test_a_regression_at_the_threshold_stays_undecided() -> None:
    r = rules(threshold_ratio=0.05)
    state = fight(Machine(17, {NEW: 1.05}, noise=0.03), r)
    answer = duel.gate(state, r, duel.Design(sequential=True, n_blocks=60), "fail")
    assert answer.answer == "undecided"
    assert answer.undecided_counts_as == "fail"
    assert answer.provable_ratio is not None


def test_the_gate_cries_on_equal_sides_less_than_once_in_twenty() -> None:
    r = rules(threshold_ratio=0.02)
    fails = 0
    for seed in range(30):
        try:
            state = fight(Machine(100 + seed, {NEW: 1.02}, noise=0.03), r, seed)
        except MeasurementError:
            continue
        fails += duel.gate(state, r, duel.Design(sequential=True, n_blocks=60)).answer == "fail"
    assert fails <= 4
