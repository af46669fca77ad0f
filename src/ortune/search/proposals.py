"""What to try on a model: one change at a time from the default, best prior first."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from ortune import rewrites
from ortune.knobs import all_knobs, find
from ortune.knobs.cpu.allow_spinning import KNOB as SPINNING
from ortune.knobs.cpu.arena_extend_strategy import KNOB as ARENA
from ortune.knobs.cpu.global_thread_pool import KNOB as POOL
from ortune.knobs.cpu.intra_op_num_threads import KNOB as THREADS
from ortune.knobs.facts import ModelFacts
from ortune.knobs.knob import Objective
from ortune.knobs.propose import Proposal, refusal
from ortune.knobs.propose import proposals as knob_proposals
from ortune.providers import find as find_provider
from ortune.records import Channel, Finding, Host, Plan, RewriteSpec, Value, Workload
from ortune.search.plan_edits import changed, is_exact

FINDING_PRIOR = (
    0.99  # what a rule sees to be wrong comes before what may pay; the user's own words come first
)
REWRITE_PRIOR = 0.5
TOGETHER_PRIOR = 0.6  # of all exact rewrites at once: one often pays only where another has been before it
JOINED_LEAST, JOINED_MOST = 0.3, 0.98
"""A setting so likely to pay is tried with the rewrites at once, before both alone; and the most that both may have."""
MENDED_PRIOR = 0.995  # of these where one of them is what a rule would change: they hold that, and more


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposed:
    """One plan to try, where it comes from, and how likely it is to pay."""

    plan: Plan
    origin: str
    prior: float


def propose(
    model: ModelFacts,
    rewritten: Sequence[tuple[RewriteSpec, str]],
    work: Workload,
    host: Host,
    *,
    ort_version: str,
    objective: Objective,
    allow: Sequence[str],
    allocators: Collection[str],
    as_asked: bool = False,
    providers: Collection[str] = (),
    channels: Collection[Channel] = (),
    row: Sequence[RewriteSpec] = (),
    findings: Sequence[Finding] = (),
    asked: Mapping[str, Value] | None = None,
    latency_ns: float | None = None,
) -> tuple[list[Proposed], tuple[str, ...]]:
    """Plans to try and, in words, what is not proposed and why.

    ``row`` are the exact rewrites that the model calls for, one after another; ``channels`` the ways in which settings
    reach where the plans run, () all but a page's; what ``findings`` would change comes first, in their order;
    ``asked`` are settings that all plans have; ``latency_ns`` is what a run takes by default, where that is known.
    """
    found, refused = knob_proposals(
        model,
        host.effective_cpus,
        ort_version,
        allocators,
        objective=objective,
        allow=allow,
        providers=providers,
        channels=channels,
        asked=asked,
        latency_ns=latency_ns,
    )
    plans = [Proposed(plan=Plan(settings=p.settings), origin=p.origin, prior=p.prior) for p in found]
    # These are made of threads and memory that a page does not share.
    in_a_page = any(find_provider(name).in_page for name in providers)
    for_load, too = ([], []) if in_a_page else _for_load(work, host, ort_version, allow)
    plans += for_load
    fixes, waiting = _fixes(findings, ort_version, allow, allocators)
    plans += fixes
    in_model: list[Proposed] = []
    for spec, reason in rewritten:
        specs = grounded(spec, row)
        plan = Plan(rewrites=specs, settings=rewrites.settings_for(specs))
        in_model.append(Proposed(plan=plan, origin=f"rewrite {spec.name}: {reason}", prior=REWRITE_PRIOR))
    if len(row) > 1:
        plan = Plan(rewrites=tuple(row), settings=rewrites.settings_for(row))
        mended = any(spec in row for fix in fixes for spec in fix.plan.rewrites)
        prior = MENDED_PRIOR if mended else TOGETHER_PRIOR
        in_model.append(Proposed(plan=plan, origin="all exact rewrites together", prior=prior))
    plans += [*in_model, *_joined(in_model, found)]
    if as_asked:
        plans.insert(0, Proposed(plan=Plan(), origin="as asked", prior=1.0))
    unique: dict[str, Proposed] = {}
    for proposed in sorted(plans, key=lambda p: -p.prior):
        unique.setdefault(proposed.plan.id, proposed)
    return list(unique.values()), tuple(dict.fromkeys([*waiting, *refused, *too]))


def _joined(rewritten: Sequence[Proposed], settings: Sequence[Proposal]) -> list[Proposed]:
    """The rewrites and the setting that are likeliest to pay, as one plan.

    Where the time is short, nothing is built on what the first blocks find: half of silero-vad's gain is the model's,
    half the allocator's, and 27 s had tried each alone.
    """
    exact = (each for each in rewritten if is_exact(each.plan))
    model = max(exact, key=lambda each: each.prior, default=None)
    setting = next(iter(settings), None)
    if model is None or setting is None or setting.prior < JOINED_LEAST:
        return []
    plan = changed(model.plan, Plan(settings=setting.settings), Plan())
    if plan is None or plan == model.plan:
        return []
    prior = min(model.prior + setting.prior, JOINED_MOST)
    return [Proposed(plan=plan, origin="the likeliest of rewrites and settings together", prior=prior)]


def grounded(spec: RewriteSpec, row: Sequence[RewriteSpec]) -> tuple[RewriteSpec, ...]:
    """A rewrite with those of the row that a model of fewer bits is made from: weights that may be fed are none."""
    if not rewrites.find(spec.name).family:
        return (spec,)
    return (*(each for each in row if rewrites.find(each.name).stage < rewrites.CLEAN_UP), spec)


def _fixes(
    findings: Sequence[Finding], ort_version: str, allow: Sequence[str], allocators: Collection[str]
) -> tuple[list[Proposed], list[str]]:
    """What rules would change, as far as it is allowed; and what waits for that."""
    plans, waiting = [], []
    for finding in findings:
        if finding.plan is None:
            continue
        settings = finding.plan.settings.items()
        reasons = [
            refusal(find(name), str(value), ort_version, allocators, allow) for name, value in settings
        ]
        reasons += [
            f"rewrite {spec.name} is {rewrites.find(spec.name).safety}: --allow {rewrites.find(spec.name).safety}"
            for spec in finding.plan.rewrites
            if rewrites.find(spec.name).safety != "exact"
            and not {rewrites.find(spec.name).safety, spec.name} & set(allow)
        ]
        if any(reasons):
            waiting += [reason for reason in reasons if reason]
        else:
            origin = f"{finding.code} {finding.name}".rstrip()
            plans.append(Proposed(plan=finding.plan, origin=origin, prior=FINDING_PRIOR))
    return plans, waiting


def propose_on(
    on: Plan,
    model: ModelFacts,
    cpus: int,
    *,
    ort_version: str,
    objective: Objective,
    allow: Sequence[str],
    allocators: Collection[str],
    channels: Collection[Channel] = (),
) -> tuple[list[Proposed], tuple[str, ...]]:
    """Plans to try on another execution provider, with its own settings and those that any provider feels.

    Args:
        on: The plan that names the provider, and nothing else.
        model: What the model holds.
        cpus: CPUs that the process really has.
        ort_version: Of the build that has the provider.
        objective: What is to become better.
        allow: Safety classes and settings that are let through.
        allocators: Memory allocators that can be preloaded here.
        channels: The ways in which settings reach where it runs; () is all but a page's.
    """
    found, refused = knob_proposals(
        model,
        cpus,
        ort_version,
        allocators,
        objective=objective,
        allow=allow,
        providers=on.provider_names,
        channels=channels,
    )
    plans = [Proposed(plan=on, origin=f"the default on {on.describe()}", prior=1.0)]
    for each in found:
        if all(find(name).provider in on.provider_names or find(name).everywhere for name in each.settings):
            plan = msgspec.structs.replace(on, settings=each.settings)
            plans.append(Proposed(plan=plan, origin=f"{each.origin} on {on.describe()}", prior=each.prior))
    own = tuple(text for text in refused if text.startswith(_names_of(on)))
    return plans, own


def _names_of(on: Plan) -> tuple[str, ...]:
    return tuple(name for name, knob in all_knobs().items() if knob.provider in on.provider_names)


def _for_load(
    work: Workload, host: Host, ort_version: str, allow: Sequence[str]
) -> tuple[list[Proposed], list[str]]:
    """What several sessions or callers in one process call for: shared pools, fewer threads each; what is refused."""
    together = work.sessions * work.callers
    if together == 1:
        return [], []
    cpus = host.effective_cpus
    tries: list[tuple[dict[str, Value], str]] = [
        ({THREADS.name: max(1, cpus // together)}, "CPUs divided among the callers"),
        (
            {THREADS.name: max(1, cpus // together), SPINNING.name: False},
            "divided, and not spinning",
        ),
    ]
    if work.sessions > 1:
        tries.append(({POOL.name: cpus}, "one thread pool for all sessions"))
        tries.append(({ARENA.name: ARENA.default}, "one arena for all sessions"))
    plans, refused = [], []
    for settings, why in tries:
        reasons = [refusal(find(k), str(v), ort_version, (), allow) for k, v in settings.items()]
        if any(reasons):
            refused += [reason for reason in reasons if reason]
        else:
            plans.append(
                Proposed(plan=Plan(settings=settings), origin=f"{together} callers: {why}", prior=0.6)
            )
    return plans, refused
