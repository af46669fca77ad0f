"""Decomposes and combines plans."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ortune import rewrites
from ortune.catalogue import knobs
from ortune.errors import UsageError
from ortune.records import Plan


def removable_parts(plan: Plan, required: Plan) -> list[tuple[str, Plan]]:
    """Return (name, plan without it) for each setting and rewrite of a plan.

    Parts of ``required``, and settings that keep outputs exact, are not included.
    """
    plans = []
    for name, value in plan.settings.items():
        if name not in required.settings and not knobs.find(name).is_strict(value):
            rest = {k: v for k, v in plan.settings.items() if k != name}
            plans.append((name, msgspec.structs.replace(plan, settings=rest)))
    for spec in plan.rewrites:
        if spec in required.rewrites:
            continue
        rest_ = tuple(r for r in plan.rewrites if r != spec)
        plans.append((spec.name, msgspec.structs.replace(plan, rewrites=rest_)))
    return plans


def with_only(plan: Plan, names: set[str], required: Plan) -> Plan:
    """Return the plan with only the named settings and rewrites, the parts of ``required``, and strict values."""
    return msgspec.structs.replace(
        plan,
        settings={
            name: value
            for name, value in plan.settings.items()
            if name in names or name in required.settings or knobs.find(name).is_strict(value)
        },
        rewrites=tuple(r for r in plan.rewrites if r.name in names or r in required.rewrites),
    )


def is_exact(plan: Plan) -> bool:
    """Return whether a plan changes results at most by rounding."""
    return safety_classes(plan) <= {"exact"}


def safety_classes(plan: Plan) -> set[str]:
    """Return the safety classes of a plan's rewrites and settings."""
    classes = [rewrites.find(spec.name).safety for spec in plan.rewrites]
    return {*classes, *(knobs.find(name).safety_of(value) for name, value in plan.settings.items())}


def merge(under: Plan, over: Plan) -> Plan:
    """Return the combination of two plans, in which ``over`` wins conflicts."""
    more = tuple(r for r in over.rewrites if r not in under.rewrites)
    return Plan(
        # In the user's order if nothing is added.
        rewrites=rewrites.in_order(under.rewrites + more)
        if more and under.rewrites
        else under.rewrites + more,
        settings={**under.settings, **over.settings},
        providers=over.providers or under.providers,
    )


def with_change(plan: Plan, change: Plan, required: Plan) -> Plan | None:
    """Return the plan with a change, which wins conflicts; None if plan and change are incompatible."""
    merged = merge(plan, change)
    for name in plan.settings.keys() & change.settings.keys():
        sign = _joined_by(name)
        # Lists of the plan and the change are joined: "BiasGeluFusion" and "MatMulAddFusion" become
        # "BiasGeluFusion;MatMulAddFusion", each name once.
        if sign:
            words = dict.fromkeys(f"{plan.settings[name]}{sign}{change.settings[name]}".split(sign))
            merged.settings[name] = sign.join(words)
    if any(merged.settings[k] != v for k, v in required.settings.items() if not _joined_by(k)):
        return None
    # A model can have only one rewrite of a family (such as the ways to quantize).
    families = [family for r in merged.rewrites if (family := rewrites.find(r.name).family)]
    if len(set(families)) < len(families):
        return None
    try:
        knobs.check_conflicts(merged.settings)
    except UsageError:
        return None
    return merged


def combined(plans: Sequence[Plan], required: Plan) -> Plan | None:
    """Return the combination of plans; None if they contradict each other."""
    merged = required
    for plan in plans:
        if any(merged.settings.get(k, v) != v for k, v in plan.settings.items() if not _joined_by(k)):
            return None
        after = with_change(merged, plan, required)
        if after is None:
            return None
        merged = after
    return merged


def _joined_by(name: str) -> str:
    """Return the separator of a setting whose values are joined; "" if one value replaces the other."""
    return knobs.find(name).joined_by
