"""The cost of the first timed trials of a base, which determines the length of later trials."""

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

P95_REQUESTS = 130  # fewer requests per trial do not determine a p95
PILOT_RUNS = 5  # runs of a trial that only shows that a plan runs, its cost and its outputs


def run_ns(trial: Measured) -> float:
    """Return the time in nanoseconds in which every caller runs every case once, including the gap."""
    done = trial.done
    # ``n_runs`` counts every run of every case by every caller. Example: two cases, one caller, ten runs in 1
    # s: 1 x 2 x 1 / 10 = 0.2 s for one run of each case.
    return done.wall_ns * len(done.cases) * done.n_callers / done.n_runs


def first_trial_runs(last: Outcome | None, most_ns: float) -> int:
    """Return the number of timed runs of the first timed trial, at least 1.

    Args:
        last: The previous trial, which loaded the model and ran it once; if it was not measured, a default applies.
        most_ns: Maximum time of the trial.
    """
    if not isinstance(last, Measured):
        return PILOT_RUNS
    run_ns = sum(case.first_ns for case in last.done.cases)
    # The previous trial loaded and ran once: the cost of a trial without timed runs.
    return max(1, int(min(PILOT_RUNS, (most_ns - last.elapsed_ns) / max(1, run_ns))))


def least_runs_of(objective: Objective) -> int:
    """Return the minimum number of runs of a trial for an objective; 0 if any number suffices."""
    return P95_REQUESTS if objective == "p95" else 0


@dataclass(slots=True, kw_only=True)
class Pilot:
    """The cost of a start and of a run of the base, and the length of its trials.

    Attributes:
        first: The base's first timed trial; not set before the pilot has run.
        native: The outcome on the CPU outside of the browser in which the base runs; None if that was not run.
        look_runs: Number of timed runs of an exploratory trial, reduced if runs are long compared with the budget.
        least_runs: Minimum number of runs of a trial for the objective; 0 if any number suffices.
        start_ns: Time of a trial before its first turn, including the first run.
        run_ns: Time in which every caller runs every case once.
        turns: Preferred turns of a trial, without the limits of the budget.
        trial_ns: Duration of a trial of the base with the turns in use.
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
        """Set the cost of a start and of a run from a trial.

        Args:
            trial: The trial.
            turns_ns: Duration of the trial's turns.
            elapsed_ns: Duration of the whole trial.
        """
        self.run_ns = run_ns(trial)
        # A difference of two noisy times may fall below 0; no process starts within 1 ms.
        self.start_ns = max(1e6, elapsed_ns - turns_ns)

    @property
    def least_turns(self) -> Turns:
        """The turns of the shortest useful trial."""
        return timing.shortened(self.turns, self.start_ns, self.run_ns, 0.0, self.least_runs)

    @property
    def least_trial_ns(self) -> float:
        """Duration of the shortest useful trial in nanoseconds."""
        return self.start_ns + timing.turns_ns(self.least_turns, self.run_ns)

    @property
    def input_ns(self) -> float:
        """Time of a run with one input in nanoseconds, averaged over all cases."""
        return run_ns(self.first) / len(self.first.done.cases)

    def shortened(self, most_ns: float, better_ns: float) -> Turns:
        """Return the preferred turns, shortened to the requested maximum as far as is useful.

        Args:
            most_ns: Maximum time of a trial; rounds are reduced for it, then runs.
            better_ns: Preferred maximum time, for which only rounds are reduced.
        """
        turns = timing.shortened(self.turns, self.start_ns, self.run_ns, most_ns, self.least_runs)
        fewer = timing.shortened(turns, self.start_ns, self.run_ns, better_ns, self.least_runs)
        # ``better_ns`` cuts rounds only, and keeps the fewest that a statistic over rounds needs.
        rounds = max(fewer.rounds, min(turns.rounds, timing.LEAST_SHORT))
        return turns if fewer.rounds == turns.rounds else replace(turns, rounds=rounds)

    def use(self, turns: Turns) -> Turns:
        """Set the duration of later trials from their turns; return these, with the rounds that the objective needs."""
        # A p95 needs 130 requests per trial: with 8 runs per turn these are 17 rounds.
        turns = replace(turns, rounds=max(turns.rounds, -(-self.least_runs // turns.runs)))
        self.trial_ns = self.start_ns + timing.turns_ns(turns, self.run_ns)
        return turns

    def retime(self, judgement: Judgement, trials: Sequence[Measured], turns: Turns) -> None:
        """Choose the rounds of later groups from the noise of the controls (Kalibera and Jones 2013).

        Args:
            judgement: The result of the controls.
            trials: Trials of the base.
            turns: The turns of these trials.
        """
        if judgement.statistic not in PAIRED or judgement.within <= 0:
            return
        elapsed = float(np.median([t.elapsed_ns for t in trials]))
        # The formula is for runs within a process. Here the unit within is a round, with its cost and variance.
        rounds = runs_per_trial(
            cost_process_ns=max(1e6, elapsed - timing.turns_ns(turns, self.run_ns)),
            cost_run_ns=timing.turns_ns(replace(turns, rounds=1), self.run_ns),
            var_within=judgement.within,
            var_between=judgement.between,
            low=min(turns.rounds, timing.LEAST_ROUNDS),
            high=2 * timing.MOST_ROUNDS,
        )
        self.turns = replace(self.turns, rounds=rounds)
