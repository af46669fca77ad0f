"""Every schedule against a plain table of nanoseconds: no executor, no clock, no noise but what the table has."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import pytest

from ortune.errors import Interrupted, MeasurementError
from ortune.records import Block, BlockTrial, CaseTimes, Failed, Measured, Plan, TrialDone
from ortune.search.blocks import BASE, IDENTICAL, NEW, SPIKE, TRIAL_FAILED, log_ratios
from ortune.search.duel import Design, Rules
from ortune.search.fixed import Fixed
from ortune.search.halving import Entry, Halving
from ortune.search.schedule import BudgetLeft, NextBlock, Schedule
from ortune.search.sequential import Sequential

TRIAL_NS = 100
USUAL = {BASE: 1_000_000, IDENTICAL: 1_000_000, SPIKE: 1_050_000}
"""A run of each arm; the spike's holds a wait of 50 us."""
JITTER = (0, 4_000, -3_000, 2_000, -5_000, 1_000, 3_000, -2_000)
"""Added to the runs of a trial, block by block and arm by arm, so that no two are the same."""


def trial(arm: str, run_ns: int | None, number: int) -> BlockTrial:
    if run_ns is None:
        failed = Failed(plan=arm, reason="load-error", what="no such operator", elapsed_ns=TRIAL_NS)
        return BlockTrial(arm=arm, outcome=failed)
    runs = (run_ns + JITTER[(7 * number + len(arm)) % len(JITTER)],) * 20
    waits = (50_000,) * 20 if arm == SPIKE else ()
    case = CaseTimes(case="x", weight=1.0, latency_ns=runs, first_ns=run_ns, waits_ns=waits)
    done = TrialDone(
        load_ns=1, cases=(case,), cpu_ns=sum(runs), wall_ns=sum(runs), n_runs=20, peak_bytes=10**8
    )
    return BlockTrial(arm=arm, outcome=Measured(plan=arm, done=done, elapsed_ns=TRIAL_NS))


def run(
    schedule: Schedule, table: Mapping[str, int | None], *, left_ns: int = 10**6, stop_at: int = 10**6
) -> list[NextBlock]:
    """Answers what is asked from the table until the end; the blocks, in order. An arm whose time is None fails."""
    asked: list[NextBlock] = []
    times = {**USUAL, **table}
    while (block := schedule.ask(BudgetLeft(ns=left_ns, stop=len(asked) >= stop_at))) is not None:
        asked.append(block)
        trials = tuple(trial(arm, times[arm], len(asked)) for arm in block.arms)
        took_ns = TRIAL_NS * len(trials)
        left_ns -= took_ns
        needed = block.arms if block.needed is None else block.needed
        failed = any(isinstance(t.outcome, Failed) and t.arm in needed for t in trials)
        dropped = TRIAL_FAILED if failed else ""
        ran = Block(index=block.index, phase=block.phase, trials=trials, dropped=dropped)
        schedule.tell(ran, took_ns)
    return asked


def test_fixed_asks_for_every_arm_in_every_block_as_often_as_was_said() -> None:
    schedule = Fixed(["fix-1", "fix-2"], "median", n_blocks=12)
    asked = run(schedule, {"fix-1": 900_000, "fix-2": 1_200_000})
    calibration, blocks = asked[:9], asked[9:]
    assert {block.arms for block in calibration} == {(BASE, IDENTICAL, SPIKE)}
    assert {block.arms for block in blocks} == {(BASE, "fix-1", "fix-2", IDENTICAL)}
    assert [block.index for block in asked] == list(range(9 + 12))
    assert len(schedule.blocks) == schedule.standing.n_blocks == 12
    assert all(control.ok for control in schedule.controls)


def test_fixed_ends_with_the_block_that_runs_when_a_stop_is_asked_for() -> None:
    schedule = Fixed(["fix-1"], "median", n_blocks=12)
    assert len(run(schedule, {"fix-1": 900_000}, stop_at=14)) == 14
    with pytest.raises(Interrupted):
        schedule = Fixed(["fix-1"], "median")
        for number in itertools.count():
            schedule.ask(BudgetLeft(ns=10**6, stop=number > 3))


