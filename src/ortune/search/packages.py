"""Chooses between the user's packages and another package, which must gain enough to be adopted.

Another build of ONNX Runtime replaces a package with which an application was tested. A plan that needs another build
is shipped only if it is faster by ``Search.worth_adopting`` than the best plan without; both are confirmed in the same
blocks.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ortune.records import Comparison, Plan
from ortune.search.guards import waived
from ortune.search.halving import Entry
from ortune.search.loss import justifies_loss
from ortune.search.refine import PAYS
from ortune.search.state import Search


def alternative(search: Search, ranked: Sequence[Entry], winner: Entry) -> Entry | None:
    """Return the plan to confirm with the winner; None if it gains too little.

    It is the fastest plan with another package, or if the winner needs another package, the fastest plan without.

    Args:
        search: The search so far.
        ranked: Plans that neither failed nor had wrong outputs, fastest first.
        winner: The plan to confirm.
    """
    if not search.packages:
        return None
    least = -PAYS * np.log1p(search.race.worth)
    needs = search.needs_package(winner.plan)
    other = next((entry for entry in ranked if search.needs_package(entry.plan) != needs), None)
    # A plan with another package matters only if it is faster than the best without one.
    limit = least if needs else winner.median_log_ratio + least
    return other if other is not None and other.median_log_ratio < limit else None


def choose(search: Search, winner: Entry, other: Entry) -> Entry:
    """Return which of two confirmed plans to ship: the plan with another package only if it gains enough.

    If ``other`` is chosen, it becomes ``search.winner``, and the winner becomes part of ``search.others``.
    """
    if other not in search.others or not winner.live:
        return winner
    foreign, own = (winner, other) if search.needs_package(winner.plan) else (other, winner)
    adopted = _sound(search, foreign) and worth_adopting(search, search.comparison(foreign.arm, own.arm))
    chosen = foreign if adopted else own
    # Without a confirmed gain there is nothing to ship: the winner stays and is judged by itself.
    if chosen is winner or not (adopted or _sound(search, own)):
        return winner
    search.others = [winner, *(entry for entry in search.others if entry is not chosen)]
    search.winner = chosen
    search.ablation = {}  # the ablation was of the other plan
    return chosen


def worth_adopting(search: Search, comparison: Comparison | None) -> bool:
    """Return whether a confirmed comparison shows the gain that justifies another package."""
    return (
        comparison is not None
        and comparison.verdict == "faster"
        and comparison.ratio <= 1 - search.worth_adopting
    )


def left_for_package(search: Search, entry: Entry, shipped: Plan) -> bool:
    """Return whether a plan is faster than the shipped plan, but not by enough to justify its package."""
    if not search.needs_package(entry.plan) or search.needs_package(shipped) or entry not in search.others:
        return False
    comparison = search.comparison(entry.arm, search.winner.arm if search.winner else search.base)
    return comparison is not None and comparison.ratio < 1


def _sound(search: Search, entry: Entry) -> bool:
    """Return whether a plan has a confirmed gain that justifies a change and its loss, and no failed guard."""
    comparison = search.comparison(entry.arm, search.base)
    if comparison is None or comparison.verdict != "faster" or comparison.ratio > 1 - search.race.worth:
        return False
    if search.is_lossy(entry.plan, entry.outputs) and not justifies_loss(comparison):
        return False
    allowed = (*search.race.allowed, *waived(entry.plan, search.race.default))
    return entry.live and not any(g.failed and g.figure not in allowed for g in comparison.guards)
