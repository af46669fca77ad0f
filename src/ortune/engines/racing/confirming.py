"""Confirms the winner of a race in fresh blocks."""

from __future__ import annotations

from collections.abc import Sequence

from ortune.engines.racing.tuning import Tuning
from ortune.errors import Interrupted, MeasurementError
from ortune.measuring.replay import SEEN
from ortune.records import BUSY, Failed, messages
from ortune.search import confirm, controls, packages, trial_counts, without_load
from ortune.search.blocks import BASE, IDENTICAL, log_ratios, measured
from ortune.search.halving import Entry
from ortune.search.phases import ALONE_SHARE, BEYOND_TIMES, RACE_TIMES
from ortune.search.reasons import Reason
from ortune.search.state import Search


def confirm_winner(run: Tuning, others: Sequence[Entry] = ()) -> None:
    """Confirm the winner in a fixed number of fresh blocks with the default and current plan, then repeat the controls.

    Args:
        run: The tuning, after its race.
        others: Plans to confirm in the same blocks; if not all fit, the first of these.

    Raises:
        MeasurementError: The machine became too noisy, or every trial failed.
    """
    search = run.search
    if search.winner is not None and (search.winner.plan != search.default or search.race.with_current):
        _confirm(run, search.winner, others)
    late = log_ratios(search.blocks, IDENTICAL, search.judgement.statistic)
    search.controls += controls.late_controls(late)
    if not measured(search.calibration, BASE):
        raise MeasurementError("every trial failed")
    if run.stopped and search.winner is None:
        raise Interrupted("stopped before any configuration was measured")


def _confirm(run: Tuning, leader: Entry, others: Sequence[Entry]) -> None:
    run.record_other_work()
    began, left_ns = run.now_ns, run.budget.left_ns
    search, race = run.search, run.search.race
    # The time that was reserved during the race is now available to the confirmation.
    race.kept_ns = 0.0
    _see_outputs(run, leader)
    winner = search.winner = leader if leader.live else search.leader()
    if winner is None:
        return
    fit = trial_counts.other_plans(left_ns / run.baseline.pilot.trial_ns, race.references)
    rest = _without_load_settings(run, winner) if fit else None
    other = _other_package(run, winner) if fit else None
    beside = [*(entry for entry in (rest, other) if entry is not None), *others]
    search.others = [entry for entry in beside if entry.live and entry is not winner][:fit]
    n = wanted = _confirmation_blocks(run, left_ns)
    per_trial = run.baseline.pilot.trial_ns
    if run.watch.stop():
        n = trial_counts.LEAST_CONFIRM
        seconds = n * (race.references + 1 + len(search.others)) * per_trial / 1e9
        run.watch.tell(messages.ConfirmingBest(seconds=seconds))
    name = winner.plan.describe()
    # The ninth block may end after the budget: eight blocks allow no claim, and would be wasted.
    beyond_ns = 1e9 * (BEYOND_TIMES - 1) * run.whole_budget.total_s
    run.run_stage(
        confirm.confirm(race, winner, n, search.confirmation, others=search.others, beyond_ns=beyond_ns),
        lambda block: run.record_block(block, messages.Confirming(n_blocks=n, plan=name)),
    )
    if rest is not None:
        winner = _shippable(search, winner, rest)
    if other is not None:
        winner = packages.choose(search, winner, other)
    # Processes that took turns shared caches and a power budget, but the user's process runs alone.
    if winner.live:
        first = len(race.blocks) + len(search.confirmation)
        run.run_stage(
            confirm.confirm_alone(race, winner, first, per_trial, search.alone),
            lambda block: run.record_block(block, messages.Remark(code="repeating-alone")),
        )
    if winner.live and not search.alone and not run.watch.stop():
        search.starts = run.baseline.start_alone(run.baseline.executor.arms[winner.arm])[0]
    counted = sum(not b.dropped for b in search.confirmation)
    run.stopped = run.stopped or (run.watch.stop() and counted < wanted)
    run.spent["confirm"] = run.now_ns - began


def _without_load_settings(run: Tuning, winner: Entry) -> Entry | None:
    """Return the winner without settings that only help next to other programs; None if no such plan can be raced."""
    search = run.search
    if search.host is None or BUSY in search.race.allowed:
        return None
    base = search.current if search.race.with_current and search.current is not None else search.default
    plan = without_load.without_load_settings(
        winner.plan, base, [*search.calibration, *search.race.blocks], search.host
    )
    if plan is None or plan == search.default:
        return None
    rest = search.race.add(Entry(plan=plan, origin=f"without load: {winner.plan.describe()}"))
    if rest.live:
        _see_outputs(run, rest)
    return rest if rest.live else None


def _other_package(run: Tuning, winner: Entry) -> Entry | None:
    """Return the fastest plan with another package, or if the winner needs a package, without; None if none gains."""
    other = packages.alternative(run.search, run.search.ranked(), winner)
    if other is not None:
        _see_outputs(run, other)
    return other if other is not None and other.live else None


def _shippable(search: Search, winner: Entry, rest: Entry) -> Entry:
    """Return the plan to ship: ``rest``, or the winner if its additional settings gain more than the load explains.

    Args:
        search: The search, whose winner is replaced if ``rest`` is shipped.
        winner: The winner of the race.
        rest: The winner without the settings that only help next to other programs.
    """
    if rest not in search.others:
        return winner
    part, added = search.comparison(rest.arm, search.base), search.comparison(winner.arm, rest.arm)
    if part is None or part.verdict != "faster" or part.ratio > 1 - search.race.worth:
        return winner
    if added is not None and added.verdict == "faster" and not (added.others and added.others.explains):
        return winner
    search.others = [winner, *(entry for entry in search.others if entry is not rest)]
    search.winner = rest
    return rest


def _confirmation_blocks(run: Tuning, left_ns: float) -> int:
    """Shorten the trials to the budget, and return the number of blocks that can confirm the race's gain."""
    n = max(run.search.blocks_to_confirm(), trial_counts.USUAL_CONFIRM)
    references = run.search.race.references + len(run.search.others)
    # Blocks have priority over rounds: the gain of a change depends on the state of the machine, and only further
    # blocks sample another state (a gain of 5.5 % at one clock rate was 0.5 % at another).
    # Example: 100 s are left, 16 blocks of two trials: 0.7 x 100 / (16 x 2 x 1.06) = 2.1 s a trial.
    run.baseline.shorten((1 - ALONE_SHARE) * left_ns / (n * (references + 1) * RACE_TIMES))
    trials = left_ns / run.baseline.pilot.trial_ns
    return min(n, trial_counts.confirm_blocks(trials - trial_counts.alone_trials(trials), references))


def _see_outputs(run: Tuning, winner: Entry) -> None:
    """Check the outputs of a plan that has not run yet, such as one that ablation created."""
    if winner.outputs is not None:
        return
    run.plan_runs.create_models([winner.arm])
    if not winner.live:
        return
    outcomes = run.plan_runs([winner.arm], lambda: False)
    assert outcomes is not None
    outcome = outcomes[0]
    if isinstance(outcome, Failed):
        winner.failures.append(outcome)
        winner.eliminate("failed", Reason(code="error", text=f"{outcome.reason}: {outcome.what}"))
    else:
        winner.outputs = run.plan_runs.check(winner, outcome)
        if not winner.outputs.ok:
            winner.eliminate("wrong-output", Reason(code="wrong-outputs", text=winner.outputs.what))
    if run.replay.live:
        run.log.add(SEEN, {"arm": winner.arm})
