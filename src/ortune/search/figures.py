"""Defines the statistics, and computes the value of each from a measured trial.

For several input shapes, the value is the mean with the workload's weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from ortune.errors import UsageError
from ortune.objectives import OBJECTIVES, Objective
from ortune.records import Block, CaseTimes, Figures, Measured, MemoryKept
from ortune.stats import pairs

Statistic = Literal[
    "paired",
    "paired-low",
    "median",
    "p10",
    "p95",
    "mean",
    "cold-start",
    "first-result",
    "main-thread",
    "event-loop",
    "memory",
    "memory:idle",
    "memory:released",
    "cpu",
]

PAIRED = {"paired": 0.5, "paired-low": 0.25}
"""Statistics that compare turns of the same round, with the quantile over each turn's runs."""

LATENCIES: tuple[Statistic, ...] = ("paired", "paired-low", "p10")
"""Statistics for latency, of which calibration chooses the steadiest; the first is the usual.

If interference comes and goes, it is best to compare runs that are close in time. If another program uses a core all
the time, each run is either disturbed or not, and it is best to compare undisturbed runs.
"""

WAITED = (*LATENCIES, "median", "mean", "p95")
"""Statistics of run times, which an injected wait in each run affects."""

WORDS: dict[str, str] = {
    "paired": "p50 latency (median over rounds of the ratio of p50s within a round)",
    "paired-low": "p25 latency (median over rounds of the ratio of p25s within a round)",
    "median": "p50 latency (of each process)",
    "p10": "p10 latency (of all runs of a block)",
    "p95": "p95 latency",
    "mean": "throughput (mean latency, back to back)",
    "cold-start": "cold start (load and first run)",
    "first-result": "time to first result (download, start, load and first run)",
    "main-thread": "main thread blocked (longest time, while the model runs)",
    "event-loop": "event-loop delay (p99 while the model runs)",
    "memory": "peak memory",
    "memory:idle": "idle memory",
    "memory:released": "memory after release",
    "cpu": "CPU time per run",
}

STATISTICS: dict[Objective, Statistic | None] = {
    "latency": None,  # one of LATENCIES, chosen by the calibration
    "p95": "p95",
    "throughput": "mean",
    "cold-start": "cold-start",
    "first-result": "first-result",
    "main-thread": "main-thread",
    "event-loop": "event-loop",
    "memory": "memory",
    "memory:idle": "memory:idle",
    "memory:released": "memory:released",
    "cpu": "cpu",
}

TIMES = ("latency", "p95", "throughput")
"""Objectives whose changes a profile of steady runs can explain."""


OF_PAGES = ("first-result", "main-thread")
"""Objectives that exist only in browser pages."""

OF_PLACES = (*OF_PAGES, "event-loop")
"""Objectives that exist only in browser pages or only in Node.js."""

FROM_START = ("cold-start", "first-result")
"""Objectives that are measured with one process at a time; "first-result" is for browser pages."""


def require_objective(name: str) -> None:
    """Raise UsageError if a name is not an objective."""
    if name not in OBJECTIVES:
        raise UsageError(f"unknown objective {name!r}", do=f"one of {', '.join(OBJECTIVES)}")


LEAST_PROCESSES = 6
"""Minimum number of processes for a 95 % interval."""


_QUANTILES = {"p10": 0.1, "p25": 0.25, "median": 0.5, "p90": 0.9, "p95": 0.95}
_OF_PROCESS = {"paired": "median", "paired-low": "p25"}
"""The quantile of all runs of a process that is the value of a paired statistic. The median of its turns' quantiles
would be another aggregation: on a busy machine, their p25 can exceed the p50 of the process."""


class CaseFigures(CaseTimes, frozen=True, kw_only=True):
    """The times of a case reduced to its statistics; ``latency_ns`` is empty.

    Attributes:
        by_name: Quantiles and mean in nanoseconds, by statistic.
        turns_ns: Quantile of each turn in nanoseconds, by the statistics in ``PAIRED``.
    """

    n_runs: int
    by_name: dict[str, float]
    turns_ns: dict[str, tuple[float, ...]]


def without_latencies(block: Block) -> Block:
    """Return the block with its trials' latencies reduced to statistics, which take less memory.

    A trial of a fast model has twenty thousand runs, and a long race has thousands of trials. ``figure`` and
    ``describe`` give the same results for the reduced block; ``samples`` and ``recorded_waits`` need the latencies.
    """
    trials = []
    for trial in block.trials:
        outcome = trial.outcome
        if isinstance(outcome, Measured):
            cases = tuple(_case_figures(c) for c in outcome.done.cases)
            done = msgspec.structs.replace(outcome.done, cases=cases)
            outcome = msgspec.structs.replace(outcome, done=done)
        trials.append(msgspec.structs.replace(trial, outcome=outcome))
    return msgspec.structs.replace(block, trials=tuple(trials))


