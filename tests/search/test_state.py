"""Which of the plans that were raced is confirmed."""

from __future__ import annotations

import numpy as np

from ortune.records import Plan, RewriteSpec
from ortune.search.halving import Entry
from ortune.search.state import preferred

EXACT = Plan(settings={"intra_op_num_threads": 2})
FEWER_BITS = Plan(rewrites=(RewriteSpec(name="dynamic-int8"),))


def entry(plan: Plan, *ratios: float) -> Entry:
    return Entry(plan=plan, origin="", ratios=[float(np.log(r)) for r in ratios])


def test_results_change_only_for_what_was_seen_to_be_faster() -> None:
    exact = entry(EXACT, 0.75, 0.72, 0.70)
    alike = entry(FEWER_BITS, 0.60, 0.74, 0.66)
    assert preferred([alike, exact]) is exact
    faster = entry(FEWER_BITS, 0.60, 0.70, 0.66)
    assert preferred([faster, exact]) is faster
    many = entry(FEWER_BITS, *np.linspace(0.55, 0.65, 10), 0.9)  # one block that a neighbour spoilt
    assert preferred([many, exact]) is many


def test_where_all_change_results_or_none_does_the_fastest_is_confirmed() -> None:
    slow, fast = entry(EXACT, 0.9, 0.9), entry(Plan(settings={"allow_spinning": False}), 0.8, 0.8)
    assert preferred([fast, slow]) is fast
    only = entry(FEWER_BITS, 0.9, 0.95)
    assert preferred([only]) is only
    assert preferred([]) is None
