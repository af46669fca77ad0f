"""The race, ablation and confirmation with a fake executor; the budget's arithmetic."""

from __future__ import annotations

import random

import msgspec
import numpy as np
import pytest

from ortune.errors import MeasurementError
from ortune.records import Block, BlockTrial, Failed, Measured, Outcome, Plan
from ortune.search import budget, confirm, controls
from ortune.search.blocks import BASE, IDENTICAL, SPIKE, log_ratios
from ortune.search.first_turns import FirstTurns
from ortune.search.halving import CURRENT, Entry
from ortune.search.phases import RACE_TIMES
from simulated import TRIAL_NS, Field, Raced


def plan(name: str) -> Plan:
    return Plan(settings={"intra_op_num_threads": int(name)})


def entry(name: str) -> Entry:
    return Entry(plan=plan(name), origin="test")


def race(
    field: Field, *, seconds: float = 300.0, wrong: frozenset[str] = frozenset(), current: bool = False
) -> Raced:
    return Raced(machine=field, end_ns=seconds * 1e9, wrong=wrong, with_current=current)


def confirmed(run: Raced, winner: Entry, n_blocks: int, beyond_ns: float = 0.0) -> list[Block]:
    blocks: list[Block] = []
    run.go(confirm.confirm(run, winner, n_blocks, blocks, beyond_ns=beyond_ns))
    return blocks


def test_the_fastest_of_many_is_found_and_the_slow_ones_retire() -> None:
    names = [str(i) for i in range(12)]
    factors = {plan(n).id: 1.0 + 0.03 * i for i, n in enumerate(names[1:], 1)} | {plan("0").id: 0.85}
    run = race(Field(factors))
    run.go(run.screen([run.add(entry(n)) for n in names]))
    best = run.live()
    assert best[0].plan == plan("0")
    assert len(best[0].ratios) == 8
    assert [e.status for e in run.entries.values()].count("retired") >= 9
    assert all(e.why for e in run.entries.values() if e.status == "retired")


def test_every_plan_of_a_round_gets_the_same_blocks_and_none_has_more_than_five() -> None:
    names = [str(i) for i in range(7)]
    field = Field({plan(n).id: 1.0 for n in names})
    run = race(field)
    run.go(run.screen([run.add(entry(n)) for n in names], rounds=(2,)))
    assert {len(e.ratios) for e in run.entries.values()} == {2}
    assert all(sum(t.arm != BASE for t in b.trials) <= budget.FIELD for b in run.blocks)
    assert all(sum(t.arm == BASE for t in b.trials) == 1 for b in run.blocks)


def test_second_turns_go_to_what_is_likeliest_to_pay() -> None:
    """Nine blocks hold one turn of thirty plans, and a second one of half of them."""
    run = race(Field({}))
    names = [str(i) for i in range(30)]
    for name in names:
        run.add(entry(name))
    turns = FirstTurns(race=run, room=5)
    asked = []
    for index in range(9):
        arms = turns()
        asked += arms
        outcome = Failed(plan="", reason="crash", what="")
        trials = tuple(BlockTrial(arm=arm, outcome=outcome) for arm in arms)
        turns.see(Block(index=index, phase="calibration", trials=trials))
    assert [asked.count(plan(n).id) for n in names] == [2] * 15 + [1] * 15


def test_a_round_that_the_time_cuts_off_has_begun_with_the_best() -> None:
    names = [str(i) for i in range(10)]
    run = race(Field({plan(n).id: 1.0 for n in names}), seconds=12.5 * TRIAL_NS / 1e9)
    entries = [run.add(entry(n)) for n in reversed(names)]
    entries[7].ratios = [-0.1]
    assert not run.go(run.round(entries))
    assert [e for e in entries if e.ratios] == [*entries[:4], entries[7]]


def test_lucky_blocks_lead_only_where_blocks_tell_plans_apart() -> None:
    run = race(Field({}))
    lucky, usual = run.add(entry("0")), run.add(entry("1"))
    lucky.ratios, usual.ratios = [-0.1, -0.1], [-0.01, -0.01]
    usual.expected = -0.025
    assert run.live() == [lucky, usual]
    run.scale = 0.2
    assert run.live() == [usual, lucky]


