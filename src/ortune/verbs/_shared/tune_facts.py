"""What a tuning says before it is worded: the comparison that decides, what stays, what was tried, how sure it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from ortune.records import Candidate, Comparison, Finding, Plan, PrecisionRow, VerdictName
from ortune.verbs.tune.result import TuneResult

MOST_UNSEEN = 0.1
"""The largest minimum detectable effect, as a share, with which what runs may be called the best."""


def verdict(result: TuneResult) -> VerdictName:
    """What the deciding comparison says; "inconclusive" where nothing decides, or what is faster is not proposed."""
    if nothing_tested(result):
        return "nothing-tested"
    claim = claimed(result)
    if result.budget.exploratory or claim is None or claim.phase == "race":
        return "inconclusive"
    return "inconclusive" if kept(result) and claim.verdict == "faster" else claim.verdict


def claimed(result: TuneResult) -> Comparison | None:
    """Return the comparison that the answer is about: of the winner, or of the leader where what runs stays."""
    return (result.refused.comparison if result.refused else None) if kept(result) else deciding(result)


def kept(result: TuneResult) -> bool:
    """Return whether what runs stays."""
    return result.winner == (today(result) or result.default)


def stays_best(result: TuneResult) -> bool:
    """Return whether what runs stays, and a gain that matters would have been seen."""
    return kept(result) and not result.budget.exploratory and standing(result) == "best"


def fewer_bits(result: TuneResult) -> PrecisionRow | None:
    """Return what is known of the winner's quantized model, where it runs one."""
    winner = result.winner
    rows = [r for r in result.precision if r.within_ratio != 0 and r.plan.providers == winner.providers]
    return next((r for r in rows if r.plan.rewrites and r.plan.rewrites[-1] in winner.rewrites), None)


def today(result: TuneResult) -> Plan | None:
    """Return what the user runs today, where that is anything but the untouched default."""
    return result.current if result.current != result.default else None


def deciding(result: TuneResult) -> Comparison | None:
    """Return the comparison that the headline rests on: against today's plan where there is one, else the default."""
    if today(result) is not None:
        return result.against_current
    return result.against_default


def nothing_tested(result: TuneResult) -> bool:
    """Return whether no other configuration ran: that is no answer, and nothing is the best of none."""
    compared = (result.against_default, result.against_current, result.refused)
    return (
        not tried(result.candidates)
        and not result.failed_leader
        and all(comparison is None for comparison in compared)
    )


Standing = Literal["nothing-tested", "no-change", "not-shown", "best"]


def standing(result: TuneResult) -> Standing:
    """Return how sure it is that nothing is better than what runs, where that stays.

    The best, only where no plan is left that may be better and a gain that matters would have been seen: where it is
    not known which difference that is, or only one of half the time, none was ruled out.
    """
    verdict = result.refused.comparison.verdict if result.refused else None
    if nothing_tested(result):
        return "nothing-tested"
    if verdict == "faster":
        return "no-change"
    least = least_seen(result)
    ran = any(c.n_blocks for c in tried(result.candidates))
    missed = least is None or least > MOST_UNSEEN or not ran
    return "not-shown" if verdict == "inconclusive" or result.failed_leader or missed else "best"


def left_out(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return plans that were proposed and for which there was no time."""
    return [c for c in candidates if c.reason == "budget"]


def tried(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return the plans that ran at least once, the default and today's plan left out."""
    return [c for c in candidates if c.status not in ("not-tried", "default", "current")]


def measured_right(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return the plans of which a time is known that means something: right outputs, and no failure."""
    ran = (c for c in tried(candidates) if c.ratio is not None)
    return [c for c in ran if c.status not in ("failed", "wrong-output")]


def least_seen(result: TuneResult) -> float | None:
    """Return the minimum detectable effect, as a share."""
    comparison = result.refused.comparison if result.refused else deciding(result)
    return comparison.smallest_effect_ratio if comparison else result.smallest_effect_ratio


def mended(result: TuneResult) -> list[Finding]:
    """Return the findings about the file that a rewrite mends."""
    return [f for f in result.findings if f.plan is not None and f.plan.rewrites]


def shipped(result: TuneResult, plan: Plan) -> bool:
    """Return whether the winner has all rewrites of a plan."""
    return {s.name for s in plan.rewrites} <= {s.name for s in result.winner.rewrites}


def base_name(result: TuneResult) -> str:
    """Return what the headline compares with."""
    return "current" if today(result) is not None else default_name(result)


def default_name(result: TuneResult) -> str:
    """Return what the baseline is called where the default itself does not run, or has wrong outputs."""
    if result.default_broken:
        return "working default"
    if result.wrong_default is not None:
        return "correct default"
    return "baseline" if _too_large(result) else "default"


def corrected(result: TuneResult) -> bool:
    """Return whether the default is wrong, does not run or is too large, and the base is all that is to be set."""
    replaced = result.wrong_default is not None or _too_large(result)
    return replaced and today(result) is None and result.winner == result.default


def _too_large(result: TuneResult) -> bool:
    return result.within_memory is not None and result.within_memory.base is not None
