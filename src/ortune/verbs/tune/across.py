"""Proposes plans on targets other than the baseline's, which run in the same blocks with their own runtime."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from ortune import rewrites, targets
from ortune.catalogue.facts import ModelFacts
from ortune.catalogue.knobs import lower_precisions, strict_settings
from ortune.catalogue.providers import find, of_target
from ortune.measuring import output_check
from ortune.measuring.measuring import Measuring
from ortune.objectives import Objective
from ortune.records import Failed, Measured, Plan, RewriteSpec, UntestedTarget
from ortune.search.proposals.plans import REWRITE_PRIOR, PlanProposal, Scope, propose_on, with_cleanup
from ortune.verbs._shared.tune_facts import plans_that_ran, untried_plans
from ortune.verbs.tune import proposed_words, refused_words
from ortune.verbs.tune.hybrids import hybrids
from ortune.verbs.tune.result import TuneResult

FIRST_RUN_TRIALS = 3
"""Minimum time, in trials of the default, for the first run on a target that the user did not name."""


def scope_of(baseline: Measuring, on: Plan, objective: Objective, allow: Sequence[str]) -> Scope:
    """Return the scope for proposals that keep the providers and settings of the plan `on`."""
    return Scope(
        ort_version=baseline.side.runtime_of(on).version_of(on),
        objective=objective,
        allow=allow,
        allocators=baseline.machine.allocators.keys(),
        providers=on.provider_names,
        channels=targets.target_of(on).channels,
        asked=on.settings,
        features=baseline.host.features,
    )


class OtherTargets(NamedTuple):
    """Plans on targets other than the first, and the targets that cannot be compared.

    Attributes:
        proposed: The plans.
        refused: Plans that are not proposed, with the reasons in words.
        untested: Targets that are not compared, or not with their default settings.
        bases: One plan for each target that ran the model, with the number types for operations that a quantized file
            leaves in float.
    """

    proposed: list[PlanProposal]
    refused: tuple[str, ...]
    untested: tuple[UntestedTarget, ...]
    bases: tuple[Plan, ...] = ()


def propose_on_targets(
    baseline: Measuring,
    names: Sequence[str],
    model: ModelFacts,
    *,
    objective: Objective,
    allow: Sequence[str],
    row: Sequence[RewriteSpec] = (),
    spare_ns: Callable[[], float] | None = None,
) -> OtherTargets:
    """Run the model once on each other target and return the plans to try there, with refused plans and their reasons.

    ``row`` are the exact rewrites that apply to the model, ``spare_ns`` returns the nanoseconds available for the first
    run on a target that the user did not name.
    """
    proposed: list[PlanProposal] = []
    refused: list[str] = []
    untested: list[UntestedTarget] = []
    bases: list[Plan] = []
    for name in names:
        if spare_ns is not None and spare_ns() < FIRST_RUN_TRIALS * baseline.pilot.trial_ns:
            untested.append(UntestedTarget(target=name, reason="no-time"))
            continue
        plan = Plan(providers=targets.find(name).providers)
        # One load and one run: whether the provider takes the model is known before any block is spent on it.
        outcome = baseline.executor.trial(
            baseline.arm(name, plan=plan), runs=0, keep_outputs=True, split=True
        )
        if isinstance(outcome, Failed):
            refused.append(_failed(plan, outcome))
            continue
        if targets.target_of(plan).emulated(outcome):
            refused.append(refused_words.emulated(plan.describe()))
            continue
        baseline.limit_alive(outcome)
        if outcome.done.gpu_run is not None:
            baseline.gpu_runs[plan.provider_names[0]] = outcome.done.gpu_run
        types, beyond = _lower_types(baseline, name, plan)
        exact = msgspec.structs.replace(plan, settings=strict_settings(plan.provider_names[0]))
        others = [*(lower for lower, _, _ in types[1:]), *([exact] if types else [])]
        plan, outcome, lowered = types[0] if types else _in_its_own_types(baseline, name, plan, outcome)
        bases.append(plan)
        proposed += [
            PlanProposal(plan=other, origin=proposed_words.number_types(other.describe()), prior=1.0)
            for other in others
        ]
        more, too = propose_on(
            plan,
            model,
            baseline.host.effective_cpus,
            scope_of(baseline, plan, objective, allow),
        )
        own, without = _rewritten(baseline, plan, outcome, objective, allow, row)
        split, unsplit = one_border_plans(baseline, plan, outcome)
        proposed, refused = (
            [*proposed, *more, *own, *split],
            [*refused, *beyond, *too, *without, *unsplit],
        )
        untested += lowered
    return OtherTargets(proposed, tuple(refused), tuple(untested), tuple(bases))


def unreached_targets(result: TuneResult, names: Sequence[str]) -> tuple[UntestedTarget, ...]:
    """Return the requested targets that the search did not reach, each with a sufficient budget."""
    if not result.budget.enough_s:
        return ()
    ran = {c.plan.provider_names[0] for c in plans_that_ran(result.candidates)}
    waiting = {c.plan.provider_names[0] for c in untried_plans(result.candidates)}
    # Before the first proposal all are waiting; after it, one that is not among them was refused with a reason.
    proposed = bool(waiting or ran or result.not_tried or result.untested_targets)
    return tuple(
        UntestedTarget(target=name, reason="no-time", enough_s=result.budget.enough_s)
        for name in names
        if (provider := of_target(name).name) not in ran and (provider in waiting or not proposed)
    )


_InTypes = tuple[Plan, Measured, tuple[UntestedTarget, ...]]
"""A plan that sets number types, its first run, and the reason if the provider's default is not compared."""


