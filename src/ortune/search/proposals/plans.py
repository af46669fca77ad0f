"""Proposes plans to try on a model: one change at a time from the default, best prior first."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from ortune import rewrites
from ortune.catalogue.facts import ModelFacts
from ortune.catalogue.knobs import all_knobs, find
from ortune.catalogue.named import ALLOW_SPINNING as SPINNING
from ortune.catalogue.named import ARENA_EXTEND_STRATEGY as ARENA
from ortune.catalogue.named import GLOBAL_THREAD_POOL as POOL
from ortune.catalogue.named import INTRA_OP_NUM_THREADS as THREADS
from ortune.catalogue.providers import find as find_provider
from ortune.objectives import Objective
from ortune.records import Channel, Finding, Host, Plan, RewriteSpec, Value, Workload
from ortune.search.plan_edits import is_exact, with_change
from ortune.search.proposals.settings import SettingProposal, refusal
from ortune.search.proposals.settings import proposals as knob_proposals

FINDING_PRIOR = 0.99  # fixes of rules come before changes that may help; the user's own settings come first
REWRITE_PRIOR = 0.5
TOGETHER_PRIOR = 0.6  # of all exact rewrites together: one often helps only after another
JOINED_LEAST, JOINED_MOST = 0.3, 0.98
"""Minimum prior of a setting for a plan with it and all rewrites, and maximum prior of that plan, which is tried before
either alone."""
MENDED_PRIOR = 0.995  # of all exact rewrites if a rule's fix is one of them


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanProposal:
    """One plan to try, its origin, and the probability that it helps."""

    plan: Plan
    origin: str
    prior: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The environment in which plans run, and the changes that are allowed.

    Attributes:
        ort_version: Version of the ONNX Runtime build that runs the plans.
        objective: Quantity to improve.
        allow: Allowed safety classes, and names of allowed single settings or rewrites.
        allocators: Memory allocators that can be preloaded.
        providers: Execution providers of all plans; empty for the CPU provider.
        channels: Channels by which settings reach the process; empty for all channels except those of a browser page.
        asked: Settings that all plans have.
        features: Instruction sets of the processor; empty if they are unknown.
    """

    ort_version: str
    objective: Objective
    allow: Sequence[str] = ()
    allocators: Collection[str] = ()
    providers: Collection[str] = ()
    channels: Collection[Channel] = ()
    asked: Mapping[str, Value] = field(default_factory=dict)
    features: Collection[str] = ()

    def settings(
        self, model: ModelFacts, cpus: int, latency_ns: float | None = None
    ) -> tuple[list[SettingProposal], list[str]]:
        """Return changes of one setting, best prior first, and the reasons that other changes are not proposed."""
        return knob_proposals(
            model,
            cpus,
            self.ort_version,
            self.allocators,
            objective=self.objective,
            allow=self.allow,
            providers=self.providers,
            channels=self.channels,
            asked=self.asked,
            features=self.features,
            latency_ns=latency_ns,
        )

    def refusals(self, settings: Mapping[str, Value]) -> list[str]:
        """Return the reasons that some of these settings may not be proposed; [] if all may be."""
        reasons = (
            refusal(find(name), str(value), self.ort_version, self.allocators, self.allow)
            for name, value in settings.items()
        )
        return [reason for reason in reasons if reason]


def propose(
    model: ModelFacts,
    work: Workload,
    host: Host,
    scope: Scope,
    *,
    rewritten: Sequence[tuple[RewriteSpec, str]] = (),
    row: Sequence[RewriteSpec] = (),
    findings: Sequence[Finding] = (),
    latency_ns: float | None = None,
    as_asked: bool = False,
) -> tuple[list[PlanProposal], tuple[str, ...]]:
    """Return plans to try, and the reasons that other plans are not proposed.

    Args:
        model: Facts about the model.
        work: Inputs and load.
        host: The machine.
        scope: The environment in which the plans run, and the allowed changes.
        rewritten: Single rewrites that apply to the model, each with its reason.
        row: The exact rewrites of ``rewritten``, in the order in which they are applied together.
        findings: Findings whose fixes are tried first, in the given order.
        latency_ns: Latency with the default settings; None if unknown.
        as_asked: Whether the settings that all plans have are also tried alone.
    """
    changes, refused = scope.settings(model, host.effective_cpus, latency_ns)
    plans = [PlanProposal(plan=Plan(settings=p.settings), origin=p.origin, prior=p.prior) for p in changes]
    # These concern threads and memory that a page does not share.
    in_a_page = any(find_provider(name).in_page for name in scope.providers)
    for_load, too = ([], []) if in_a_page else _for_load(work, host, scope)
    plans += for_load
    fixes, waiting = _fixes(findings, scope)
    plans += fixes
    in_model: list[PlanProposal] = []
    for spec, reason in rewritten:
        specs = with_cleanup(spec, row)
        plan = Plan(rewrites=specs, settings=rewrites.settings_for(specs))
        in_model.append(PlanProposal(plan=plan, origin=f"rewrite {spec.name}: {reason}", prior=REWRITE_PRIOR))
    if len(row) > 1:
        plan = Plan(rewrites=tuple(row), settings=rewrites.settings_for(row))
        mended = any(spec in row for fix in fixes for spec in fix.plan.rewrites)
        prior = MENDED_PRIOR if mended else TOGETHER_PRIOR
        in_model.append(PlanProposal(plan=plan, origin="all exact rewrites together", prior=prior))
    plans += [*in_model, *_joined(in_model, changes)]
    if as_asked:
        plans.insert(0, PlanProposal(plan=Plan(), origin="as asked", prior=1.0))
    # A plan from several proposals keeps its best prior and that proposal's origin.
    unique: dict[str, PlanProposal] = {}
    for proposed in sorted(plans, key=lambda p: -p.prior):
        unique.setdefault(proposed.plan.id, proposed)
    return list(unique.values()), tuple(dict.fromkeys([*waiting, *refused, *too]))


