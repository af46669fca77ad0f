"""Which of the plans that were raced is confirmed."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from ortune.records import Block, BlockTrial, CaseTimes, Control, Measured, Plan, RewriteSpec, TrialDone
from ortune.search.blocks import BASE
from ortune.search.controls import Judgement
from ortune.search.halving import Entry
from ortune.search.loss import is_lossy
from ortune.search.state import Search, preferred

EXACT = Plan(settings={"intra_op_num_threads": 2})
FEWER_BITS = Plan(rewrites=(RewriteSpec(name="dynamic-int8"),))


def entry(plan: Plan, *ratios: float) -> Entry:
    return Entry(plan=plan, origin="", ratios=[float(np.log(r)) for r in ratios])


def test_results_change_only_for_what_was_seen_to_be_faster() -> None:
    exact = entry(EXACT, 0.75, 0.72, 0.70)
    alike = entry(FEWER_BITS, 0.60, 0.74, 0.66)
    assert preferred([alike, exact], is_lossy) is exact
    faster = entry(FEWER_BITS, 0.60, 0.70, 0.66)
    assert preferred([faster, exact], is_lossy) is exact  # by less than what justifies a loss
    assert preferred([faster, exact], lambda *_: False) is faster
    worth_it = entry(FEWER_BITS, 0.60, 0.68, 0.66)
    assert preferred([worth_it, exact], is_lossy) is worth_it
    many = entry(FEWER_BITS, *np.linspace(0.5, 0.6, 10), 0.9)  # one block that a neighbour spoilt
    assert preferred([many, exact], is_lossy) is many


def test_where_all_change_results_or_none_does_the_fastest_is_confirmed() -> None:
    slow, fast = entry(EXACT, 0.9, 0.9), entry(Plan(settings={"allow_spinning": False}), 0.8, 0.8)
    assert preferred([fast, slow], is_lossy) is fast
    only = entry(FEWER_BITS, 0.9, 0.95)
    assert preferred([only], is_lossy) is only
    assert preferred([], is_lossy) is None


def confirmed(*ratios: float) -> list[Block]:
    """Fresh blocks in which the new side ran so many times as long as the base."""

    def trial(arm: str, run_ns: int) -> BlockTrial:
        case = CaseTimes(case="", weight=1.0, latency_ns=(run_ns,) * 40, first_ns=10**6)
        done = TrialDone(load_ns=1, cases=(case,), cpu_ns=10**8, wall_ns=10**8, n_runs=40, peak_bytes=10**8)
        return BlockTrial(arm=arm, outcome=Measured(plan=arm, done=done, elapsed_ns=10**9))

    return [
        Block(index=i, phase="confirm", trials=(trial(BASE, 10**6), trial("new", int(ratio * 10**6))))
        for i, ratio in enumerate(ratios)
    ]


@pytest.mark.parametrize(("detected", "verdict"), [(True, "faster"), (False, "inconclusive")])
def test_what_shows_where_a_known_slowdown_did_not_must_be_plain(detected: bool, verdict: str) -> None:
    race = SimpleNamespace(references=1, worth=0.01, objective="latency", with_current=False)
    search = Search(race=race, default=Plan(), current=None)  # type: ignore[arg-type]
    spike = Control(name="spike-in", ok=True, n_blocks=9, expected_ratio=1.05, detected=detected)
    search.judgement = Judgement(statistic="median", controls=(spike,), scale=0.1, within=0.0, between=0.0)
    # Eight of nine blocks are faster, and the one that is not is among the nearest: p is 0.02.
    search.confirmation = confirmed(0.70, 0.75, 0.80, 0.84, 0.86, 0.88, 0.90, 1.12, 0.92)
    comparison = search.comparison("new")
    assert comparison is not None
    assert comparison.verdict == verdict
