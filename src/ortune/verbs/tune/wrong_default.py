"""Tuning with a default that has wrong outputs or does not run: finds another base, and times the default."""

from __future__ import annotations

from ortune import rewrites
from ortune.catalogue.levels import level_of
from ortune.engines.racing.tuning import Tuning
from ortune.errors import Interrupted, OrtuneError
from ortune.measuring import output_check
from ortune.records import Measured, Plan, RewriteSpec
from ortune.search.blocks import measured
from ortune.search.halving import Entry
from ortune.search.plan_edits import merge
from ortune.verbs.tune import proposed_words


def step_down(run: Tuning) -> None:
    """If the default is wrong or does not run, make the highest optimisation level with correct outputs the base.

    A default with wrong outputs is still timed, for display. A current plan at the same level is dropped.
    """
    baseline, search = run.baseline, run.search
    asked = level_of(baseline.side.plan)
    output_check.step_down(baseline)
    if baseline.check.wrong_plan is None:
        return
    run.side = baseline.side
    if baseline.lowered is None:
        search.race.timed_only = Entry(
            plan=baseline.check.wrong_plan,
            origin=proposed_words.REQUESTED,
            status="wrong-output",
        )
    current = search.current
    if current is not None and level_of(current) == asked:
        current = None
    search.compare_with(baseline.side.plan, current)


def mending(run: Tuning, share: float) -> tuple[RewriteSpec, ...]:
    """Return exact rewrites that make the outputs correct at the requested optimisation level; () if there are none.

    Args:
        run: The tuning, after ``step_down``.
        share: Fraction of the time before the race for finding the one rewrite that is needed among several.
    """
    if run.baseline.check.wrong_plan is None or run.side.plan.is_web or run.side.model.in_ort_format:
        return ()
    return run.replay.once("mending", tuple[RewriteSpec, ...], lambda: _mending(run, share))


def _mending(run: Tuning, share: float) -> tuple[RewriteSpec, ...]:
    pace = run.pace(share)
    row = rewrites.pipeline(run.side.model.ir, workload=run.baseline.work, begins=pace.begins)
    with run.baseline.executor.keeping_last():
        found: tuple[RewriteSpec, ...] = row if row and _right(run, row) else ()
        if len(found) > 1:
            ones = ((spec,) for spec in row if pace.begins(spec.name))
            found = next((one for one in ones if _right(run, one)), found)
    if found:
        run.baseline.note(proposed_words.mended([spec.name for spec in found]))
    return found


def _right(run: Tuning, specs: tuple[RewriteSpec, ...]) -> bool:
    """Return whether the rewritten model runs at the requested optimisation level with correct outputs."""
    baseline, wrong = run.baseline, run.baseline.check.wrong_plan
    assert wrong is not None
    plan = merge(wrong, Plan(rewrites=specs, settings=rewrites.settings_for(specs)))
    try:
        model = run.models.path(plan, run.plan_runs.rewriting_s(plan))
    except Interrupted:
        raise
    except OrtuneError:  # then it mends nothing
        return False
    outcome = baseline.executor.untimed(baseline.arm("mended", plan=plan, model=model))
    return (
        isinstance(outcome, Measured)
        and output_check.from_own(baseline, outcome, baseline.options.tolerance, specs).ok
    )


def time_once(run: Tuning) -> None:
    """Run one trial of a default with wrong outputs, if no block contains the default and there is time."""
    entry = run.search.race.timed_only
    if (
        entry is None
        or entry.is_given_up
        or measured(run.search.race.all_blocks, entry.arm)
        or run.watch.stop()
    ):
        return
    if not run.budget.holds(1, run.baseline.pilot.trial_ns):
        return
    outcome = run.baseline.executor.trial(run.baseline.arm(entry.arm, plan=entry.plan))
    if isinstance(outcome, Measured):
        entry.trials.append(outcome)