def test_what_is_plainly_slower_runs_once_and_what_is_idle_behind_a_leader_goes_after_two() -> None:
    names = [str(i) for i in range(10)]
    slow = {plan(n).id: 1.5 for n in names[1:4]}
    field = Field({plan("0").id: 0.85} | slow | {plan(n).id: 1.0 for n in names[4:]}, noise=0.002)
    run = race(field)
    run.go(run.screen([run.add(entry(n)) for n in names]))
    counts = [len(run.entries[plan(n).id].ratios) for n in names]
    assert counts[:4] == [8, 1, 1, 1]
    # By luck one or two may look better than the default in two blocks.
    assert counts[4:].count(2) >= 4
    assert "slower than the default" in run.entries[plan("1").id].why


def test_a_gain_that_met_one_unlucky_moment_is_not_ruled_out() -> None:
    found = 0
    for seed in range(20):
        names = [str(i) for i in range(10)]
        run = race(Field({plan("0").id: 0.95} | {plan(n).id: 1.0 for n in names[1:]}, seed=seed, noise=0.02))
        run.scale = 0.02 * 2**0.5
        run.go(run.screen([run.add(entry(n)) for n in names]))
        found += run.live()[0].plan == plan("0")
    assert found >= 17


def test_current_stands_in_every_block() -> None:
    field = Field({plan("1").id: 1.0})
    run = race(field, current=True)
    run.go(run.screen([run.add(entry("1"))], rounds=(2,)))
    assert all(any(t.arm == CURRENT for t in b.trials) for b in run.blocks)


def test_a_plan_that_crashes_retires_after_two_failures_and_the_rest_goes_on() -> None:
    field = Field({plan("1").id: 0.9, plan("2").id: 1.0})
    field.failing = {plan("2").id: "killed by SIGSEGV"}
    run = race(field)
    run.go(run.screen([run.add(entry("1")), run.add(entry("2"))]))
    bad = run.entries[plan("2").id]
    assert (bad.status, len(bad.failures)) == ("failed", 2)
    assert "SIGSEGV" in bad.why
    assert run.live()[0].plan == plan("1")
    assert not any(b.dropped for b in run.blocks)


def test_a_hang_retires_at_once_and_is_not_what_a_trial_costs() -> None:
    field = Field({plan("1").id: 0.9, plan("2").id: 1.0})
    field.hanging = {plan("2").id: 30 * TRIAL_NS}
    run = race(field)
    assert run.go(run.block([run.add(entry("1")), run.add(entry("2"))]))
    bad = run.entries[plan("2").id]
    assert (bad.status, len(bad.failures)) == ("failed", 1)
    assert run.trial_ns == pytest.approx(1.2 * TRIAL_NS)


def test_what_a_guard_would_refuse_does_not_lead_the_race_unless_it_is_allowed() -> None:
    for allowed, best in (((), plan("2")), (("memory",), plan("1"))):
        field = Field({plan("1").id: 0.5, plan("2").id: 0.9})
        field.memory = {plan("1").id: 1.4}
        run = race(field)
        run.allowed = allowed
        run.go(run.screen([run.add(entry("1")), run.add(entry("2"))]))
        assert run.live()[0].plan == best
        assert ("--allow memory" in run.entries[plan("1").id].why) is not bool(allowed)


def test_the_identical_plan_runs_now_and_then_so_that_a_machine_that_turns_bad_is_seen() -> None:
    field = Field({plan(str(i)).id: 1.0 for i in range(12)})
    run = race(field)
    run.go(run.screen([run.add(entry(str(i))) for i in range(12)]))
    beside = confirmed(run, run.live()[0], 9)
    assert len(run.blocks) > 10
    assert field.calls.count(IDENTICAL) == len(run.blocks) // 10 + 2
    assert len(controls.late_controls(log_ratios([*run.blocks, *beside] * 4, IDENTICAL, "median"))) == 1
    ratios = np.full(20, 0.05)
    with pytest.raises(MeasurementError, match="over the whole run"):
        controls.late_controls(ratios)
    assert controls.late_controls(ratios[:9]) == []


