"""Determines the length of a trial in turns, from the cost of a process and of a run, and shortens turns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ortune.measuring.executor import Timing
from ortune.records import CaseTimes, Measured
from ortune.stats.warmup import runs_per_trial
from ortune.targets.turns import Turns

MOST_RUNS = 20_000
TURN_NS = (
    20_000_000  # of a turn of a fast model: much shorter than a neighbour's phases, much longer than a switch
)
AWAKE_NS = 1_000_000  # after which a fast model runs as if it had not slept
# A browser has more to do when it wakes: the runs of a model of 0.75 ms took 2.2, 1.4, 1.2, 1.2 and four times 1.05
# times as long as the later ones, in twelve pages of twelve turns.
PAGE_AWAKE_NS = 8_000_000
LEAST_ROUNDS, MOST_ROUNDS = 5, 16
NEXT_TO_NOTHING = 0.1  # share of a trial's start below which cutting its runs saves too little
LEAST_SHORT = 3  # rounds of a trial that a budget shortens, before its turns are cut too
BETWEEN_FLOOR = 0.01  # processes differ by about 1 % on a quiet machine; two pilots cannot resolve less


def timing_for(trial: Measured, *, at_least_runs: int = 0) -> Timing:
    """Return the timing of later trials, from a trial's cost of a process and of a run (Kalibera and Jones 2013)."""
    cases = trial.done.cases
    run_ns = sum(float(np.median(c.latency_ns)) for c in cases)
    # The cost of a run of every case: its latency and the gap after it.
    cost_ns = trial.done.wall_ns * len(cases) / trial.done.n_runs
    process_ns = max(float(trial.elapsed_ns - trial.done.wall_ns), 1e6)
    within = sum(_robust_variance(c) for c in cases)
    slow = run_ns > 200e6
    low = 3 if slow else 10
    runs = runs_per_trial(
        cost_process_ns=process_ns,
        cost_run_ns=cost_ns,
        var_within=within,
        var_between=(BETWEEN_FLOOR * run_ns) ** 2,
        low=low,
        # On a noisy machine processes differ by more than the floor: timing longer than starting gains nothing.
        high=max(low, min(MOST_RUNS, int(process_ns / cost_ns))),
    )
    # Never less than a tenth of a second of a fast model: a neighbour's burst must not cover the whole of a trial.
    # (With 24 ms of a 6 us model one comparison in thirteen scattered by 20 %.)
    runs = max(runs, int(100e6 / cost_ns), at_least_runs)
    # Callers make their runs concurrently, equally many each.
    each_ns = cost_ns * trial.done.n_callers
    # In a page about half of the wall time is outside the runs, so their latency is used instead.
    awake = PAGE_AWAKE_NS / run_ns if trial.done.page is not None and run_ns else AWAKE_NS / each_ns
    turns = turns_for(process_ns, each_ns, awake)
    least = -(-at_least_runs // turns.runs)
    return Timing(
        runs=min(runs, max(MOST_RUNS, at_least_runs)),
        turns=replace(turns, rounds=max(turns.rounds, least)),
        warmup_runs=1 if slow else 3,
        warmup_ns=30_000_000,
        warmup_cap_ns=int(min(5e9, max(0.4e9, 12 * cost_ns))),
    )


def turns_for(process_ns: float, cost_ns: float, awake_runs: float) -> Turns:
    """Return the turns of a group's trials, before the noise of groups is known.

    Args:
        process_ns: Time of a trial before its first timed run.
        cost_ns: Time in which every caller runs every case once, including the gap.
        awake_runs: Number of runs after which the effect of a rest between turns is gone.
    """
    low = 8 if cost_ns < 20e6 else 3 if cost_ns < 100e6 else 1
    # A model of 0.5 ms runs 40 times per turn, one of 5 ms 8 times.
    runs = min(MOST_RUNS, max(low, round(TURN_NS / cost_ns)))
    # Caches are cold after a rest. For a slow model one run costs more than that, so it needs no warm-up.
    unmeasured = 0 if cost_ns >= 100e6 else max(2, round(awake_runs))
    most = MOST_ROUNDS if cost_ns < 20e6 else MOST_ROUNDS // 2
    # The turns take about as long as the start of the process.
    rounds = round(process_ns / ((runs + unmeasured) * cost_ns))
    return Turns(runs=runs, unmeasured=unmeasured, rounds=min(most, max(LEAST_ROUNDS, rounds)))


def turns_ns(turns: Turns, run_ns: float) -> float:
    """Return the duration of one trial's turns in nanoseconds."""
    return turns.rounds * (turns.runs + turns.unmeasured) * run_ns


def shortened(turns: Turns, start_ns: float, run_ns: float, most_ns: float, least_runs: int = 0) -> Turns:
    """Return the turns shortened to fit: first to fewer rounds, then to fewer runs, then to two rounds, the minimum.

    The number of runs is kept if all turns are short compared with the start: fewer runs would hardly shorten a trial,
    and a model with a latency of 0.25 ms measured 1 ms in a page if it ran only once after each pause.

    Args:
        turns: The turns without a limit.
        start_ns: Time of a trial before its first turn.
        run_ns: Time of a run of every case.
        most_ns: Maximum time of a trial.
        least_runs: Minimum number of runs of a trial, for a tail percentile, for which only rounds are reduced; 0 for
            no minimum.
    """
    least = max(LEAST_SHORT, -(-least_runs // turns.runs))
    for rounds, runs in ((least, turns.runs), (LEAST_SHORT, 2), (2, 2), (2, 1)):
        fits = start_ns + turns_ns(turns, run_ns) <= most_ns
        kept = least_runs > 0 or turns_ns(turns, run_ns) <= NEXT_TO_NOTHING * start_ns
        if fits or (kept and runs < turns.runs):
            break
        per_round = (turns.runs + turns.unmeasured) * run_ns
        fit = max(rounds, int((most_ns - start_ns) / per_round))
        if runs < turns.runs:
            turns = replace(turns, runs=runs, unmeasured=min(turns.unmeasured, 1))
        turns = replace(turns, rounds=min(turns.rounds, fit))
    return turns


def _robust_variance(case: CaseTimes) -> float:
    values = np.asarray(case.latency_ns, dtype=float)
    mad = float(np.median(np.abs(values - np.median(values))))
    # 1.4826 times the median deviation is the standard deviation of normal values.
    return (1.4826 * mad) ** 2