def test_an_arm_that_fails_costs_the_others_of_a_fixed_schedule_no_block() -> None:
    schedule = Fixed(["fix-1", "fix-2"], "median", n_blocks=12)
    asked = run(schedule, {"fix-1": None, "fix-2": 900_000})
    assert len(asked) == 9 + 12
    assert not any(block.dropped for block in schedule.blocks)
    ratios = {arm: log_ratios(schedule.blocks, arm, "median") for arm in ("fix-1", "fix-2")}
    assert len(ratios["fix-1"]) == 0 and len(ratios["fix-2"]) == 12


def test_controls_that_do_not_hold_are_repeated_once() -> None:
    schedule, asked = Fixed(["fix-1"], "median"), []
    with pytest.raises(MeasurementError, match="twice"):
        asked = run(schedule, {IDENTICAL: 1_300_000, "fix-1": 900_000})
    assert not asked and schedule.standing.n_blocks == 18


@pytest.mark.parametrize(
    ("new_ns", "more", "ended"),
    [(800_000, 40, "verdict"), (1_000_000, 40, "verdict"), (1_005_000, 2, "budget")],
)
def test_sequential_ends_when_every_side_is_decided_or_the_time_is_over(
    new_ns: int, more: int, ended: str
) -> None:
    schedule = Sequential(Rules(), Design(sequential=True, n_blocks=60))
    asked = run(schedule, {NEW: new_ns}, left_ns=9 * 4 * TRIAL_NS + more * 2 * TRIAL_NS)
    assert schedule.state.ended == ended
    assert {block.arms for block in asked[:9]} == {(BASE, NEW, IDENTICAL, SPIKE)}
    assert {block.arms for block in asked[10:20]} <= {(BASE, NEW), (BASE, NEW, IDENTICAL)}


def test_a_side_that_is_decided_stands_in_no_further_block() -> None:
    schedule = Sequential(Rules(), Design(sequential=True, n_blocks=60), [NEW, "new-c"])
    asked = run(schedule, {NEW: 500_000, "new-c": 1_010_000})
    assert NEW in asked[8].arms and NEW not in asked[-1].arms and "new-c" in asked[-1].arms
    assert schedule.standing.n_blocks == len(asked)


def halving(*names: int) -> tuple[Halving, list[Entry]]:
    schedule = Halving(worth=0.01, scale=0.01, statistic="median", first_trial_ns=TRIAL_NS)
    plans = (Plan(settings={"intra_op_num_threads": name}) for name in names)
    return schedule, [schedule.add(Entry(plan=plan, origin="test")) for plan in plans]


def test_halving_drops_the_slow_half_and_keeps_to_five_plans_a_block() -> None:
    schedule, entries = halving(*range(1, 9))
    table = {entry.arm: 900_000 + 20_000 * number for number, entry in enumerate(entries)}
    schedule.begin(schedule.screen(entries))
    asked = run(schedule, table)
    assert all(block.arms[0] == BASE and len(block.arms) <= 1 + 5 + 1 for block in asked)
    first = [arm for block in asked[:4] for arm in block.arms]
    assert all(first.count(entry.arm) == 2 for entry in entries)
    assert schedule.standing.live[:2] == (BASE, entries[0].arm)
    assert not any(entry.live for entry in entries[4:])
    assert len(entries[0].ratios) == 8 > max(len(entry.ratios) for entry in entries[4:])


def test_halving_asks_for_no_block_that_would_reach_into_what_is_kept() -> None:
    schedule, entries = halving(1, 2, 3)
    schedule.kept_ns = 40 * TRIAL_NS
    schedule.begin(schedule.screen(entries))
    asked = run(schedule, {entry.arm: 990_000 for entry in entries}, left_ns=50 * TRIAL_NS)
    assert len(asked) == 2  # four trials each


def test_a_plan_that_is_retired_when_its_block_is_asked_for_leaves_the_others_theirs() -> None:
    """As where its model cannot be made: who runs blocks says so, and asks again."""
    schedule, entries = halving(1, 2)
    schedule.begin(schedule.screen(entries))
    assert schedule.ask(BudgetLeft(ns=10**6)) is not None
    entries[0].eliminate("not-tried", "its model could not be made")
    asked = run(schedule, {entry.arm: 990_000 for entry in entries})
    assert asked and not any(entries[0].arm in block.arms for block in asked)
    assert len(entries[1].ratios) == 8