def test_a_wrong_output_ends_a_plan_however_fast() -> None:
    field = Field({plan("1").id: 0.5, plan("2").id: 0.95})
    run = race(field, wrong=frozenset({plan("1").id}))
    run.go(run.screen([run.add(entry("1")), run.add(entry("2"))]))
    assert run.entries[plan("1").id].status == "wrong-output"
    assert run.live()[0].plan == plan("2")


def test_a_default_that_cannot_be_measured_is_an_error() -> None:
    field = Field({plan("1").id: 1.0})
    field.failing = {BASE: "killed by SIGKILL"}
    run = race(field)
    with pytest.raises(MeasurementError, match="default cannot be measured"):
        run.go(run.screen([run.add(entry("1"))]))


def test_no_block_is_started_that_would_end_after_the_deadline() -> None:
    field = Field({plan(str(i)).id: 1.0 for i in range(10)})
    run = race(field, seconds=10)
    run.go(run.screen([run.add(entry(str(i))) for i in range(10)]))
    assert field.now <= 10e9
    assert run.blocks


def test_pruning_shows_which_parts_pay() -> None:
    both = Plan(settings={"intra_op_num_threads": 1, "allow_spinning": False})
    only_threads, only_spin = (
        Plan(settings={"intra_op_num_threads": 1}),
        Plan(settings={"allow_spinning": False}),
    )
    field = Field({both.id: 0.8, only_threads.id: 0.8, only_spin.id: 1.0})
    run = race(field)
    winner = run.add(Entry(plan=both, origin="combination"))
    without = [run.add(Entry(plan=p, origin="without")) for p in (only_threads, only_spin)]
    cost = run.go(confirm.ablate(run, winner, without))
    assert abs(float(np.median(cost[only_threads.id]))) < 0.01  # leaving spinning out costs nothing
    assert float(np.median(cost[only_spin.id])) > 0.15  # leaving the threads out costs a fifth


def test_confirmation_is_on_fresh_blocks_of_a_fixed_number_and_covers_the_truth() -> None:
    covered = 0
    for seed in range(40):
        field = Field({plan("1").id: 0.95}, seed=seed, noise=0.02)
        run = race(field)
        winner = run.add(entry("1"))
        run.go(run.screen([winner]))
        blocks = confirmed(run, winner, 12)
        assert len(blocks) == 12
        assert all(b.phase == "confirm" and b.index >= len(run.blocks) for b in blocks)
        found = confirm.compare(blocks, winner.arm, "median")
        assert found is not None
        assert found.phase == "confirm"
        assert found.ratio_high is not None
        covered += found.ratio_low <= 0.95 <= found.ratio_high
    assert covered >= 34


@pytest.mark.parametrize(("asked_after", "blocks"), [(0, 9), (4, 9), (9, 9), (13, 13), (24, 24)])
def test_a_stop_ends_the_confirmation_with_the_ninth_block_or_the_one_that_runs(
    asked_after: int, blocks: int
) -> None:
    run = race(Field({plan("1").id: 0.9}))
    done: list[Block] = []
    run.stop = lambda: len(done) >= asked_after
    run.ran = done.append
    found = confirmed(run, run.add(entry("1")), 24)
    assert found == done
    assert len(found) == blocks


def test_the_race_keeps_figures_and_no_latencies() -> None:
    run = race(Field({plan("1").id: 0.9}))
    run.go(run.screen([run.add(entry("1"))]))
    trials = [t.outcome for b in run.blocks for t in b.trials] + run.entries[plan("1").id].trials
    assert len(trials) > 16
    assert not any(c.latency_ns for t in trials if isinstance(t, Measured) for c in t.done.cases)


def test_confirming_an_equal_plan_hardly_ever_claims() -> None:
    claims = 0
    for seed in range(40):
        field = Field({plan("1").id: 1.0}, seed=100 + seed, noise=0.02)
        run = race(field)
        winner = run.add(entry("1"))
        blocks = confirmed(run, winner, 12)
        found = confirm.compare(blocks, winner.arm, "median")
        assert found is not None
        claims += found.verdict in ("faster", "slower")
    assert claims <= 5


