"""Sentences on what fits into a budget, and on the progress of the race."""

from __future__ import annotations

import numpy as np

from ortune.durations import as_option, in_words
from ortune.search import trial_counts
from ortune.search.halving import Entry, Halving
from ortune.stats import detect, pairs

USUAL_SCALE = 0.015  # of blocks on a usual machine, before this one has been measured
SHOWN = 4
"""Number of plans that are shown during the race."""


def forecast(
    split: trial_counts.Split,
    wanted: int,
    *,
    left_ns: float,
    trial_ns: float,
    load_ns: float,
    enough_s: int,
) -> str:
    """Return a sentence on the trials, plans and precision for a budget; ``enough_s`` is enough for all plans."""
    confirmed = detect.smallest_effect(USUAL_SCALE, trial_counts.LEAST_CONFIRM, method="wilcoxon")
    left_ns = max(0.0, left_ns)
    text = (
        f"each trial takes {trial_ns / 1e9:.2f} s ({load_ns / 1e9:.2f} s to load); {in_words(left_ns / 1e9)} are left "
        f"for {int(left_ns / trial_ns)} trials, about enough for {split.plans} of {wanted} configurations "
        f"and to confirm one to about ±{100 * confirmed:.0f} % on a quiet machine"
    )
    if split.plans == wanted:
        return text
    return f"{text}; to test all {wanted}: --budget {as_option(enough_s)}"


def budget_too_short(trial_ns: float, budget_s: float, enough_s: int) -> str:
    """Return the sentence that the budget is too short for any change, and which budget is enough."""
    return (
        f"{in_words(budget_s)} is too short to confirm even one change, because each trial takes "
        f"{trial_ns / 1e9:.1f} s (--budget {as_option(enough_s)} is enough)"
    )


def exploration_forecast(plans: int, wanted: int, *, left_ns: float, needed_ns: float, enough_s: int) -> str:
    """Return the sentence that plans are measured but none can be confirmed, with the times."""
    n = (
        f"at most {plans} of {wanted} configurations {'is' if plans == 1 else 'are'}"
        if wanted > 1
        else "the one configuration is"
    )
    return (
        f"{in_words(left_ns / 1e9)} are left, and confirming a change takes {in_words(needed_ns / 1e9)}: "
        f"{n} measured as exploratory (--budget {as_option(enough_s)} is enough to confirm one)"
    )


def repeat_status(plans: int, dropped: int, beyond_ns: float, enough_s: int) -> str:
    """Return how many plans remain after the controls are repeated, or that there is no time to repeat them."""
    text = "the A/A check or the sensitivity check failed"
    if beyond_ns:
        more = (
            f"repeating both and confirming a change would exceed the budget by {in_words(beyond_ns / 1e9)}"
        )
        return f"{text}: {more}, so the rest is exploratory (--budget {as_option(enough_s)} is enough)"
    if dropped:
        return f"{text}; both are repeated, which leaves time for {plans - dropped} of {plans} configurations"
    return f"{text}; both are repeated"


def race_status(race: Halving) -> str:
    """Return how many configurations are still compared."""
    ranked = [e for e in race.live() if e.ratios]
    many = f"{len(ranked)} of {len(race.entries)}" if ranked else str(len(race.entries))
    return f"comparing {many} configurations"


def ranking(race: Halving) -> list[str]:
    """Return the fastest configurations so far, one per line, best first; empty before the first block."""
    shown = [_standing(entry) for entry in race.live() if entry.ratios][:SHOWN]
    return ["fastest so far, not confirmed:", *shown] if shown else []


def _standing(entry: Entry) -> str:
    """Format a plan and its speed: "1.03x (1.01-1.05x, 6 blocks) intra_op_num_threads=4"; one block has no range."""
    estimate = pairs.wilcoxon_interval(entry.ratios)
    middle, slow, fast = (float(np.exp(-x)) for x in (estimate.centre, estimate.high, estimate.low))
    n = f"{len(entry.ratios)} block{'' if len(entry.ratios) == 1 else 's'}"
    known = len(entry.ratios) > 1 and np.isfinite(fast) and slow > 0
    interval = f"{slow:.2f}-{fast:.2f}x, " if known else ""
    return f"{middle:.2f}x ({interval}{n}) {entry.plan.describe()}"
