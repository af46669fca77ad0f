"""Runs a group of trials on any targets; the trials are alive together and take turns."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from ortune import targets
from ortune.records import Failed, Outcome
from ortune.targets.machine import Machine
from ortune.targets.requests import CannotApply, applied
from ortune.targets.source import SourceRunner
from ortune.targets.task import TrialTask
from ortune.targets.turns import ALONE, Runner, Turns, load, take_turns


def run(
    tasks: Sequence[TrialTask],
    machine: Machine,
    turns: Turns = ALONE,
    rng: random.Random | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> tuple[Outcome, ...] | None:
    """Run trials and return their outcomes.

    A failed trial does not raise an exception; Ctrl-C is raised after the trials have ended.

    Args:
        tasks: The trials, in the order in which they load.
        machine: Machine of the trials.
        turns: Number of turns of each trial and of runs per turn.
        rng: Random generator for the order of the turns.
        stop: Callback that is polled before every turn.

    Returns:
        One outcome per trial; None if the session was stopped meanwhile.
    """
    if machine.trials is not None:
        return machine.trials(tasks, turns, rng, stop)
    runners: list[Runner] = []
    prepared = [_prepared(task, machine, runners) for task in tasks]
    runners += [runner for runner in prepared if not isinstance(runner, Failed)]
    places = [targets.target_of(task.plan) for task in tasks]
    try:
        if not load(runners, stop):
            return None
        before = {target: target.sensors(machine) for target in dict.fromkeys(places)}
        if not take_turns(runners, turns, rng or random.Random(), stop):
            return None
        # Read before the runners end: the CPU time of a browser's processes is known only while they live.
        after = {target: target.sensors(machine) for target in before}
    finally:
        for runner in runners:
            runner.close()
    return tuple(
        prepared_trial
        if isinstance(prepared_trial, Failed)
        else prepared_trial.outcome(before[target], after[target])
        for prepared_trial, target in zip(prepared, places, strict=True)
    )


def _prepared(task: TrialTask, machine: Machine, group: Sequence[Runner]) -> Runner | Failed:
    try:
        settings = applied(task.plan, task.runtime)
    except CannotApply as error:
        return Failed(plan=task.plan.id, reason=error.reason, what=str(error), phase="preparing")
    if task.runtime.source is not None:
        return SourceRunner(task, settings, machine, group)
    return targets.target_of(task.plan).runner(task, settings, machine, group)
