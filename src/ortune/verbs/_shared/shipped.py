"""Decides which plan a tuning ships: the winner or the current plan, with the reason for refusing the winner."""

from __future__ import annotations

import numpy as np

from ortune.records import BUSY, Comparison, Plan, Refused
from ortune.search.blocks import BASE, failures, log_ratios, measured
from ortune.search.figures import describe
from ortune.search.guards import over_memory, waived
from ortune.search.halving import CURRENT
from ortune.search.loss import WORTH_LOSS, justifies_loss
from ortune.search.state import Search
from ortune.show import others_words
from ortune.verbs._shared import tuned_words
from ortune.verbs._shared.other_programs import worded
from ortune.verbs.tune.result import OtherPackage


def other_package(search: Search, shipped: Plan) -> OtherPackage | None:
    """Return the fastest confirmed plan that needs another package if the shipped plan does not, or vice versa.

    None if there is no such plan.
    """
    if not search.packages or search.winner is None:
        return None
    needs = search.needs_package(shipped)
    entries = [
        entry for entry in (search.winner, *search.others) if search.needs_package(entry.plan) != needs
    ]
    for entry in entries:
        comparison = search.comparison(entry.arm, search.base)
        if comparison is not None and comparison.verdict == "faster":
            figures = describe(measured(search.confirmation, entry.arm), search.judgement.statistic)
            against = next((e for e in (search.winner, *search.others) if e.plan == shipped), None)
            over = search.comparison(entry.arm, against.arm) if against is not None else None
            return OtherPackage(
                plan=entry.plan, comparison=worded(comparison) or comparison, figures=figures, over=over
            )
    return None


def decide(
    search: Search, against_default: Comparison | None, current: Comparison | None
) -> tuple[Plan, Refused | None]:
    """Return the plan to ship, and the refusal of the fastest plan; the refusal is None if this plan is shipped.

    Args:
        search: The search with its confirmation.
        against_default: Comparison of the fastest plan with the default; None if there is none.
        current: Comparison of the fastest plan with the current plan; None if there is none.
    """
    race, stays = search.race, running_plan(search)
    if search.winner is None or against_default is None:
        return stays, None
    plan, leader = search.winner.plan, tuned_words.subject(search.winner.plan.describe())
    name = "what runs today" if race.with_current else "the default"
    deciding = current if race.with_current else against_default
    if deciding is None or plan == stays:
        return plan, None
    allowed = (*race.allowed, *waived(plan, race.default))
    failed = [g.figure for g in deciding.guards if g.failed and g.figure not in allowed]
    alone = search.comparison_alone()
    fell = failures(search.alone, search.winner.arm)
    lossy = False
    peak = over_memory(measured(search.confirmation, search.winner.arm), race.limit_bytes)
    # A plan that fails alone or is slower alone is refused first, however fast it was next to other processes.
    if fell:
        why = tuned_words.fell_alone(leader, name, fell[-1].reason)
    elif deciding.verdict == "faster" and alone is not None and alone.ratio_low > 1:
        why = tuned_words.not_shipped(leader, name, "slower-alone", race.worth)
    elif deciding.verdict != "faster":
        why = tuned_words.not_shipped(leader, name, "not-confirmed", race.worth)
    elif lossy := search.is_lossy(plan, search.winner.outputs) and not justifies_loss(deciding):
        why = tuned_words.not_shipped(leader, name, "small-lossy-gain", WORTH_LOSS)
    elif deciding.ratio > 1 - race.worth:
        why = tuned_words.not_shipped(leader, name, "small-gain", race.worth)
    elif peak:
        why = tuned_words.over_memory(leader, name, peak)
    elif failed:
        why = tuned_words.worsens(leader, name, failed)
    elif search.needs_package(plan) and deciding.ratio > 1 - search.worth_adopting:
        why = tuned_words.not_adopted(leader, name, search.worth_adopting)
    elif others_words.only_under_load(deciding) and BUSY not in race.allowed:
        why = tuned_words.not_shipped(leader, name, "under-load", race.worth)
    else:
        return plan, None
    figures = describe(measured(search.confirmation, search.winner.arm), search.judgement.statistic)
    return stays, Refused(plan=plan, comparison=deciding, why=why, figures=figures, lossy=lossy)


def faster_under_load(search: Search) -> list[str]:
    """Return a note for each confirmed plan that is faster than the winner, but only under load."""
    if search.winner is None:
        return []
    compared = [(entry, search.comparison(entry.arm, search.winner.arm)) for entry in search.others]
    return [
        tuned_words.faster_under_load(tuned_words.subject(entry.plan.describe()))
        for entry, comparison in compared
        if comparison is not None
        and others_words.only_under_load(comparison)
        and comparison.verdict == "faster"
    ]


def failed_leader(search: Search) -> str:
    """Return a phrase on the leader and why it failed during its confirmation; "" if it did not fail."""
    winner = search.winner
    if winner is None or winner.status != "failed" or not search.confirmation:
        return ""
    assert winner.why is not None
    return f"{tuned_words.subject(winner.plan.describe())} {tuned_words.reason(winner.why)}"


def rejected(search: Search) -> str:
    """Return a note on the fastest plan that was rejected because another metric got worse; "" if there is none."""
    least = float(np.log1p(-search.race.worth))
    if search.default_worsens:
        ratios = log_ratios(search.race.all_blocks, BASE, search.judgement.statistic, base=CURRENT)
        if len(ratios) and (middle := float(np.median(ratios))) < least:
            return tuned_words.rejected(
                tuned_words.DEFAULT,
                tuned_words.CURRENT,
                100 * np.expm1(middle),
                len(ratios),
                search.default_worsens,
            )
    # Only plans that beat both the least worthwhile change and the shipped plan are reported.
    if search.winner is not None:
        least = min(least, search.winner.median_log_ratio)
    worse = [
        e
        for e in search.race.entries.values()
        if e.status == "eliminated" and e.worsens and e.median_log_ratio < least
    ]
    if not worse:
        return ""
    best = min(worse, key=lambda e: e.median_log_ratio)
    ahead = 100 * np.expm1(best.median_log_ratio)
    return tuned_words.rejected(
        tuned_words.subject(best.plan.describe()), tuned_words.DEFAULT, ahead, len(best.ratios), best.worsens
    )


def running_plan(search: Search) -> Plan:
    """Return the plan that runs if nothing is changed: the current plan, or else the default."""
    return search.current if search.current is not None else search.default
