"""What to try on a model: one change at a time from the default, best prior first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from ortune import platform, rewrites
from ortune.flows.sides import Resolved
from ortune.flows.tune_options import Options
from ortune.knobs import facts, find, too_old
from ortune.knobs.propose import Objective
from ortune.knobs.propose import proposals as knob_proposals
from ortune.records import Host, Plan, Value, Workload

REWRITE_PRIOR = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposed:
    """One plan to try, where it comes from, and how likely it is to pay."""

    plan: Plan
    origin: str
    prior: float
    late: bool = False


def propose(
    side: Resolved, work: Workload, options: Options, host: Host
) -> tuple[list[Proposed], tuple[str, ...]]:
    """Plans to try and, in words, what is not proposed and why."""
    found, refused = knob_proposals(
        facts.facts_of(side.model.ir),
        host.effective_cpus,
        side.runtime.ort_version,
        platform.allocators().keys(),
        objective=cast("Objective", options.objective),
        allow=options.allow,
    )
    plans = [
        Proposed(plan=Plan(settings=p.settings), origin=p.origin, prior=p.prior, late=p.group == "late")
        for p in found
    ]
    plans += _for_load(work, host, side.runtime.ort_version)
    model = side.model.ir
    free = (
        []
        if side.model.info.format == "ort"
        else rewrites.proposals(model, options.allow, workload=work, objective=options.objective)
    )
    for spec, reason in free:
        plan = Plan(rewrites=(spec,), settings=rewrites.settings_for([spec]))
        plans.append(Proposed(plan=plan, origin=f"rewrite {spec.name}: {reason}", prior=REWRITE_PRIOR))
    if options.settings or options.plan or options.rewrites:
        plans.insert(0, Proposed(plan=Plan(), origin="as asked", prior=1.0))
    unique: dict[str, Proposed] = {}
    for proposed in sorted(plans, key=lambda p: (p.late, -p.prior)):
        unique.setdefault(proposed.plan.id, proposed)
    return list(unique.values()), tuple(refused)


def _for_load(work: Workload, host: Host, ort_version: str) -> list[Proposed]:
    """What several sessions or callers in one process call for: shared pools, fewer threads each."""
    together = work.sessions * work.callers
    if together == 1:
        return []
    cpus = host.effective_cpus
    tries: list[tuple[dict[str, Value], str]] = [
        ({"intra_op_num_threads": max(1, cpus // together)}, "CPUs divided among the callers"),
        (
            {"intra_op_num_threads": max(1, cpus // together), "allow_spinning": False},
            "divided, and not spinning",
        ),
    ]
    if work.sessions > 1:
        tries.append(({"global_thread_pool": cpus}, "one thread pool for all sessions"))
        tries.append(({"arena_extend_strategy": "power_of_two"}, "one arena for all sessions"))
    return [
        Proposed(plan=Plan(settings=settings), origin=f"{together} callers: {why}", prior=0.6)
        for settings, why in tries
        if not any(too_old(find(name), ort_version) for name in settings)
    ]
