"""The cost of the first timed trials of a base, and the length of later ones that follows from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ortune.measuring import timing
from ortune.measuring.executor import Timing
from ortune.objectives import Objective
from ortune.records import Measured, Outcome
from ortune.search.controls import Judgement
from ortune.search.figures import PAIRED
from ortune.stats.warmup import runs_per_trial
from ortune.targets.turns import Turns

P95_REQUESTS = 130  # fewer requests a trial say nothing about a p95
PILOT_RUNS = 5  # of a trial that is to show that a plan runs, what it costs and what it gives


def run_ns(trial: Measured) -> float:
    """Return the time of a run of every case, by every caller, its gap included."""
    done = trial.done
    # ``n_runs`` counts every run of every case by every caller. Example: two cases, one caller, ten runs in 1
    # s: 1 x 2 x 1 / 10 = 0.2 s for one run of each case.
    return done.wall_ns * len(done.cases) * done.n_callers / done.n_runs


def runs_to_look(last: Outcome | None, most_ns: float) -> int:
    """Return the timed runs of the first timed trial: one at least.

    Args:
        last: The trial before it, which loaded the model and ran it once.
        most_ns: The time that the trial may take.
    """
    if not isinstance(last, Measured):
        return PILOT_RUNS
    run_ns = sum(case.first_ns for case in last.done.cases)
    # The trial before this one loaded and ran once: that is the price of a trial without timed runs.
    return max(1, int(min(PILOT_RUNS, (most_ns - last.elapsed_ns) / max(1, run_ns))))


def least_runs_of(objective: Objective) -> int:
    """Return the runs of a trial without which an objective cannot be read from it; 0 if any number will do."""
    return P95_REQUESTS if objective == "p95" else 0


@dataclass(slots=True, kw_only=True)
class Pilot:
    """The cost of a start and of a run of the base, and the length of a trial.

    Attributes:
        first: The base's first timed trial; not set before the pilot has run.
        native: The outcome on the CPU outside of a browser, if the base runs in one and this was run.
        look_runs: Timed runs of an exploratory trial: fewer than usual if runs are long compared with the budget.
        least_runs: Runs of a trial that the objective needs at least.
        start_ns: Time of a trial before its first turn, its first run included.
        run_ns: Time of a run of every case.
        turns: Turns of a trial as they should be, where the budget does not make them shorter.
        trial_ns: Time of a trial of the base with the turns that are in use.
    """

    first: Measured = field(init=False)
    native: Outcome | None = None
    look_runs: int = PILOT_RUNS
    least_runs: int = 0
    start_ns: float = 0.0
    run_ns: float = 0.0
    turns: Turns = field(default_factory=lambda: Timing().turns)
    trial_ns: float = 0.0

    def time_by(self, trial: Measured, turns_ns: float, elapsed_ns: float) -> None:
        """Read the cost of a start and of a run from a trial.

        Args:
            trial: The trial.
            turns_ns: The time of its turns.
            elapsed_ns: Its whole time.
        """
        self.run_ns = run_ns(trial)
        # A difference of two noisy times may fall below 0; no process starts within 1 ms.
        self.start_ns = max(1e6, elapsed_ns - turns_ns)

    @property
    def least_turns(self) -> Turns:
        """The turns of the shortest trial that makes sense."""
        return timing.shortened(self.turns, self.start_ns, self.run_ns, 0.0, self.least_runs)

    @property
    def least_trial_ns(self) -> float:
        """Time of the shortest trial that makes sense."""
        return self.start_ns + timing.turns_ns(self.least_turns, self.run_ns)

    @property
    def input_ns(self) -> float:
        """Time of a run of one input, on the average of all cases."""
        return run_ns(self.first) / len(self.first.done.cases)

    def shortened(self, most_ns: float, better_ns: float) -> Turns:
        """Return turns as they should be, or as short as requested and still useful.

        Args:
            most_ns: Maximum time of a trial; rounds are cut for it, then runs.
            better_ns: Preferred maximum; rounds alone are cut for it.
        """
        turns = timing.shortened(self.turns, self.start_ns, self.run_ns, most_ns, self.least_runs)
        fewer = timing.shortened(turns, self.start_ns, self.run_ns, better_ns, self.least_runs)
        # ``better_ns`` cuts rounds only, and no lower than the fewest that a statistic over rounds makes
        # sense of.
        rounds = max(fewer.rounds, min(turns.rounds, timing.LEAST_SHORT))
        return turns if fewer.rounds == turns.rounds else replace(turns, rounds=rounds)

    def use(self, turns: Turns) -> Turns:
        """Record the turns of further trials; return them with as many rounds as the objective needs."""
        # A p95 needs 130 requests a trial: with 8 runs a turn these are 17 rounds.
        turns = replace(turns, rounds=max(turns.rounds, -(-self.least_runs // turns.runs)))
        self.trial_ns = self.start_ns + timing.turns_ns(turns, self.run_ns)
        return turns

    def retime(self, judgement: Judgement, trials: Sequence[Measured], turns: Turns) -> None:
        """Choose the rounds of further groups from the noise of the controls (Kalibera and Jones 2013).

        Args:
            judgement: The result of the controls.
            trials: Trials of the base.
            turns: Their turns.
        """
        if judgement.statistic not in PAIRED or judgement.within <= 0:
            return
        elapsed = float(np.median([t.elapsed_ns for t in trials]))
        # The formula is for runs within a process. Here the unit within is a round, with its cost and its
        # variance.
        rounds = runs_per_trial(
            cost_process_ns=max(1e6, elapsed - timing.turns_ns(turns, self.run_ns)),
            cost_run_ns=timing.turns_ns(replace(turns, rounds=1), self.run_ns),
            var_within=judgement.within,
            var_between=judgement.between,
            low=min(turns.rounds, timing.LEAST_ROUNDS),
            high=2 * timing.MOST_ROUNDS,
        )
        self.turns = replace(self.turns, rounds=rounds)
