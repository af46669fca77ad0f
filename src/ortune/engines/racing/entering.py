"""Enters into the race the proposed plans that fit in the budget."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ortune.engines.racing.tuning import EXPLORED_SCALE, Tuning
from ortune.records import Plan, messages
from ortune.search import trial_counts
from ortune.search.halving import CURRENT, Entry, expected
from ortune.search.phases import BEYOND_TIMES, LEAST_SEARCH_SHARE, RACE_TIMES
from ortune.search.plan_edits import merge, with_change
from ortune.search.progress import forecast
from ortune.search.proposals.plans import PlanProposal
from ortune.search.proposals.settings import FIRST
from ortune.search.reasons import ENDED

LONG_EXPLORATION_NS = 60e9
"""Remaining time in nanoseconds above which no exploration without a confirmation is run."""


def enter(
    run: Tuning,
    proposed: Sequence[PlanProposal],
    refused: Sequence[str],
    *,
    required: Plan,
    least_share: float = 1.0,
) -> bool:
    """Report how many plans fit in the budget, and enter these; return False if none fits.

    If none fits, the result is undecided: it has the default's figures from the pilot, and the budget that a search
    needs. If only the confirmation does not fit, ``exploring`` is set, and the plans that can be measured are entered.
    With ``least_share`` below 1, one plan is confirmed if that fraction of its time is left.
    """
    run.search.required, run.refused = required, tuple(refused)
    run.entries = _entries(run, proposed)
    run.record_other_work()
    left_ns = run.budget.left_ns
    run.spent["before"] = run.replay.decision_time_ns()
    race, wanted = run.search.race, len(run.entries)
    # Expected log ratios are negative: at most that of FIRST means a prior of FIRST or more.
    first = sum(e.expected <= expected(FIRST) for e in run.entries)
    # Trials are shortened before plans are omitted, since an untried plan cannot win.
    share = LEAST_SEARCH_SHARE * left_ns / RACE_TIMES
    # Rounds and runs are reduced until the likely plans fit; for all plans, only rounds are.
    least = [trial_counts.least_trials(n, race.references) + run.only_timed_trials for n in (first, wanted)]
    run.baseline.shorten(*(share / trials for trials in least))
    trial_ns = run.baseline.pilot.trial_ns
    # Divided once: a resumed session must enter the plans whose blocks are in its journal.
    split = run.replay.once(
        "split",
        trial_counts.Split | None,
        lambda: _split(run, left_ns / trial_ns - run.only_timed_trials, wanted, least_share),
    )
    run.replay.mark_no_block()
    if split is None:
        return _explores(run, left_ns, wanted)
    if split.plans < wanted:
        run.enough_s = run.budget_for_s(wanted, trial_ns)
    run.forecast = forecast(
        split,
        wanted,
        left_ns=run.whole_budget.running.left_ns,
        trial_ns=trial_ns,
        load_ns=run.baseline.pilot.first.done.load_ns,
        enough_s=run.enough_s,
    )
    run.watch.tell(run.forecast)
    race.first_trial_ns = trial_ns
    _arms(run)
    race.kept_ns = split.confirm_trials * trial_ns
    _add(run, run.entries[: split.plans])
    return True


def _split(run: Tuning, trials: float, wanted: int, least_share: float) -> trial_counts.Split | None:
    """Return the division of the trials, or if too few are left, that of the shortest search; None if neither fits."""
    references = run.search.race.references
    split = trial_counts.divide(trials, wanted=wanted, references=references)
    if split is not None or least_share >= 1.0:
        return split
    beyond = 1e9 * (BEYOND_TIMES - 1) * run.whole_budget.total_s / run.baseline.pilot.trial_ns
    return trial_counts.shortest(trials, references=references, beyond=beyond, least_share=least_share)


def _explores(run: Tuning, left_ns: float, wanted: int) -> bool:
    """Enter the plans that can be measured without a confirmation; return False if there are none."""
    race = run.search.race
    # The shortest trials: more plans, and more blocks of each.
    run.baseline.shorten(0.0)
    trial_ns = run.baseline.pilot.trial_ns
    plans = trial_counts.explored_plans(left_ns / trial_ns, wanted=wanted, references=race.references)
    if not plans:
        others = {entry.plan.provider_names[0] for entry in run.entries} - {run.side.plan.provider_names[0]}
        run.report_no_race(plans=max(1, len(others)))  # the plain plans of other targets come first
        return False
    if left_ns > LONG_EXPLORATION_NS:
        run.report_no_race()
        return False
    run.exploring, run.enough_s = True, run.budget_for_s(1, trial_ns)
    needed_ns = run.needed_trials(1) * trial_ns
    run.forecast = messages.ExplorationForecast(
        plans=plans, wanted=wanted, left_ns=left_ns, needed_ns=needed_ns, enough_s=run.enough_s
    )
    run.watch.tell(run.forecast)
    run.without_controls(EXPLORED_SCALE)
    race.first_trial_ns = trial_ns
    _arms(run)
    race.kept_ns = 0.0
    _add(run, run.entries[:plans])
    return True


def next_ns(run: Tuning) -> float:
    """Return the nanoseconds to test one more proposed configuration; 0 if all were tested."""
    race = run.search.race
    untested = [e for e in race.entries.values() if e.status == "not-tried" and e.why == ENDED]
    if not race.costs_ns or not (run.waiting or untested):
        return 0.0
    # The search begins no screening that it cannot complete.
    screening_ns = math.ceil(trial_counts.screening_trials(1, race.references)) * race.trial_ns
    if run.exploring:
        return screening_ns
    return screening_ns + trial_counts.least_confirm_trials(race.references) * run.baseline.pilot.trial_ns


def _add(run: Tuning, entries: Sequence[Entry]) -> None:
    """Enter the default if it is only timed, then the plans, and create the model of each."""
    only_timed = run.search.race.timed_only
    for entry in [*([only_timed] if only_timed is not None else []), *entries]:
        run.plan_runs.create_models([run.search.race.add(entry).arm])


def _entries(run: Tuning, proposed: Sequence[PlanProposal]) -> list[Entry]:
    """Return the proposed plans merged with the requested settings, without duplicates."""
    entries: dict[str, Entry] = {}
    if run.search.current is not None and run.search.race.with_current:
        plan = merge(run.search.required, run.search.current)
        entries[plan.id] = Entry(plan=plan, origin="what runs today", expected=expected(1.0))
    for proposal in proposed:
        merged = with_change(proposal.plan, run.search.required, run.search.required)
        if merged is None:
            run.refused += (f"{proposal.plan.describe()}: conflicts with the requested settings",)
        # A plan with only the requested settings is not a separate plan, unless they are tried alone ("as asked").
        elif merged.id not in entries and (merged != run.search.required or proposal.plan == Plan()):
            entries[merged.id] = Entry(plan=merged, origin=proposal.origin, expected=expected(proposal.prior))
    return list(entries.values())


def _arms(run: Tuning) -> None:
    baseline = run.baseline
    arms = baseline.controls()
    if run.search.current is not None and run.search.race.with_current:
        model = run.models.path(run.search.current, run.plan_runs.rewriting_s(run.search.current))
        arms[CURRENT] = baseline.arm(CURRENT, plan=run.search.current, model=model)
    baseline.executor.arms = arms