class Controlled(Field):
    """A machine with both controls, whose identical plan looks like another one in ``failing_calibrations`` of them."""

    failing_calibrations = 0

    def trial(self, arm: str) -> Outcome:
        seen = self.calls.count(IDENTICAL)
        unquiet = seen < self.failing_calibrations * controls.CALIBRATION_BLOCKS
        self.factors |= {IDENTICAL: 1.2 if unquiet else 1.0, SPIKE: 1.0}
        found = super().trial(arm)
        if arm != SPIKE or not isinstance(found, Measured):
            return found
        times = found.done.cases[0].latency_ns
        waits = tuple(int(t * controls.SPIKE_RATIO) for t in times)
        waited = tuple(t + wait for t, wait in zip(times, waits, strict=True))
        case = msgspec.structs.replace(found.done.cases[0], latency_ns=waited, waits_ns=waits)
        return msgspec.structs.replace(found, done=msgspec.structs.replace(found.done, cases=(case,)))


@pytest.mark.parametrize("references", [1, 2])
@pytest.mark.parametrize("seconds", [20, 30, 40, 60, 120, 240])
@pytest.mark.parametrize("failing", [0, 1])
def test_a_repeated_calibration_comes_out_of_the_budget_or_is_left_out(
    failing: int, seconds: int, references: int
) -> None:
    names = [str(i) for i in range(30)]
    machine = Controlled({plan(n).id: 1.0 for n in names} | {plan("3").id: 0.9}, noise=0.001)
    machine.failing_calibrations = failing
    run = race(machine, seconds=seconds, current=references == 2)
    split = budget.divide(seconds * 1e9, TRIAL_NS, wanted=len(names), references=references)
    if split is None:
        assert seconds < 40
        return
    run.kept_ns = split.confirm_ns
    for name in names[: split.plans]:
        run.add(entry(name))
    turns = FirstTurns(race=run, room=5)
    beyond_ns: list[float] = []

    def again() -> bool:
        dropped, beyond = turns.again(TRIAL_NS)
        assert [e.plan for e in dropped] == [plan(n) for n in names[split.plans - len(dropped) : split.plans]]
        beyond_ns.append(beyond)
        return not beyond

    run.ran = turns.see
    judgement = run.go(run.calibrate([BASE, CURRENT][:references], "median", also=turns, again=again))
    blocks = run.calibration
    run.ran = lambda block: None
    assert len(beyond_ns) == failing
    if any(beyond_ns):
        assert not judgement.ok and all(block.dropped for block in blocks)
        assert machine.now <= seconds * 1e9
        return
    assert judgement.ok
    run.earlier, run.kept_ns = list(blocks), split.confirm_ns
    for block in blocks:
        run.rate(block)
    run.go(run.screen(list(run.entries.values())))
    winner = run.live()[0]
    assert winner.ratios  # fewer plans, and not none
    left = seconds * 1e9 - machine.now
    n = budget.confirm_blocks(left, TRIAL_NS, references)
    found = confirmed(run, winner, n)
    assert len(found) >= budget.LEAST_CONFIRM
    # A control that stands in each eighth block comes on top.
    spare = -(-n // confirm.CONTROL_EVERY) * TRIAL_NS
    assert machine.now <= seconds * 1e9 + spare


@pytest.mark.parametrize("trial_s", [0.2, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("references", [1, 2])
def test_what_the_budget_is_said_to_hold_fits(trial_s: float, references: int) -> None:
    total = 240e9
    split = budget.divide(total, trial_s * 1e9, wanted=40, references=references)
    if split is None:
        assert budget.needed_ns(1, trial_s * 1e9, references) > total
        return
    least = budget.LEAST_CONFIRM * (references + 1) * trial_s * 1e9
    assert split.confirm_ns >= min(0.3 * total, least)
    screening = budget.tries(split.plans, references) * trial_s * 1e9
    calibration = controls.CALIBRATION_BLOCKS * (references + 2) * trial_s * 1e9
    assert calibration + screening + split.confirm_ns <= total * 1.001
    assert 1 <= split.plans <= 40


def test_more_time_holds_more_plans_and_the_named_budget_holds_them_all() -> None:
    counts = [
        (
            budget.divide(seconds * 1e9, 1e9, wanted=30, references=1) or budget.Split(plans=0, confirm_ns=0)
        ).plans
        for seconds in (40, 60, 120, 240, 480)
    ]
    assert counts == sorted(counts)
    assert counts[0] == 0 < counts[1]
    needed = budget.needed_ns(30, 1e9, 1)
    split = budget.divide(needed * 1.001, 1e9, wanted=30, references=1)
    assert split is not None
    assert split.plans >= 29


@pytest.mark.parametrize(
    ("left_s", "trial_s", "least"), [(5, 3, 0), (8, 3, 1), (22, 3, 2), (60, 3, 3), (27, 1.5, 2)]
)
@pytest.mark.parametrize("references", [1, 2])
def test_time_that_holds_no_confirmation_shows_plans_and_is_kept(
    left_s: float, trial_s: float, least: int, references: int
) -> None:
    assert budget.divide(left_s * 1e9, trial_s * 1e9, wanted=9, references=references) is None
    plans = budget.exploratory(left_s * 1e9, trial_s * 1e9, wanted=9, references=references)
    assert plans >= least - (references == 2)
    field = Field({plan(str(i)).id: 1.0 - 0.02 * i for i in range(9)}, noise=0.03)
    field.trial_ns = int(trial_s * 1e9)
    run = race(field, seconds=left_s, current=references == 2)
    run.first_trial_ns, run.scale = field.trial_ns, 0.05
    run.go(run.screen([run.add(entry(str(i))) for i in range(plans)]))
    assert field.now <= left_s * 1e9
    seen = [len(e.ratios) for e in run.entries.values()]
    assert not plans or any(seen)
    # What is left of the time holds no further block.
    live = sum(e.live for e in run.entries.values())
    most = max(seen, default=0)
    assert (
        most == budget.ROUNDS[-1]
        or not live
        or field.now + (1 + references) * 1.2 * field.trial_ns > left_s * 1e9
    )


@pytest.mark.parametrize("slower_from", [0, 8, 20])
def test_a_confirmation_that_becomes_slow_ends_with_the_time(slower_from: int) -> None:
    """Blocks that take three times as long as was thought: nine where they fit, and never a tenth beyond the budget."""
    field = Field({plan("1").id: 0.8})
    run = race(field)
    winner = run.add(entry("1"))
    n = 16
    end_ns = n * 2 * TRIAL_NS * RACE_TIMES

    def slower(block: Block) -> None:
        if len(field.calls) >= slower_from:
            field.trial_ns = 3 * TRIAL_NS

    field.trial_ns = TRIAL_NS if slower_from else 3 * TRIAL_NS
    run.ran, run.end_ns = slower, end_ns
    blocks = confirmed(run, winner, n, beyond_ns=0.1 * end_ns)
    assert field.now <= 1.1 * end_ns + 3 * TRIAL_NS
    assert len(blocks) < n
    found = confirm.compare(blocks, winner.arm, "median")
    assert found is not None
    assert found.verdict == ("faster" if len(blocks) >= budget.LEAST_CONFIRM else "inconclusive")


def test_a_confirmation_that_the_clock_ends_claims_no_more_often() -> None:
    claims = 0
    for seed in range(60):
        field = Field({plan("1").id: 1.0}, seed=500 + seed, noise=0.02)
        run = race(field)
        winner = run.add(entry("1"))
        slow = random.Random(seed).randrange(4, 30)

        def slower(block: Block, field: Field = field, slow: int = slow) -> None:
            field.trial_ns = TRIAL_NS * (2 if len(field.calls) > slow else 1)

        run.ran, run.end_ns = slower, 32 * TRIAL_NS
        blocks = confirmed(run, winner, 16, beyond_ns=8 * TRIAL_NS)
        found = confirm.compare(blocks, winner.arm, "median")
        assert found is not None
        claims += found.verdict in ("faster", "slower")
    assert claims <= 6
