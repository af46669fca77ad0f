"""What a budget holds: plans, a calibration that is repeated, and the confirmation that is kept."""

from __future__ import annotations

import msgspec
import pytest
from race_machine import confirmed, entry, plan, race

from ortune.records import Measured, Outcome
from ortune.search import confirm, controls, trial_counts
from ortune.search.blocks import BASE, IDENTICAL, SPIKE
from ortune.search.first_turns import FirstTurns
from ortune.search.halving import CURRENT
from simulated import TRIAL_NS, Field


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
    split = trial_counts.divide(seconds * 1e9 / TRIAL_NS, wanted=len(names), references=references)
    if split is None:
        assert seconds < 40
        return
    run.kept_ns = split.confirm_trials * TRIAL_NS
    for name in names[: split.plans]:
        run.add(entry(name))
    turns = FirstTurns(race=run, room=5)
    beyond_ns: list[float] = []

    def again() -> bool:
        dropped, beyond = turns.restart(TRIAL_NS)
        assert [e.plan for e in dropped] == [plan(n) for n in names[split.plans - len(dropped) : split.plans]]
        beyond_ns.append(beyond)
        return not beyond

    run.ran = turns.count_turns
    judgement = run.go(run.calibrate([BASE, CURRENT][:references], "median", also=turns, again=again))
    blocks = run.calibration
    run.ran = lambda block: None
    assert len(beyond_ns) == failing
    if any(beyond_ns):
        assert not judgement.ok and all(block.dropped for block in blocks)
        assert machine.now <= seconds * 1e9
        return
    assert judgement.ok
    run.earlier, run.kept_ns = list(blocks), split.confirm_trials * TRIAL_NS
    for block in blocks:
        run.record_ratios(block)
    run.go(run.screen(list(run.entries.values())))
    winner = run.live()[0]
    assert winner.ratios  # fewer plans, and not none
    left = seconds * 1e9 - machine.now
    n = trial_counts.confirm_blocks(left / TRIAL_NS, references)
    found = confirmed(run, winner, n)
    assert len(found) >= trial_counts.LEAST_CONFIRM
    # A control that stands in each eighth block comes on top.
    spare = -(-n // confirm.CONTROL_EVERY) * TRIAL_NS
    assert machine.now <= seconds * 1e9 + spare


@pytest.mark.parametrize("share", [0.86, 0.93, 0.99])
def test_a_confirmation_that_almost_fits_is_made_within_a_tenth_beyond(share: float) -> None:
    needed = trial_counts.needed_trials(1, 1)
    trials = share * needed
    beyond = needed - trials + 1
    assert trial_counts.divide(trials, wanted=1, references=1) is None
    split = trial_counts.shortest(trials, references=1, beyond=beyond, least_share=0.85)
    assert split is not None and split.plans == 1
    machine = Controlled({plan("3").id: 0.9}, noise=0.001)
    run = race(machine, seconds=trials * TRIAL_NS / 1e9)
    run.kept_ns = split.confirm_trials * TRIAL_NS
    run.add(entry("3"))
    run.ran = (turns := FirstTurns(race=run, room=5)).count_turns
    judgement = run.go(run.calibrate([BASE], "median", also=turns))
    assert judgement.ok and judgement.controls
    run.earlier, run.kept_ns = list(run.calibration), 0.0
    for block in run.calibration:
        run.record_ratios(block)
    winner = run.live()[0]
    found = confirmed(run, winner, trial_counts.LEAST_CONFIRM, beyond * TRIAL_NS)
    assert sum(not block.dropped for block in found) == trial_counts.LEAST_CONFIRM
    assert machine.now <= (trials + beyond) * TRIAL_NS


def test_a_confirmation_that_does_not_fit_is_not_begun() -> None:
    needed = trial_counts.needed_trials(1, 1)
    few = trial_counts.shortest(0.84 * needed, references=1, beyond=needed, least_share=0.85)
    late = trial_counts.shortest(0.95 * needed, references=1, beyond=0.04 * needed, least_share=0.85)
    assert few is None and late is None


@pytest.mark.parametrize("slower", [1.0, 1.8, 2.2, 2.6])
def test_plans_leave_their_places_to_the_controls_where_trials_take_longer_than_expected(
    slower: float,
) -> None:
    names = [str(i) for i in range(27)]
    machine = Controlled({plan(n).id: 1.0 for n in names}, noise=0.001)
    machine.trial_ns = int(slower * TRIAL_NS)
    run = race(machine, seconds=44)
    split = trial_counts.divide(44e9 / TRIAL_NS, wanted=len(names), references=1)
    assert split is not None
    run.kept_ns = split.confirm_trials * TRIAL_NS
    for name in names[: split.plans]:
        run.add(entry(name))
    turns = FirstTurns(race=run, room=5)
    run.ran = turns.count_turns
    judgement = run.go(run.calibrate([BASE], "median", also=turns))
    assert judgement.ok and judgement.controls
    assert any(trial.arm in run.entries for block in run.calibration for trial in block.trials)
    assert machine.now <= 44e9 - run.kept_ns


@pytest.mark.parametrize("trial_s", [0.2, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("references", [1, 2])
def test_what_the_budget_is_said_to_hold_fits(trial_s: float, references: int) -> None:
    trials = 240 / trial_s
    split = trial_counts.divide(trials, wanted=40, references=references)
    if split is None:
        assert trial_counts.needed_trials(1, references) > trials
        return
    least = trial_counts.LEAST_CONFIRM * (references + 1)
    assert split.confirm_trials >= min(0.3 * trials, least)
    screening = trial_counts.first_round_trials(split.plans, references)
    calibration = controls.CALIBRATION_BLOCKS * (references + 2)
    assert calibration + screening + split.confirm_trials <= trials * 1.001
    assert 1 <= split.plans <= 40


def test_more_time_holds_more_plans_and_the_named_budget_holds_them_all() -> None:
    counts = [
        (
            trial_counts.divide(trials, wanted=30, references=1)
            or trial_counts.Split(plans=0, confirm_trials=0)
        ).plans
        for trials in (40, 60, 120, 240, 480)
    ]
    assert counts == sorted(counts)
    assert counts[0] == 0 < counts[1]
    needed = trial_counts.needed_trials(30, 1)
    split = trial_counts.divide(needed * 1.001, wanted=30, references=1)
    assert split is not None
    assert split.plans >= 29


@pytest.mark.parametrize(
    ("left_s", "trial_s", "least"), [(5, 3, 0), (8, 3, 1), (22, 3, 2), (60, 3, 3), (27, 1.5, 2)]
)
@pytest.mark.parametrize("references", [1, 2])
def test_time_that_holds_no_confirmation_shows_plans_and_is_kept(
    left_s: float, trial_s: float, least: int, references: int
) -> None:
    assert trial_counts.divide(left_s / trial_s, wanted=9, references=references) is None
    plans = trial_counts.explored_plans(left_s / trial_s, wanted=9, references=references)
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
        most == trial_counts.ROUNDS[-1]
        or not live
        or field.now + (1 + references) * 1.2 * field.trial_ns > left_s * 1e9
    )