def _joined(rewritten: Sequence[PlanProposal], settings: Sequence[SettingProposal]) -> list[PlanProposal]:
    """Return a list with the plan of the rewrites and the setting with the best priors; [] if one is missing.

    A short search ends before it combines the changes that helped: half of silero-vad's gain is from rewrites and half
    from the allocator, and in 27 s these were only tried separately.
    """
    exact = (proposal for proposal in rewritten if is_exact(proposal.plan))
    model = max(exact, key=lambda proposal: proposal.prior, default=None)
    setting = next(iter(settings), None)
    if model is None or setting is None or setting.prior < JOINED_LEAST:
        return []
    plan = with_change(model.plan, Plan(settings=setting.settings), Plan())
    if plan is None or plan == model.plan:
        return []
    prior = min(model.prior + setting.prior, JOINED_MOST)
    return [PlanProposal(plan=plan, origin="the most promising rewrites and settings together", prior=prior)]


def with_cleanup(spec: RewriteSpec, row: Sequence[RewriteSpec]) -> tuple[RewriteSpec, ...]:
    """Return a quantizing rewrite together with the clean-up rewrites that must precede it; another rewrite alone."""
    if not rewrites.find(spec.name).family:
        return (spec,)
    return (*(other for other in row if rewrites.find(other.name).stage < rewrites.CLEAN_UP), spec)


def _fixes(findings: Sequence[Finding], scope: Scope) -> tuple[list[PlanProposal], list[str]]:
    """Return the allowed plans of findings, and the reasons that other plans are not allowed."""
    plans, waiting = [], []
    for finding in findings:
        if finding.plan is None:
            continue
        reasons = scope.refusals(finding.plan.settings)
        for spec in finding.plan.rewrites:
            safety = rewrites.find(spec.name).safety
            if safety != "exact" and not {safety, spec.name} & set(scope.allow):
                reasons.append(f"rewrite {spec.name} is {safety}: --allow {safety}")
        if reasons:
            waiting += reasons
        else:
            origin = f"{finding.code} {finding.name}".rstrip()
            plans.append(PlanProposal(plan=finding.plan, origin=origin, prior=FINDING_PRIOR))
    return plans, waiting


def propose_on(
    on: Plan, model: ModelFacts, cpus: int, scope: Scope
) -> tuple[list[PlanProposal], tuple[str, ...]]:
    """Return plans for another execution provider, with its settings and with settings that affect every provider.

    Args:
        on: The plan that names the provider, with the settings that every plan on it needs.
        model: Facts about the model.
        cpus: CPUs available to the process.
        scope: The environment in which the plans run, and the allowed changes.
    """
    changes, refused = scope.settings(model, cpus)
    plans = [PlanProposal(plan=on, origin=f"the default on {on.describe()}", prior=1.0)]
    for change in changes:
        if all(
            find(name).provider in on.provider_names or find(name).is_for_any_provider
            for name in change.settings
        ):
            plan = msgspec.structs.replace(on, settings={**on.settings, **change.settings})
            origin = f"{change.origin} on {on.describe()}"
            plans.append(PlanProposal(plan=plan, origin=origin, prior=change.prior))
    own = tuple(text for text in refused if text.startswith(_names_of(on)))
    return plans, own


def _names_of(on: Plan) -> tuple[str, ...]:
    return tuple(name for name, knob in all_knobs().items() if knob.provider in on.provider_names)


def _for_load(work: Workload, host: Host, scope: Scope) -> tuple[list[PlanProposal], list[str]]:
    """Return plans for several sessions or callers in a process (shared pools, fewer threads), and refusal reasons."""
    together = work.sessions * work.callers
    if together == 1:
        return [], []
    cpus = host.effective_cpus
    tries: list[tuple[dict[str, Value], str]] = [
        ({THREADS.name: max(1, cpus // together)}, "CPUs divided among callers"),
        (
            {THREADS.name: max(1, cpus // together), SPINNING.name: False},
            "divided, without spinning",
        ),
    ]
    if work.sessions > 1:
        tries.append(({POOL.name: cpus}, "one thread pool for all sessions"))
        tries.append(({ARENA.name: ARENA.default}, "one arena for all sessions"))
    plans, refused = [], []
    for settings, why in tries:
        reasons = scope.refusals(settings)
        if reasons:
            refused += reasons
        else:
            plans.append(
                PlanProposal(plan=Plan(settings=settings), origin=f"{together} callers: {why}", prior=0.6)
            )
    return plans, refused