KEPT: dict[str, Callable[[MemoryKept], int | None]] = {
    "memory:idle": lambda kept: kept.idle_bytes,
    "memory:released": lambda kept: kept.released_bytes,
}
"""Functions that return the memory after the runs in bytes, by statistic."""


def figure(trial: Measured, statistic: str, case: str | None = None) -> float | None:
    """Return the value of a trial's statistic in nanoseconds, or in bytes for memory; None if it was not measured.

    The value is for one input shape, or for the weighted mix; memory and CPU time are always for the whole trial.
    """
    done = trial.done
    if statistic == "memory" or statistic in KEPT:
        n_bytes = done.peak_bytes
        if statistic in KEPT:
            n_bytes = None if done.kept is None else KEPT[statistic](done.kept)
        return None if n_bytes is None else float(n_bytes)
    if statistic == "mean" and case is None and done.n_callers > 1:
        # Callers overlap, so the sum of their latencies exceeds the time of the process for all runs.
        return done.wall_ns / done.n_runs if done.n_runs else None
    if statistic == "cpu":
        # A browser on another host does not report it.
        return done.cpu_ns / done.n_runs if done.n_runs and done.cpu_ns else None
    cases = [c for c in done.cases if case is None or c.case == case]
    if statistic in (*FROM_START, *OF_PLACES):
        return _of_start_or_place(trial, statistic, cases)
    if not all(_n_runs(c) for c in cases):
        return None
    return _mix(cases, [_of_case(c, statistic) for c in cases])


def trial_log_ratio(
    ours: Measured, theirs: Measured, statistic: str, case: str | None = None
) -> float | None:
    """Return log(ours / theirs) of two trials of one group; None if the statistic was not measured in both.

    Paired statistics compare each turn with the other trial's turn of the same round.
    """
    if statistic in PAIRED:
        a, b = turns(ours, statistic, case), turns(theirs, statistic, case)
        # A trial that was cut short lacks the last rounds: only rounds of both are paired.
        n = min(len(a), len(b))
        return float(np.median(np.log(a[:n] / b[:n]))) if n else None
    new, old = figure(ours, statistic, case), figure(theirs, statistic, case)
    return float(np.log(new / old)) if new and old else None


def turns(trial: Measured, statistic: str, case: str | None = None) -> np.ndarray:
    """Return the quantile of each turn's runs in nanoseconds, in order, as a weighted mean over the shapes."""
    cases = [c for c in trial.done.cases if case is None or c.case == case]
    of_cases = [_turns(c, statistic) for c in cases]
    n = min((len(of_case) for of_case in of_cases), default=0)
    weights = np.asarray([c.weight for c in cases])
    return weights @ np.asarray([of_case[:n] for of_case in of_cases]) / weights.sum() if n else np.empty(0)


def samples(trial: Measured) -> np.ndarray:
    """Return all timed runs of a trial in nanoseconds, in order."""
    parts = [c.latency_ns for c in trial.done.cases]
    return np.concatenate([np.asarray(p, dtype=float) for p in parts]) if parts else np.empty(0)


def describe(
    trials: Sequence[Measured],
    statistic: str,
    alone: Sequence[Measured] = (),
    first_load_ns: float | None = None,
) -> Figures:
    """Return medians over the trials of one side, with the interquartile range.

    The latency is the median for every objective; the objective's statistic is a separate field. The trials of a
    block load at the same time, so load and first run are taken from the trials in ``alone`` if there are any. If
    starts are compared, each trial of a block runs alone anyway. Trials of pages with verbose logging are used only if
    there are no others. If the first load wrote a cache to disk, load and first run are from trials that read it.
    """
    starts = trials if statistic in FROM_START else alone or trials
    starts = [t for t in starts if not _logged(t)] or starts
    if first_load_ns is not None:
        starts = [t for t in starts if not t.done.wrote] or starts
    load_ns = float(np.median([t.done.load_ns for t in starts]))
    low, middle, high = _middle_half(trials, "median")
    own = (
        _middle_half(trials, statistic)
        if statistic in ("paired-low", "p10", "p95", "mean", *OF_PLACES)
        else (None, None, None)
    )
    memory = {name: [v for t in trials if (v := figure(t, name)) is not None] for name in ("memory", *KEPT)}
    # One value per process, since runs within one are not independent.
    of_trials = [[np.log(_spread(c)) for c in t.done.cases if _n_runs(c) >= 8] for t in trials]
    spreads = np.asarray([np.mean(of_trial) for of_trial in of_trials if of_trial])
    spread = pairs.wilcoxon_interval(spreads) if len(spreads) >= LEAST_PROCESSES else None
    return Figures(
        latency_ns=middle,
        latency_low_ns=low,
        latency_high_ns=high,
        load_ns=load_ns,
        first_run_ns=float(np.median([figure(t, "cold-start") or 0.0 for t in starts])) - load_ns,
        cpu_per_run_ns=float(np.median([figure(t, "cpu") or 0.0 for t in trials])),
        peak_bytes=_median(memory["memory"]),
        idle_bytes=_median(memory["memory:idle"]),
        released_bytes=_median(memory["memory:released"]),
        spread_ratio=float(np.exp(np.median(spreads))) if len(spreads) else None,
        spread_low_ratio=spread.ratio_low if spread else None,
        spread_high_ratio=spread.ratio_high if spread else None,
        n_trials=len(trials),
        n_runs=sum(t.done.n_runs for t in trials),
        objective_ns=own[1],
        objective_low_ns=own[0],
        objective_high_ns=own[2],
        p95_ns=_middle_half(trials, "p95")[1],
        first_load_ns=first_load_ns,
    )


