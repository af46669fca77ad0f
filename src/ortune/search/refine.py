"""After the screening: survivors are combined, numbers near the leader's tried, and what does not pay leaves it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from ortune.catalogue import knobs
from ortune.records import Plan
from ortune.search import confirm, trial_counts
from ortune.search.blocks import log_ratios
from ortune.search.halving import Entry, Halving
from ortune.search.plan_edits import changed, only, parts, together
from ortune.search.proposals.neighbours import neighbours
from ortune.search.reasons import ENDED, Reason
from ortune.search.schedule import Steps

Costs = NDArray[np.float64]
"""log(without a part / with it), one a block."""

STEPS = 3  # how often something is added to the leader
ADDED = 4  # plans beside the leader in a step: all that helped at once, then one change each
BLOCKS = (2, 2)  # of a step: for all of them, then for the best two
CHECK = 4  # blocks of the ablated plan beside the whole one, where more than one part would go
PAYS = (
    0.5  # a setting stays when leaving it out costs at least this share of the smallest effect that matters
)


def try_rest(race: Halving, entries: Sequence[Entry], *, followed: bool = True) -> Steps[None]:
    """Yield plans that the screening did not hold, in as large groups as the time that is really left still holds.

    Args:
        race: Which enters them.
        entries: Those plans, the most likely first.
        followed: Whether the leader is built on and ablated afterwards, which needs time; not where plans are only
            seen.
    """
    waiting = list(entries)
    while waiting:
        gains = any(e.ratios and e.middle < -np.log1p(race.worth) for e in race.live())
        # Where something leads, a step that builds on it and ablation come after this.
        # Otherwise what was not tried yet is all that can still win, and gets all of the time.
        # With one reference a step takes 4 x (1 + 1 + 4) = 24 trials, and ablation of two parts 36: 60 in
        # all.
        after = sum(BLOCKS) * (race.references + 1 + ADDED) + ablation_trials(race, 2)
        after = after if followed and gains else 0
        sizes = range(min(trial_counts.FIELD, len(waiting)), 0, -1)
        fitting = (
            n
            for n in sizes
            if not race.out_of_time(math.ceil(trial_counts.screening_trials(n, race.references)) + after)
        )
        # The largest group that fits: it shares its references, so that each plan of it is cheaper than alone.
        size = next(fitting, 0)
        if not size:
            break
        group, waiting = waiting[:size], waiting[size:]
        yield from race.screen([race.add(e) for e in group])


def combine(race: Halving, leader: Entry, required: Plan) -> Steps[Entry]:
    """Build on the leader, step by step: with the next best changes added, one each and all that helped at once.

    What did not pay alone is tried too: settings depend on each other (without its arena ONNX Runtime is slower
    on the C library's malloc, and faster on mimalloc).

    Returns:
        The new leader, or the old one where nothing beat it.
    """
    alone = sorted(
        (e for e in race.entries.values() if e.ratios and e.sound),
        key=race.rank,
    )
    for _ in range(STEPS):
        # A leader that gains next to nothing by itself is nothing to build on: its steps would be ranked on noise.
        if leader.middle >= -PAYS * np.log1p(race.worth):
            return leader
        added = _added(race, leader, alone, required)
        better = yield from _raced_with(race, leader, added, required)
        if better is leader:
            return leader
        leader = better
    return leader


def explore(race: Halving, leader: Entry, required: Plan, cpus: int) -> Steps[Entry]:
    """Local search: the leader with one of its numbers a step lower or higher, in the same blocks as the leader."""
    near: list[Entry] = []
    for name, value in leader.plan.settings.items():
        if name in required.settings:
            continue
        for other in neighbours(knobs.find(name), value, cpus):
            plan = msgspec.structs.replace(leader.plan, settings={**leader.plan.settings, name: other})
            if plan.id not in race.entries:
                near.append(race.add(Entry(plan=plan, origin=f"near the leader: {name}={other}")))
    for entry in near[trial_counts.FIELD - 1 :]:
        entry.eliminate("not-tried", Reason(code="too-many-neighbours"))
    return (yield from _raced_with(race, leader, [e for e in near if e.live], required))


def _added(race: Halving, leader: Entry, alone: list[Entry], required: Plan) -> list[Entry]:
    """Return plans that are the leader and something more, which did not run yet."""
    helped: list[Entry] = []
    alone = [e for e in alone if e.plan.providers == leader.plan.providers]
    for other in alone:
        # Of two plans that set the same thing the better one is in the sum, since they are gone through best first.
        taken = {name for e in helped for name in e.plan.settings}
        if (
            other.live
            and other.middle < -PAYS * np.log1p(race.worth)
            and not taken & other.plan.settings.keys()
        ):
            helped.append(other)
    # Everything that helped at once first; then each alone beside the leader, in case two of them do the same.
    union = together([leader.plan, *(e.plan for e in helped)], required)
    # Log ratios are added as if parts were independent, which they are not: it orders the candidates, and the blocks
    # judge.
    wished = [(union, sum(race.rank(e) for e in helped))]
    wished += [(changed(leader.plan, e.plan, required), race.rank(leader) + race.rank(e)) for e in alone]
    plans: dict[str, tuple[Plan, float]] = {}
    for plan, expected in wished:
        if plan is not None and plan.id not in race.entries and len(plans) < ADDED:
            plans.setdefault(plan.id, (plan, expected))
    return [
        race.add(Entry(plan=p, origin="combination", expected=expected)) for p, expected in plans.values()
    ]


def _raced_with(race: Halving, leader: Entry, others: list[Entry], required: Plan) -> Steps[Entry]:
    """Yield the leader and others in the same blocks; who beats the leader in these is the new one."""
    field = [e for e in others if e.live]
    # What ablation will need must be left: a plan whose parts were not shown to pay is not to be handed out.
    race.reserved = ablation_trials(race, max((len(parts(e.plan, required)) for e in field), default=0))
    for blocks in BLOCKS:
        for _ in range(blocks):
            live = [e for e in field if e.live]
            if not live or not leader.live or not (yield from race.round([leader, *live])):
                break
        # More blocks go to the two best alone: a field of five would cost the ablation its time.
        sound = (e for e in field if e.live and e.ratios and not race.refuse(e))
        field = sorted(sound, key=lambda e: log_ratio_to(race, e, leader))[:2]
    race.reserved = 0
    for entry in others:
        if entry.live and not entry.ratios:
            entry.eliminate("not-tried", ENDED)
    best = field[0] if field else leader
    if not leader.live:
        return next((e for e in race.live() if e.ratios), leader)
    return best if log_ratio_to(race, best, leader) < -PAYS * np.log1p(race.worth) else leader


def log_ratio_to(race: Halving, entry: Entry, leader: Entry) -> float:
    """Return median log(entry / leader) over the blocks that both ran in, drawn towards 0 if these are few."""
    if entry is leader:
        return 0.0
    ratios = log_ratios(race.blocks, entry.arm, race.statistic, base=leader.arm)
    # In the same blocks, not by their ratios to the default: what a block does to both cancels, which is all that can
    # tell plans of nearly one speed apart. One block's weight at 0 is against a lucky pair.
    return float(np.median(ratios)) * len(ratios) / (len(ratios) + 1) if len(ratios) else 0.0


def ablation_trials(race: Halving, n_parts: int) -> int:
    """Return trials that ablation a plan of so many parts takes."""
    if n_parts < 2:
        return 0
    # Two parts, one reference: 6 x (1 + 1 + 2) + 4 x (1 + 2) = 36 trials.
    return confirm.ablation_blocks(n_parts) * (race.references + 1 + n_parts) + CHECK * (race.references + 2)


def ablate(race: Halving, winner: Entry, required: Plan) -> Steps[tuple[Entry, dict[str, Costs]]]:
    """Leave each part of the winner out once; only those that pay stay.

    Returns:
        The plan to confirm, and log(without a part / with it) a block for each part that was measured.
    """
    mine = parts(winner.plan, required)
    # On another provider than every plan's, one setting is held against that provider alone.
    if len(mine) < (2 if winner.plan.providers == required.providers else 1):
        return winner, {}
    without = {}
    for name, plan in mine:
        entry = race.entries.get(plan.id) or race.add(Entry(plan=plan, origin=f"the winner without {name}"))
        if _revive(entry):
            without[name] = entry
    # Beside the winner in the same blocks: a part is judged by what its absence costs there, not by what it brought
    # alone, since settings depend on each other.
    cost = yield from confirm.ablate(race, winner, list(without.values()))
    costs = {name: cost.get(entry.arm, np.empty(0)) for name, entry in without.items()}
    if not winner.live:
        return winner, costs
    keep = dict.fromkeys((name for name, _ in mine), True)
    for name, ratios in costs.items():
        # Fewer than three blocks show no cost either way: the part stays, as it was in the plan that won.
        if len(ratios) >= 3:
            keep[name] = float(np.median(ratios)) > PAYS * np.log1p(race.worth)
    if all(keep.values()):
        return winner, costs
    # Each part was left out with all others there, so two that do the same thing both look idle. Where more than one is
    # to go at once, the plan without them all has to be as fast in blocks of its own.
    plan = only(winner.plan, {name for name, kept in keep.items() if kept}, required)
    ablated = race.entries.get(plan.id) or Entry(
        plan=plan, origin="the winner without settings that have no gain"
    )
    if not any(keep.values()) or (
        list(keep.values()).count(False) > 1 and not (yield from _as_fast(race, ablated, winner))
    ):
        # Each can go, not all of them: they do the same. The smaller plan that was fastest stands for it.
        smaller = [e for name, e in without.items() if e.live and not keep[name] and not race.refuse(e)]
        if not smaller:
            return winner, costs
        ablated = min(smaller, key=lambda e: log_ratio_to(race, e, winner))
    ablated = race.add(ablated)
    if not _revive(ablated):
        return winner, costs
    winner.eliminate("pruned", Reason(code="pruned"))
    return ablated, costs


def _as_fast(race: Halving, ablated: Entry, winner: Entry) -> Steps[bool]:
    """Return whether a plan that lost several parts at once is as fast as the whole: two may do the same."""
    ablated = race.add(ablated)
    if not _revive(ablated):
        return False
    for _ in range(CHECK):
        if not ablated.live or not (yield from race.block([winner, ablated])):
            break
    shared = log_ratios(race.blocks, ablated.arm, race.statistic, base=winner.arm)
    if ablated.live and len(shared) >= 2 and float(np.median(shared)) <= PAYS * np.log1p(race.worth):
        return True
    if ablated.live:
        ablated.eliminate("eliminated", Reason(code="slower-than-complete") if len(shared) else ENDED)
    return False


def _revive(entry: Entry) -> bool:
    """Put an entry back into the race; False for what fails, is wrong or was ablated, which stays out.

    Alone it was not worth more time, as a part of the winner it is.
    """
    if entry.status not in (None, "eliminated", "not-tried"):
        return False
    entry.status = entry.why = None
    return True
