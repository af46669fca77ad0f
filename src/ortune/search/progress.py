"""Number of plans that fit in a budget, and progress of the race."""

from __future__ import annotations

import numpy as np

from ortune.records import messages
from ortune.search import trial_counts
from ortune.search.halving import Entry, Halving
from ortune.stats import detect, pairs

USUAL_SCALE = 0.015  # of blocks on a usual machine, before this one has been measured
SHOWN = 4
"""Maximum number of plans that are shown during the race."""


def forecast(
    split: trial_counts.Split,
    wanted: int,
    *,
    left_ns: float,
    trial_ns: float,
    load_ns: float,
    enough_s: int,
) -> messages.RaceForecast:
    """Return the trials, plans and precision for a budget; ``enough_s`` is enough for all plans."""
    return messages.RaceForecast(
        plans=split.plans,
        wanted=wanted,
        left_ns=max(0.0, left_ns),
        trial_ns=trial_ns,
        load_ns=load_ns,
        confirmed_ratio=detect.smallest_effect(USUAL_SCALE, trial_counts.LEAST_CONFIRM, method="wilcoxon"),
        enough_s=enough_s,
    )


def race_status(race: Halving) -> messages.RaceBlock:
    """Return how many configurations are still compared."""
    return messages.RaceBlock(ranked=sum(bool(e.ratios) for e in race.live()), plans=len(race.entries))


def ranking(race: Halving) -> list[messages.Message]:
    """Return the fastest configurations so far, best first, after a heading; empty before the first block."""
    shown = [_leader(entry) for entry in race.live() if entry.ratios][:SHOWN]
    return [messages.Remark(code="fastest-so-far"), *shown] if shown else []


def _leader(entry: Entry) -> messages.Leader:
    """Return a plan and its speed; one block has no interval."""
    estimate = pairs.wilcoxon_interval(entry.ratios)
    middle, slow, fast = (float(np.exp(-x)) for x in (estimate.centre, estimate.high, estimate.low))
    known = len(entry.ratios) > 1 and np.isfinite(fast) and slow > 0
    return messages.Leader(
        speed_up=middle,
        low=slow if known else 0.0,
        high=fast if known else 0.0,
        n_blocks=len(entry.ratios),
        plan=entry.plan.describe(),
    )