def _median(values: Sequence[float]) -> float | None:
    return float(np.median(values)) if values else None


def _logged(trial: Measured) -> bool:
    """Return whether a page reported the placement of nodes, which requires verbose logging."""
    return trial.done.page is not None and bool(trial.done.placement)


def _middle_half(trials: Sequence[Measured], statistic: str) -> tuple[float, float, float]:
    """Return the lower quartile, median and upper quartile of a statistic over trials."""
    values = np.asarray([figure(t, statistic) or np.nan for t in trials])
    low, middle, high = np.nanquantile(values, [0.25, 0.5, 0.75])
    return float(low), float(middle), float(high)


def _of_start_or_place(trial: Measured, statistic: str, cases: Sequence[CaseTimes]) -> float | None:
    done = trial.done
    if statistic == "event-loop":
        return None if done.event_loop is None else float(done.event_loop.p99_ns)
    if statistic == "main-thread":
        return float(done.page.block_ns) or None if done.page else None
    load_and_run = done.load_ns + _mix(cases, [float(c.first_ns) for c in cases])
    if statistic == "cold-start":
        return load_and_run
    return None if done.page is None else done.page.download_ns + done.page.import_ns + load_and_run


def _turns(case: CaseTimes, statistic: str) -> np.ndarray:
    if isinstance(case, CaseFigures):
        return np.asarray(case.turns_ns[statistic])
    values = np.asarray(case.latency_ns, dtype=float)
    runs = [n for n in case.turn_runs if n] or [values.size]
    if values.size == runs[0] * len(runs) and len(set(runs)) == 1:
        # Usually all turns have the same length.
        return _quantile(values.reshape(len(runs), -1), PAIRED[statistic]) if values.size else np.empty(0)
    parts = [part for part in np.split(values, np.cumsum(case.turn_runs)[:-1]) if part.size]
    return np.asarray([_quantile(part, PAIRED[statistic]) for part in parts])


def _quantile(values: NDArray[np.float64], level: float) -> NDArray[np.float64]:
    """Compute the same values as ``np.quantile`` over the last axis, but faster; the input must not contain NaN."""
    place = level * (values.shape[-1] - 1)
    below = int(place)
    above, share = min(below + 1, values.shape[-1] - 1), place - below
    ordered = np.partition(values, (below, above), axis=-1)
    low, high = ordered[..., below], ordered[..., above]
    # Interpolate from the nearer neighbour, like numpy.
    return np.asarray(low + (high - low) * share if share < 0.5 else high - (high - low) * (1 - share))


def _of_case(case: CaseTimes, statistic: str) -> float:
    statistic = _OF_PROCESS.get(statistic, statistic)
    if isinstance(case, CaseFigures):
        return case.by_name[statistic]
    values = np.asarray(case.latency_ns, dtype=float)
    if statistic == "mean":
        return float(values.mean())
    return float(_quantile(values, _QUANTILES[statistic]))


def _n_runs(case: CaseTimes) -> int:
    return case.n_runs if isinstance(case, CaseFigures) else len(case.latency_ns)


def _case_figures(case: CaseTimes) -> CaseFigures:
    if isinstance(case, CaseFigures):
        return case
    figures: dict[str, float] = {}
    if _n_runs(case):
        quantiles = np.quantile(np.asarray(case.latency_ns, dtype=float), list(_QUANTILES.values()))
        figures = {
            "mean": _of_case(case, "mean"),
            **dict(zip(_QUANTILES, map(float, quantiles), strict=True)),
        }
    return CaseFigures(
        case=case.case,
        weight=case.weight,
        latency_ns=(),
        first_ns=case.first_ns,
        warmup_runs=case.warmup_runs,
        steady=case.steady,
        output_shapes=case.output_shapes,
        n_runs=_n_runs(case),
        turns_ns={name: tuple(_turns(case, name)) for name in PAIRED},
        by_name=figures,
    )


def _mix(cases: Sequence[CaseTimes], values: Sequence[float]) -> float:
    weights = [c.weight for c in cases]
    return sum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights)


def _spread(case: CaseTimes) -> float:
    """Return p90 / p10 of the runs in one process, the variation that users notice."""
    return _of_case(case, "p90") / _of_case(case, "p10")
