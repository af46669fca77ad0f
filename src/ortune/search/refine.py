"""Refines the leader of a screening: combines plans that helped, tries neighbouring numbers, removes useless parts."""

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
from ortune.search.plan_edits import combined, removable_parts, with_change, with_only
from ortune.search.proposals.neighbours import neighbours
from ortune.search.reasons import ENDED, Reason
from ortune.search.schedule import Steps

Costs = NDArray[np.float64]
"""log(without a part / with it) of each block."""

STEPS = 3  # maximum times that something is added to the leader
ADDED = 4  # plans per step in addition to the leader: everything that helped at once, then one change each
BLOCKS = (2, 2)  # blocks of a step: for all of them, then for the best two
CHECK = 4  # blocks of the ablated plan against the whole one, if more than one part would be removed
PAYS = 0.5  # a setting stays if leaving it out costs at least this share of the smallest effect that matters


def screen_rest(race: Halving, entries: Sequence[Entry], *, followed: bool = True) -> Steps[None]:
    """Yield blocks of plans that the screening did not include, in groups as large as the time left allows.

    Args:
        race: The race to which the plans are added.
        entries: The plans, best prior first.
        followed: Whether refinement and ablation of the leader follow, for which time is reserved.
    """
    waiting = list(entries)
    while waiting:
        gains = any(e.ratios and e.median_log_ratio < -np.log1p(race.worth) for e in race.live())
        # If a plan leads, a refinement step and ablation follow. Otherwise only untried plans can still win,
        # and get all of the time. With one reference a step takes 4 x (1 + 1 + 4) = 24 trials, and ablation
        # of two parts 36: 60 in all.
        after = sum(BLOCKS) * (race.references + 1 + ADDED) + ablation_trials(race, 2)
        after = after if followed and gains else 0
        sizes = range(min(trial_counts.FIELD, len(waiting)), 0, -1)
        fitting = (
            n
            for n in sizes
            if not race.out_of_time(math.ceil(trial_counts.screening_trials(n, race.references)) + after)
        )
        # The largest group that fits, since it shares the references, which makes each plan cheaper.
        size = next(fitting, 0)
        if not size:
            break
        group, waiting = waiting[:size], waiting[size:]
        yield from race.screen([race.add(e) for e in group])


def combine(race: Halving, leader: Entry, required: Plan) -> Steps[Entry]:
    """Extend the leader step by step; each step tries the next best changes, one at a time and all that helped at once.

    Changes that did not help alone are also tried, since settings interact: without its arena ONNX Runtime is slower
    with the C library's malloc, and faster with mimalloc.

    Returns:
        The new leader, or the old leader if no plan beat it.
    """
    alone = sorted(
        (e for e in race.entries.values() if e.ratios and e.is_sound),
        key=race.rank,
    )
    for _ in range(STEPS):
        # A leader with almost no gain is not built on, since its steps would be ranked by noise.
        if leader.median_log_ratio >= -PAYS * np.log1p(race.worth):
            return leader
        added = _added(race, leader, alone, required)
        better = yield from _raced_with(race, leader, added, required)
        if better is leader:
            return leader
        leader = better
    return leader


def try_neighbours(race: Halving, leader: Entry, required: Plan, cpus: int) -> Steps[Entry]:
    """Try the leader with each numeric setting one step lower or higher, in the same blocks; return the best plan."""
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
    """Return new plans that add changes to the leader, after adding the plans to the race."""
    helped: list[Entry] = []
    alone = [e for e in alone if e.plan.providers == leader.plan.providers]
    for other in alone:
        # Of two plans with the same setting, the better one is added, since they are in order of rank.
        taken = {name for e in helped for name in e.plan.settings}
        if (
            other.live
            and other.median_log_ratio < -PAYS * np.log1p(race.worth)
            and not taken & other.plan.settings.keys()
        ):
            helped.append(other)
    # Everything that helped at once first; then each change by itself, in case two of them have the same
    # effect.
    union = combined([leader.plan, *(e.plan for e in helped)], required)
    # Log ratios are added as if parts were independent, which only determines the order of the candidates.
    wished = [(union, sum(race.rank(e) for e in helped))]
    wished += [(with_change(leader.plan, e.plan, required), race.rank(leader) + race.rank(e)) for e in alone]
    plans: dict[str, tuple[Plan, float]] = {}
    for plan, expected in wished:
        if plan is not None and plan.id not in race.entries and len(plans) < ADDED:
            plans.setdefault(plan.id, (plan, expected))
    return [
        race.add(Entry(plan=p, origin="combination", expected=expected)) for p, expected in plans.values()
    ]


