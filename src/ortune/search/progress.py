"""What a budget holds, said before it is spent; and where the race stands while it is."""

from __future__ import annotations

import numpy as np

from ortune.search import budget
from ortune.search.race import Race
from ortune.stats import detect, pairs

USUAL_SCALE = 0.015  # of blocks on an ordinary machine, before this one has been measured


def forecast(
    split: budget.Split,
    wanted: int,
    *,
    budget_s: float,
    spent_ns: int,
    trial_ns: float,
    load_ns: float,
    references: int,
) -> str:
    """Trials, plans and precision that the budget holds, and the budget that would hold every plan."""
    confirmed = detect.smallest_effect(USUAL_SCALE, budget.LEAST_CONFIRM, method="wilcoxon")
    left_ns = max(0.0, budget_s * 1e9 - spent_ns)
    text = (
        f"one trial {trial_ns / 1e9:.2f} s (loading it {load_ns / 1e9:.2f}); the {left_ns / 1e9:.0f} s that are left "
        f"hold {int(left_ns / trial_ns)} trials: enough for {split.plans} of {wanted} plans, "
        f"and on a quiet machine to confirm one to about ±{100 * confirmed:.0f} %"
    )
    if split.plans == wanted:
        return text
    minutes = max(1, round((budget.needed_ns(wanted, trial_ns, references) + spent_ns) / 60e9 + 0.5))
    return f"{text}; all {wanted}: {minutes} min (--budget {minutes}m)"


def repeat_status(plans: int, dropped: int, beyond_ns: float) -> str:
    """What it takes that the controls are repeated, out of the race or beyond the budget."""
    text = "the A/A check or the positive control failed; both are repeated"
    if dropped:
        text += f", and the budget then holds {plans - dropped} of the {plans} plans"
    if beyond_ns:
        text += f": with the confirmation that takes about {beyond_ns / 1e9:.0f} s more than the budget"
    return text


def race_status(race: Race) -> str:
    """Who leads the race, by how much, and how sure that is."""
    ranked = [e for e in race.live() if e.ratios]
    if not ranked:
        return f"racing {len(race.entries)} plans"
    best = ranked[0]
    found = pairs.wilcoxon_interval(best.ratios)
    middle, low, high = (f"{100 * np.expm1(x):+.1f}" for x in (found.centre, found.low, found.high))
    return (
        f"racing {len(ranked)} of {len(race.entries)} plans; the leader {middle} % against the default "
        f"({low} to {high}, {len(best.ratios)} blocks, exploratory): {best.plan.describe()}"
    )
