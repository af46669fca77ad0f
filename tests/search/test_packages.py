"""What needs another package is shipped only if it gains enough over what needs none."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from facts import facts
from ortune.records import (
    Block,
    BlockTrial,
    CaseTimes,
    Control,
    Measured,
    OutputDifference,
    Plan,
    ProviderSpec,
    RewriteSpec,
    TrialDone,
)
from ortune.search import packages
from ortune.search.blocks import BASE
from ortune.search.controls import Judgement
from ortune.search.halving import Entry
from ortune.search.state import Search
from ortune.verbs._shared.shipped import decide

OPENVINO = "OpenVINOExecutionProvider"
FOREIGN, OWN = Plan(providers=(ProviderSpec(name=OPENVINO),)), Plan(settings={"intra_op_num_threads": 2})
NOISE = np.exp(np.linspace(-0.01, 0.01, 12))


def fresh_blocks(ratios: dict[str, np.ndarray]) -> list[Block]:
    """Blocks of a confirmation in which each arm ran so many times as long as the default."""

    def trial(arm: str, run_ns: int) -> BlockTrial:
        case = CaseTimes(case="", weight=1.0, latency_ns=(run_ns,) * 40, first_ns=10**6)
        done = TrialDone(load_ns=1, cases=(case,), cpu_ns=10**8, wall_ns=10**8, n_runs=40, peak_bytes=10**8)
        return BlockTrial(arm=arm, outcome=Measured(plan=arm, done=done, elapsed_ns=10**9))

    return [
        Block(
            index=i,
            phase="confirm",
            trials=(trial(BASE, 10**6), *(trial(arm, int(r[i] * 10**6)) for arm, r in ratios.items())),
        )
        for i in range(len(NOISE))
    ]


def entry(plan: Plan, ratio: float) -> Entry:
    """A plan with the same ratio to the default in four blocks."""
    return Entry(plan=plan, origin="", ratios=[float(np.log(ratio))] * 4)


def search(*, foreign: float, own: float, least: float = 0.10, confirmed: bool = True) -> Search:
    """A search in which both plans were raced and confirmed with these ratios to the default."""
    race = SimpleNamespace(
        references=1,
        worth=0.01,
        objective="latency",
        with_current=False,
        allowed=(),
        default=Plan(),
        limit_bytes=None,
    )
    found = Search(
        race=race,  # type: ignore[arg-type]
        default=Plan(),
        current=None,
        packages=frozenset({OPENVINO}) if least else frozenset(),
        worth_adopting=least,
    )
    spike = Control(name="spike-in", ok=True, n_blocks=9, expected_ratio=1.05, detected=True)
    found.judgement = Judgement(statistic="median", controls=(spike,), scale=0.1, within=0.0, between=0.0)
    entries = [entry(FOREIGN, foreign), entry(OWN, own)]
    ranked = sorted(entries, key=lambda e: e.median_log_ratio)
    chosen = found.leading(ranked)
    assert chosen is not None
    found.winner = chosen
    other = packages.alternative(found, ranked, chosen)
    found.others = [other] if other is not None else []
    if confirmed:
        arms = {entries[0].arm: foreign * NOISE, entries[1].arm: own * NOISE[::-1]}
        found.confirmation = fresh_blocks(arms)
    return found


def shipped(found: Search) -> Plan:
    """What is shipped in the end."""
    assert found.winner is not None
    for other in list(found.others):
        packages.choose(found, found.winner, other)
    return found.winner.plan


@pytest.mark.parametrize(
    ("foreign", "own", "ships"),
    [
        (0.50, 0.80, FOREIGN),  # 37 % over the best without another package
        (0.75, 0.80, OWN),  # 6 %
        (0.85, 0.80, OWN),  # slower
        (0.80, 1.00, FOREIGN),  # 20 % over the default
    ],
)
def test_another_package_has_to_gain_enough(foreign: float, own: float, ships: Plan) -> None:
    assert shipped(search(foreign=foreign, own=own)) == ships


def test_the_other_plan_is_confirmed_too_where_it_is_of_interest() -> None:
    close = search(foreign=0.75, own=0.80)
    assert [e.plan for e in close.others] == [FOREIGN]
    assert packages.left_for_package(close, close.others[0], OWN)
    far = search(foreign=0.50, own=0.80)
    assert [e.plan for e in far.others] == [OWN]
    # A plan of the user's own runtime that gains nothing is no alternative, the default is.
    assert search(foreign=0.50, own=1.0).others == []
    assert search(foreign=0.85, own=0.80).others == []


def test_the_confirmation_decides_and_not_the_race() -> None:
    found = search(foreign=0.60, own=0.80, confirmed=False)
    assert found.winner is not None and found.winner.plan == FOREIGN
    arms = {found.winner.arm: 0.76 * NOISE, found.others[0].arm: 0.80 * NOISE[::-1]}
    found.confirmation = fresh_blocks(arms)
    assert shipped(found) == OWN


def test_a_plan_without_a_gain_of_its_own_does_not_replace_the_leader() -> None:
    found = search(foreign=0.93, own=0.97, confirmed=False)
    assert found.winner is not None and found.winner.plan == OWN
    arms = {found.winner.arm: NOISE, found.others[0].arm: 0.95 * NOISE[::-1]}
    found.confirmation = fresh_blocks(arms)
    assert shipped(found) == OWN  # of which the answer says that it was not confirmed


def test_a_target_that_was_named_needs_no_gain_over_others() -> None:
    found = search(foreign=0.79, own=0.80, least=0.0)
    assert shipped(found) == FOREIGN
    assert not found.others


INT8 = Plan(rewrites=(RewriteSpec(name="dynamic-int8"),))
FAR, ROUNDED = OutputDifference(ok=True, relative_l2=0.01), OutputDifference(ok=True, relative_l2=1e-6)


@pytest.mark.parametrize(
    ("ratio", "outputs", "ships"),
    [(0.97, FAR, False), (0.90, FAR, True), (0.97, ROUNDED, True), (0.955, FAR, False)],
)
def test_a_confirmed_plan_is_shipped_where_its_gain_justifies_its_loss(
    ratio: float, outputs: OutputDifference, ships: bool
) -> None:
    """Noise is 1 %: of 0.955, the whole interval is not below 0.95."""
    found = search(foreign=1.0, own=1.0, confirmed=False)
    found.winner = entry(INT8, ratio)
    found.winner.outputs = outputs
    found.others, found.confirmation = [], fresh_blocks({found.winner.arm: ratio * NOISE})
    comparison = found.comparison(found.winner.arm)
    assert comparison is not None and comparison.verdict == "faster"
    plan, refused = decide(found, comparison, None)
    assert (plan == INT8) is ships
    assert (refused is not None and refused.lossy) is not ships
    if refused is not None:
        facts(refused.why, "dynamic-int8", "beyond rounding", "5 %", "the default is kept")