def _raced_with(race: Halving, leader: Entry, others: list[Entry], required: Plan) -> Steps[Entry]:
    """Yield blocks with the leader and other plans, and return the best plan in these blocks."""
    field = [e for e in others if e.live]
    # Reserve the time for ablation, since parts without a proven gain should not be shipped.
    race.reserved = ablation_trials(
        race, max((len(removable_parts(e.plan, required)) for e in field), default=0)
    )
    for blocks in BLOCKS:
        for _ in range(blocks):
            live = [e for e in field if e.live]
            if not live or not leader.live or not (yield from race.round([leader, *live])):
                break
        # Further blocks only for the two best, since five would use up the time of the ablation.
        sound = (e for e in field if e.live and e.ratios and not race.eliminate_by_guards(e))
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
    """Return the median log(entry / leader) over common blocks, shrunk towards 0 if there are few."""
    if entry is leader:
        return 0.0
    ratios = log_ratios(race.blocks, entry.arm, race.statistic, base=leader.arm)
    # Within the same blocks instead of by ratios to the default, since a block's effect on both cancels,
    # which is necessary to distinguish similar plans. A weight of one block at 0 protects against a lucky
    # pair.
    return float(np.median(ratios)) * len(ratios) / (len(ratios) + 1) if len(ratios) else 0.0


def ablation_trials(race: Halving, n_parts: int) -> int:
    """Return the number of trials for the ablation of a plan with ``n_parts`` parts."""
    if n_parts < 2:
        return 0
    # Two parts, one reference: 6 x (1 + 1 + 2) + 4 x (1 + 2) = 36 trials.
    return confirm.ablation_blocks(n_parts) * (race.references + 1 + n_parts) + CHECK * (race.references + 2)


def ablate(race: Halving, winner: Entry, required: Plan) -> Steps[tuple[Entry, dict[str, Costs]]]:
    """Leave out each part of the winner once, and keep only the parts that help.

    Returns:
        The plan to confirm, and for each measured part, log(without the part / with it) per block.
    """
    mine = removable_parts(winner.plan, required)
    # On another provider than that of all plans, a single setting is compared with the provider by itself.
    if len(mine) < (2 if winner.plan.providers == required.providers else 1):
        return winner, {}
    without = {}
    for name, plan in mine:
        entry = race.entries.get(plan.id) or race.add(Entry(plan=plan, origin=f"the winner without {name}"))
        if _revive(entry):
            without[name] = entry
    # In the same blocks as the winner: a part is judged by what its absence costs there, not by its gain by
    # itself, since settings interact.
    cost = yield from confirm.ablate(race, winner, list(without.values()))
    costs = {name: cost.get(entry.arm, np.empty(0)) for name, entry in without.items()}
    if not winner.live:
        return winner, costs
    keep = dict.fromkeys((name for name, _ in mine), True)
    for name, ratios in costs.items():
        # Fewer than three blocks are not enough to remove a part.
        if len(ratios) >= 3:
            keep[name] = float(np.median(ratios)) > PAYS * np.log1p(race.worth)
    if all(keep.values()):
        return winner, costs
    # Each part was left out while all others were there, so two with the same effect both look useless. If
    # more than one would be removed, the plan without all of them must be as fast in its own blocks.
    plan = with_only(winner.plan, {name for name, kept in keep.items() if kept}, required)
    ablated = race.entries.get(plan.id) or Entry(
        plan=plan, origin="the winner without settings that have no gain"
    )
    if not any(keep.values()) or (
        list(keep.values()).count(False) > 1 and not (yield from _as_fast(race, ablated, winner))
    ):
        # Each can be removed, but not all of them, since they have the same effect. The fastest plan without
        # one of them is used.
        smaller = [
            e for name, e in without.items() if e.live and not keep[name] and not race.eliminate_by_guards(e)
        ]
        if not smaller:
            return winner, costs
        ablated = min(smaller, key=lambda e: log_ratio_to(race, e, winner))
    ablated = race.add(ablated)
    if not _revive(ablated):
        return winner, costs
    winner.eliminate("pruned", Reason(code="pruned"))
    return ablated, costs


def _as_fast(race: Halving, ablated: Entry, winner: Entry) -> Steps[bool]:
    """Return whether a plan without several parts is as fast as with them, since two parts may have the same effect."""
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
    """Put an entry back into the race and return True; return False if it failed, is wrong or was pruned.

    A plan that alone was not worth more time may be a part of the winner.
    """
    if entry.status not in (None, "eliminated", "not-tried"):
        return False
    entry.status = entry.why = None
    return True
