"""Facts derived from a tuning result, not yet in words: deciding comparison, tried plans, certainty."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from ortune.records import Candidate, Comparison, Finding, Plan, PrecisionRow, VerdictName
from ortune.verbs.tune.result import TuneResult

MOST_UNSEEN = 0.1
"""Maximum of the minimum detectable effect, as a fraction, at which the current plan can be called the best."""


def verdict(result: TuneResult) -> VerdictName:
    """Return the verdict of the deciding comparison, or "nothing-tested".

    "inconclusive" if nothing was confirmed, or if a faster plan is not proposed.
    """
    if nothing_tested(result):
        return "nothing-tested"
    claim = deciding_claim(result)
    if result.budget.exploratory or claim is None or claim.phase == "race":
        return "inconclusive"
    return "inconclusive" if keeps_current(result) and claim.verdict == "faster" else claim.verdict


def deciding_claim(result: TuneResult) -> Comparison | None:
    """Return the comparison that decides the result: the winner's, or the refused leader's if no change is proposed."""
    return (
        (result.refused.comparison if result.refused else None) if keeps_current(result) else deciding(result)
    )


def keeps_current(result: TuneResult) -> bool:
    """Return whether the plan that runs now (the current plan or the default) is kept."""
    return result.winner == (current_plan(result) or result.default)


def stays_best(result: TuneResult) -> bool:
    """Return whether the plan that runs now is kept, and a relevant gain would have been detected."""
    return keeps_current(result) and not result.budget.exploratory and certainty(result) == "best"


def winner_precision(result: TuneResult) -> PrecisionRow | None:
    """Return the precision row of the winner's quantized model; None if the winner is not quantized."""
    winner = result.winner
    rows = [r for r in result.precision if r.within_ratio != 0 and r.plan.providers == winner.providers]
    return next((r for r in rows if r.plan.rewrites and r.plan.rewrites[-1] in winner.rewrites), None)


def current_plan(result: TuneResult) -> Plan | None:
    """Return the user's current plan; None if it is the default."""
    return result.current if result.current != result.default else None


def deciding(result: TuneResult) -> Comparison | None:
    """Return the comparison for the headline: with the current plan if there is one, or else with the default."""
    if current_plan(result) is not None:
        return result.against_current
    return result.against_default


def nothing_tested(result: TuneResult) -> bool:
    """Return whether no other configuration ran, so that there is no result."""
    compared = (result.against_default, result.against_current, result.refused)
    return (
        not plans_that_ran(result.candidates)
        and not result.failed_leader
        and all(comparison is None for comparison in compared)
    )


Standing = Literal["nothing-tested", "no-change", "not-shown", "best"]


def certainty(result: TuneResult) -> Standing:
    """Return how certain it is that no tested plan is better than the plan that is kept.

    "best" requires that at least one plan ran, and that the minimum detectable effect is known and small enough.
    """
    verdict = result.refused.comparison.verdict if result.refused else None
    if nothing_tested(result):
        return "nothing-tested"
    if verdict == "faster":
        return "no-change"
    least = detectable_effect(result)
    ran = any(c.n_blocks for c in plans_that_ran(result.candidates))
    missed = least is None or least > MOST_UNSEEN or not ran
    return "not-shown" if verdict == "inconclusive" or result.failed_leader or missed else "best"


def untried_plans(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return the candidates that were not tried for lack of time."""
    return [c for c in candidates if c.reason == "budget"]


def plans_that_ran(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return the candidates that ran at least once, without the default and the current plan."""
    return [c for c in candidates if c.status not in ("not-tried", "default", "current")]


def measured_right(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return the candidates with a valid time, correct outputs and no failure."""
    ran = (c for c in plans_that_ran(candidates) if c.ratio is not None)
    return [c for c in ran if c.status not in ("failed", "wrong-output")]


def detectable_effect(result: TuneResult) -> float | None:
    """Return the minimum detectable effect as a fraction; None if unknown."""
    comparison = result.refused.comparison if result.refused else deciding(result)
    return comparison.smallest_effect_ratio if comparison else result.smallest_effect_ratio


def fixed_findings(result: TuneResult) -> list[Finding]:
    """Return the findings that a rewrite of the model fixes."""
    return [f for f in result.findings if f.plan is not None and f.plan.rewrites]


def is_in_winner(result: TuneResult, plan: Plan) -> bool:
    """Return whether the winner includes all rewrites of a plan."""
    return {s.name for s in plan.rewrites} <= {s.name for s in result.winner.rewrites}


def base_name(result: TuneResult) -> str:
    """Return the name of the headline's baseline."""
    return "current" if current_plan(result) is not None else default_name(result)


def default_name(result: TuneResult) -> str:
    """Return the name for the default, which depends on whether it runs, is correct and fits in memory."""
    if result.default_broken:
        return "working default"
    if result.wrong_default is not None:
        return "correct default"
    return "baseline" if _too_large(result) else "default"


def only_corrects(result: TuneResult) -> bool:
    """Return whether the only change is the replacement of a default that is wrong, does not run or is too large."""
    replaced = result.wrong_default is not None or _too_large(result)
    return replaced and current_plan(result) is None and result.winner == result.default


def _too_large(result: TuneResult) -> bool:
    return result.within_memory is not None and result.within_memory.base is not None
