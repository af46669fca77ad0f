"""The race and the ablation with a fake executor."""

from __future__ import annotations

import numpy as np
import pytest
from race_machine import confirmed, entry, plan, race

from ortune.errors import MeasurementError
from ortune.records import Block, BlockTrial, Failed, Measured, Plan
from ortune.search import confirm, controls, trial_counts
from ortune.search.blocks import BASE, IDENTICAL, log_ratios
from ortune.search.first_turns import FirstTurns
from ortune.search.halving import CURRENT, Entry
from ortune.search.reasons import Reason
from simulated import TRIAL_NS, Field


def reason(of: Entry) -> Reason:
    """Why a plan left the race."""
    assert of.why is not None
    return of.why


def test_the_fastest_of_many_is_found_and_the_slow_ones_retire() -> None:
    names = [str(i) for i in range(12)]
    factors = {plan(n).id: 1.0 + 0.03 * i for i, n in enumerate(names[1:], 1)} | {plan("0").id: 0.85}
    run = race(Field(factors))
    run.go(run.screen([run.add(entry(n)) for n in names]))
    best = run.live()
    assert best[0].plan == plan("0")
    assert len(best[0].ratios) == 8
    assert [e.status for e in run.entries.values()].count("eliminated") >= 9
    assert all(e.why for e in run.entries.values() if e.status == "eliminated")


def test_every_plan_of_a_round_gets_the_same_blocks_and_none_has_more_than_five() -> None:
    names = [str(i) for i in range(7)]
    field = Field({plan(n).id: 1.0 for n in names})
    run = race(field)
    run.go(run.screen([run.add(entry(n)) for n in names], rounds=(2,)))
    assert {len(e.ratios) for e in run.entries.values()} == {2}
    assert all(sum(t.arm != BASE for t in b.trials) <= trial_counts.FIELD for b in run.blocks)
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
        turns.count_turns(Block(index=index, phase="calibration", trials=trials))
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
    assert reason(run.entries[plan("1").id]).code == "slower-at-once"


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
    assert "SIGSEGV" in reason(bad).text
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
        why = run.entries[plan("1").id].why
        assert ("--allow memory" in (why.text if why is not None else "")) is not bool(allowed)


def test_a_plan_over_the_limit_of_memory_leaves_the_race_however_fast() -> None:
    field = Field({plan("1").id: 0.5, plan("2").id: 0.8})
    field.memory = {plan("1").id: 1.4}
    run = race(field)
    run.limit_bytes, run.allowed = 120_000_000, ("memory",)
    entries = [run.add(entry(name)) for name in ("1", "2")]
    run.go(run.screen(entries))
    assert [e.plan for e in run.live()] == [plan("2")]
    assert entries[0].why == Reason(code="over-memory", text="peak 134 MiB")


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


def test_the_race_keeps_figures_and_no_latencies() -> None:
    run = race(Field({plan("1").id: 0.9}))
    run.go(run.screen([run.add(entry("1"))]))
    trials = [t.outcome for b in run.blocks for t in b.trials] + run.entries[plan("1").id].trials
    assert len(trials) > 16
    assert not any(c.latency_ns for t in trials if isinstance(t, Measured) for c in t.done.cases)
