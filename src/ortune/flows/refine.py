"""After the screening: survivors are combined, numbers beside the leader's tried, and what does not pay leaves it."""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

from ortune import knobs
from ortune.flows.parts import only, parts, together
from ortune.knobs.neighbours import neighbours
from ortune.records import Plan
from ortune.search import budget, confirm
from ortune.search.race import Entry, Race

Costs = NDArray[np.float64]
"""log(without a part / with it), one a block."""

COMBINED = 4  # the best survivors that are combined
PAYS = (
    0.5  # a setting stays when leaving it out costs at least this share of the smallest effect that matters
)


def combine(race: Race, floor: Plan) -> None:
    """Combinations of the survivors, best first, raced beside the best of them."""
    best = [e for e in race.live() if e.ratios and e.middle < -PAYS * np.log1p(race.worth)][:COMBINED]
    if len(best) < 2:
        return
    combined: list[Entry] = []
    for size in range(2, len(best) + 1):
        for start in range(len(best) - size + 1):
            group = best[start : start + size]
            plan = together([e.plan for e in group], floor)
            if plan is not None and plan.id not in race.entries:
                entry = Entry(plan=plan, origin="combination", prior=sum(e.middle for e in group))
                combined.append(race.add(entry))
    field = [best[0], *combined]
    room = [e for e in field if e.live][: budget.FIELD]
    for entry in field[budget.FIELD :]:
        entry.retire("not-tried", "more combinations than one block holds")
    for _ in range(budget.ROUNDS[1]):
        if not race.round([e for e in room if e.live]):
            break
    finalists = sorted((e for e in room if e.live and e.ratios), key=lambda e: e.rank)[:2]
    for _ in range(budget.ROUNDS[1]):
        if not finalists or not race.round([e for e in finalists if e.live]):
            break


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
