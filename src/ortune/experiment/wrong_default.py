"""A tuning whose default has wrong outputs, or does not run: what all is held against in its place, and its time."""

from __future__ import annotations

from ortune.experiment.tuning import Tuning
from ortune.knobs.cpu.graph_optimization_level import KNOB as LEVEL
from ortune.records import Measured
from ortune.search.blocks import measured
from ortune.search.halving import Entry


def step_down(run: Tuning) -> None:
    """Races against the highest level that is right where the default is wrong or does not run.

    The time of a wrong one is shown.

    What runs today and is wrong in the same way is no base either.
    """
    baseline, search = run.baseline, run.search
    asked = baseline.side.plan.settings.get(LEVEL.name, LEVEL.default)
    baseline.check.step_down()
    if baseline.check.wrong_plan is None:
        return
    run.side, search.default = baseline.side, baseline.side.plan
    search.race.default = search.default
    if baseline.lowered is None:
        search.race.timed_only = Entry(
            plan=baseline.check.wrong_plan,
            origin="the requested default",
            status="wrong-output",
            why="its outputs are wrong",
        )
    if search.current is not None and search.current.settings.get(LEVEL.name, LEVEL.default) == asked:
        search.current = None
    search.race.with_current = search.current not in (None, search.default)


def time_once(run: Tuning) -> None:
    """Runs one trial of the default whose outputs are wrong, where no block held it and the time does."""
    entry = run.search.race.timed_only
    if entry is None or entry.gives_up or measured(run.search.race.seen, entry.arm) or run.watch.stop():
        return
    if run.baseline.pilot.trial_ns > run.before_ns:
        return
    outcome = run.baseline.executor.trial(run.baseline.arm(entry.arm, plan=entry.plan))
    if isinstance(outcome, Measured):
        entry.trials.append(outcome)