def _lower_types(baseline: Measuring, name: str, plan: Plan) -> tuple[list[_InTypes], list[str]]:
    """Return plans whose lower precisions keep the outputs within the tolerance, and the reasons against the others.

    Without a tolerance both are empty. The precision is set explicitly, since the provider's default depends on the
    processor that loads the bundle.
    """
    kept, refused = list[_InTypes](), list[str]()
    if baseline.options.tolerance is None:
        return kept, refused
    # Those without instructions here are refused with the other settings of the provider.
    for own in lower_precisions(plan.provider_names[0], baseline.host.features):
        lower = msgspec.structs.replace(plan, settings={**plan.settings, **own})
        arm = baseline.arm(f"{name}, {lower.describe()}", plan=lower)
        outcome = baseline.executor.trial(arm, runs=0, keep_outputs=True)
        if isinstance(outcome, Failed):
            refused.append(_failed(lower, outcome))
            continue
        difference = output_check.difference(baseline, outcome, arm.name, arm)
        if difference.ok:
            kept.append((lower, outcome, ()))
        else:
            refused.append(refused_words.beyond_tolerance(lower.describe(), difference.what))
    return kept, refused


def _failed(plan: Plan, outcome: Failed) -> str:
    why = (outcome.what.strip().splitlines() or ["no message"])[0]
    return refused_words.does_not_run(plan.describe(), outcome.reason, why[:240])


def _in_its_own_types(
    baseline: Measuring, name: str, plan: Plan, ran: Measured
) -> tuple[Plan, Measured, tuple[UntestedTarget, ...]]:
    """Return a plan that computes in the model's number types, if the provider's default does not.

    The result also has the plan's first run, and the reason if the plan replaces the provider's default.

    OpenVINO computes float32 models in bfloat16 on processors that support it, CUDA in TF32. If outputs then exceed the
    limit, every plan based on that default would fail, and a faster exact plan would never be tried. OpenVINO's default
    depends on the machine that loads a bundle, and nearly constant outputs hide it, so its plans are exact by their
    setting and not by observation.
    """
    strict = strict_settings(plan.provider_names[0])
    if not strict:
        return plan, ran, ()
    difference = output_check.difference(baseline, ran, f"{name}, first run", baseline.arm(name, plan=plan))
    anywhere = find(plan.provider_names[0]).hardware != "gpu"
    if difference.ok and not anywhere:
        return plan, ran, ()
    exact = msgspec.structs.replace(plan, settings=strict)
    arm = baseline.arm(f"{name}, exact", plan=exact)
    outcome = baseline.executor.trial(arm, runs=0, keep_outputs=True)
    if isinstance(outcome, Failed) or not output_check.difference(baseline, outcome, arm.name, arm).ok:
        return plan, ran, ()
    if difference.ok:
        return exact, outcome, ()
    lowered = UntestedTarget(
        target=name, reason="lower-precision", plan=plan, settings=strict, difference=difference
    )
    return exact, outcome, (lowered,)


def _rewritten(
    baseline: Measuring,
    on: Plan,
    ran: Measured,
    objective: Objective,
    allow: Sequence[str],
    row: Sequence[RewriteSpec],
) -> tuple[list[PlanProposal], tuple[str, ...]]:
    """Return plans with rewrites that apply only to this target, and notes on rewrites unsupported by its GPU."""
    model, name = baseline.side.model, targets.target_of(on).name
    if model.in_ort_format:
        return [], ()
    features = gpu_features(ran)
    plans = []
    for spec, reason in rewrites.proposals(
        model.ir, allow, workload=baseline.work, objective=objective, target=name, features=features
    ):
        if rewrites.find(spec.name).targets:
            plan = msgspec.structs.replace(on, rewrites=with_cleanup(spec, row))
            origin = proposed_words.rewrite(spec.name, on.describe(), reason)
            plans.append(PlanProposal(plan=plan, origin=origin, prior=REWRITE_PRIOR))
    return plans, without_feature(baseline, on, ran, objective, allow)


def one_border_plans(
    baseline: Measuring, on: Plan, ran: Measured
) -> tuple[list[PlanProposal], tuple[str, ...]]:
    """Return plans that keep one end of the graph on the CPU, if a run had CPU nodes between the provider's nodes."""
    model, version = baseline.side.model, baseline.side.runtime_of(on).version_of(on)
    if model.in_ort_format or on.is_web:
        return [], ()
    return hybrids(model.ir.graph, ran.done.placement, on, version)


def gpu_features(ran: Measured) -> tuple[str, ...]:
    """Return the features of the browser's GPU that rewrites may need; () outside of a browser."""
    page = ran.done.page
    return (rewrites.SHADERS_OF_FLOAT16,) if page is not None and page.float16 else ()


def without_feature(
    baseline: Measuring, on: Plan, ran: Measured, objective: Objective, allow: Sequence[str]
) -> tuple[str, ...]:
    """Return a note for each rewrite that is not proposed because the page's GPU does not support it."""
    lacking = rewrites.lacking(
        baseline.side.model.ir,
        allow,
        workload=baseline.work,
        objective=objective,
        target=targets.target_of(on).name,
        features=gpu_features(ran),
    )
    return tuple(refused_words.lacks_feature(name, feature) for name, feature in lacking)
