"""After the screening: survivors are combined, numbers beside the leader's tried, and what does not pay leaves it."""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

from ortune import knobs
from ortune.flows.parts import changed, only, parts, together
from ortune.knobs.neighbours import neighbours
from ortune.records import Plan
from ortune.search import budget, confirm
from ortune.search.race import Entry, Race

Costs = NDArray[np.float64]
"""log(without a part / with it), one a block."""

STEPS = 3  # how often something is added to the leader
ADDED = 3  # the best single changes that are added to it, one plan each
PAYS = (
    0.5  # a setting stays when leaving it out costs at least this share of the smallest effect that matters
)


def combine(race: Race, floor: Plan) -> None:
    """Builds on the leader, step by step: with the next best changes added, one each and all that helped at once.

    What did not pay alone is tried too: settings depend on each other (without its arena ONNX Runtime is slower
    on the C library's malloc, and faster on mimalloc).
    """
    alone = sorted(
        (e for e in race.entries.values() if e.ratios and e.fate not in ("failed", "wrong-output")),
        key=lambda e: e.rank,
    )
    for _ in range(STEPS):
        leader = next((e for e in race.live() if e.ratios), None)
        if leader is None or leader.rank >= 0:
            return
        added = _added(race, leader, alone, floor)
        if not added:
            return
        field = [leader, *added]
        for blocks in (budget.ROUNDS[0], budget.ROUNDS[1] - budget.ROUNDS[0]):
            for _ in range(blocks):
                if not race.round([e for e in field if e.live]):
                    break
            field = [leader, *sorted((e for e in added if e.live and e.ratios), key=lambda e: e.middle)[:2]]
        for entry in added:
            if entry.live and not entry.ratios:
                entry.retire("not-tried", "the budget ended first")
        if race.live()[0] is leader:
            return


def _added(race: Race, leader: Entry, alone: list[Entry], floor: Plan) -> list[Entry]:
    """Plans that are the leader and something more; never more than a block holds beside it."""
    plans: list[tuple[Plan, float]] = []
    helped = [e for e in alone if e.live and e.middle < -PAYS * np.log1p(race.worth)]
    union = together([leader.plan, *(e.plan for e in helped)], floor) if len(helped) > 2 else None
    if union is not None:
        plans.append((union, sum(e.middle for e in helped)))
    for other in alone:
        plan = changed(leader.plan, other.plan, floor)
        if plan is not None and len(plans) < ADDED + (union is not None):
            plans.append((plan, leader.middle + other.middle))
    unique = {p.id: (p, prior) for p, prior in plans if p.id not in race.entries}
    return [race.add(Entry(plan=p, origin="combination", prior=prior)) for p, prior in unique.values()]


def explore(race: Race, leader: Entry, floor: Plan, cpus: int) -> None:
    """Local search: the leader with one of its numbers a step lower or higher, beside it in the same blocks."""
    near: list[Entry] = []
    for name, value in leader.plan.settings.items():
        if name in floor.settings:
            continue
        for other in neighbours(knobs.find(name), value, cpus):
            plan = msgspec.structs.replace(leader.plan, settings={**leader.plan.settings, name: other})
            if plan.id not in race.entries:
                near.append(race.add(Entry(plan=plan, origin=f"beside the leader: {name}={other}")))
    for entry in near[budget.FIELD - 1 :]:
        entry.retire("not-tried", "more neighbours of the leader than one block holds")
    field = [leader, *(e for e in near if e.live)]
    for _ in range(budget.ROUNDS[1] if len(field) > 1 else 0):
        if not race.round([e for e in field if e.live]):
            break
    for entry in near:
        if entry.live and not entry.ratios:
            entry.retire("not-tried", "the budget ended first")


def prune(race: Race, winner: Entry, floor: Plan) -> tuple[Entry, dict[str, Costs]]:
    """Leaves each part of the winner out once; only those that pay stay."""
    mine = parts(winner.plan, floor)
    if len(mine) < 2:
        return winner, {}
    costs: dict[str, Costs] = {}
    without = {}
    for name, plan in mine:
        known = race.entries.get(plan.id)
        entry = (
            known
            if known is not None and known.live
            else Entry(plan=plan, origin=f"the winner without {name}")
        )
        if known is not None and not known.live:
            continue  # a part whose absence was already shown to lose
        without[name] = race.add(entry)
    cost = confirm.prune(race, winner, list(without.values()))
    keep = dict.fromkeys((name for name, _ in mine), True)
    for name, entry in without.items():
        ratios = cost.get(entry.arm, np.empty(0))
        costs[name] = ratios
        if len(ratios) >= 3:
            keep[name] = float(np.median(ratios)) > PAYS * np.log1p(race.worth)
    if all(keep.values()):
        return winner, costs
    if not any(keep.values()):
        best = min(without.values(), key=lambda e: e.middle)
        return (best if best.ratios and best.live else winner), costs
    plan = only(winner.plan, {name for name, kept in keep.items() if kept}, floor)
    pruned = race.add(Entry(plan=plan, origin="the winner without what does not pay"))
    if pruned is not winner:
        winner.retire("pruned", "some of its settings do not pay")
    return pruned, costs
