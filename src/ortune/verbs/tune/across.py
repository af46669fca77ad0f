"""Plans on other targets than the baseline's: each with a runtime that has its provider, in the same blocks."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import msgspec

from ortune import rewrites, targets
from ortune.catalogue.facts import ModelFacts
from ortune.catalogue.knobs import strict_settings
from ortune.catalogue.providers import CPU, find, of_target
from ortune.errors import RuntimeNotFound, UsageError
from ortune.measuring import output_check
from ortune.measuring.measuring import Measuring
from ortune.measuring.sides import Resolved, in_pages
from ortune.objectives import Objective
from ortune.records import Failed, Measured, Plan, RewriteSpec, Runtime, UntestedTarget
from ortune.runtimes import made
from ortune.search.proposals.plans import REWRITE_PRIOR, PlanProposal, Scope, grounded, propose_on
from ortune.targets import Target
from ortune.targets.browser.setup import BrowserSetup
from ortune.verbs._shared.tune_facts import left_out, tried
from ortune.verbs.tune.hybrids import hybrids
from ortune.verbs.tune.result import TuneResult

FIRST_RUN_TRIALS = 3
"""Trials of the default that the first run on a target may take, if the user did not name the target."""


def with_targets(
    side: Resolved, names: Sequence[str], say: Callable[[str], None], browser: BrowserSetup | None = None
) -> Resolved:
    """The side with a runtime for each target whose provider its own runtime lacks, made where it is not there yet.

    Raises:
        UsageError: No target is called so.
        RuntimeNotFound: None has the provider, and none can be made.
    """
    wanted = [targets.find(name) for name in names]
    if side.runtime.host is not None and any(target.providers for target in wanted):
        raise UsageError(
            "other runtimes are on this machine, and --runtime is on another one",
            where=f"--targets {','.join(names)}",
            do="omit --targets",
        )
    runtimes = {
        target.name: _runtime(target, side.runtime, say, browser) for target in wanted if target.providers
    }
    return replace(side, elsewhere=runtimes)


def usable_here(
    side: Resolved, say: Callable[[str], None], *, alone: bool = False, install: bool = False
) -> Resolved:
    """Return the side with a runtime for each other target that bundles can be made for and that runs here.

    A device that is emulated is none: what it takes says nothing of speed.

    Args:
        side: The base of the comparison; if its own plan names a provider, no other is raced.
        say: Callback for progress messages.
        alone: Look at the side's own runtime, not at those that ortune has made.
        install: Make what can be made here and is not there yet.
    """
    if side.plan.providers or side.runtime.host is not None:
        return side
    wanted = [t for t in targets.all_targets().values() if t.of_runtime and t.providers and t.provider.ships]
    runtimes: dict[str, Runtime] = {}
    for target in wanted:
        if target.provider.name in side.runtime.offered:
            report = target.discover(side.runtime)
            if report.usable and not report.emulated:
                runtimes[target.name] = side.runtime
    # What the side's own runtime has needs no other package, so environments that ortune made come second.
    there = [] if alone else [environment for environment in made.made() if not environment.emulated]
    runtimes |= {
        environment.name: environment.runtime
        for environment in there
        for t in wanted
        if t.name == environment.name not in runtimes
    }
    skipped: list[str] = []
    if install:
        for addition in made.addable():
            if addition.name in {t.name for t in wanted} - set(runtimes):
                try:
                    one = made.require(addition.name, say)
                except RuntimeNotFound as error:
                    say(f"{addition.name} is skipped: {error.what}")
                    skipped.append(addition.name)
                    continue
                runtimes |= {} if one.emulated else {one.name: one.runtime}
    for name, runtime in runtimes.items():
        wheel = runtime.plugins.get(targets.find(name).provider.name, runtime.native)
        say(f"{name} is also compared, with {wheel}; to exclude it: --targets {CPU.target}")
    if install:
        _say_others([t for t in wanted if t.name not in (*runtimes, *skipped)], say)
    return replace(side, elsewhere=runtimes)


def _say_others(others: Sequence[Target], say: Callable[[str], None]) -> None:
    """Report the targets that are not compared although all were requested, grouped by reason."""
    emulated = {environment.name for environment in made.made() if environment.emulated}
    names: dict[str, list[str]] = {}
    for target in others:
        builds = target.provider.builds
        software = target.name in emulated or platform.machine() in {m for b in builds for m in b.emulated_on}
        why = "emulated on this machine" if software else target.where_it_is(platform.system())
        names.setdefault(why, []).append(target.name)
    for why, alike in names.items():
        say(f"not compared: {', '.join(alike)} ({why})")


def _runtime(
    target: Target, own: Runtime, say: Callable[[str], None], browser: BrowserSetup | None
) -> Runtime:
    report = target.discover(own, browser)
    if report.usable:
        return in_pages(own, Plan(providers=target.providers), browser or BrowserSetup())
    if not target.provider.builds:
        raise RuntimeNotFound(
            report.why, where=f"--targets {target.name}", do="pass a build that has it: --runtime PATH"
        )
    return made.find(target.name, say)


def scope_of(baseline: Measuring, on: Plan, objective: Objective, allow: Sequence[str]) -> Scope:
    """Return where plans run that have the providers and settings of one plan."""
    return Scope(
        ort_version=baseline.side.runtime_of(on).version_of(on),
        objective=objective,
        allow=allow,
        allocators=baseline.machine.allocators.keys(),
        providers=on.provider_names,
        channels=targets.of(on).channels,
        asked=on.settings,
    )


class OtherTargets(NamedTuple):
    """What is proposed on other targets.

    Attributes:
        proposed: The plans.
        refused: What is not proposed, and why, in words.
        untested: The targets that are not compared, or not by their default.
    """

    proposed: list[PlanProposal]
    refused: tuple[str, ...]
    untested: tuple[UntestedTarget, ...]


def propose_elsewhere(
    baseline: Measuring,
    names: Sequence[str],
    model: ModelFacts,
    *,
    objective: Objective,
    allow: Sequence[str],
    row: Sequence[RewriteSpec] = (),
    spare_ns: Callable[[], float] | None = None,
) -> OtherTargets:
    """Return plans to try on other targets, each of which has run the model once; and what is not proposed, and why.

    ``row`` are the exact rewrites that the model calls for, ``spare_ns`` what the search can spare for the
    first run on a target that the user did not name.
    """
    proposed: list[PlanProposal] = []
    refused: list[str] = []
    untested: list[UntestedTarget] = []
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
            why = (outcome.what.strip().splitlines() or ["no message"])[0]
            refused.append(f"{plan.describe()} does not run this model ({outcome.reason}: {why[:240]})")
            continue
        if targets.of(plan).emulated(outcome):
            refused.append(f"{plan.describe()} runs on an emulated device here, so its times mean nothing")
            continue
        baseline.live_with(outcome)
        if outcome.done.gpu_run is not None:
            baseline.gpu_runs[plan.provider_names[0]] = outcome.done.gpu_run
        plan, outcome, lowered = _in_its_own_types(baseline, name, plan, outcome)
        more, too = propose_on(
            plan,
            model,
            baseline.host.effective_cpus,
            scope_of(baseline, plan, objective, allow),
        )
        own, without = _rewritten(baseline, plan, outcome, objective, allow, row)
        split, unsplit = one_border(baseline, plan, outcome)
        proposed, refused = (
            [*proposed, *more, *own, *split],
            [*refused, *too, *without, *unsplit],
        )
        untested += lowered
    return OtherTargets(proposed, tuple(refused), tuple(untested))


def late(result: TuneResult, names: Sequence[str]) -> tuple[UntestedTarget, ...]:
    """Return the targets requested by name for which no time was left, each with a budget that suffices."""
    if not result.budget.enough_s:
        return ()
    ran = {c.plan.provider_names[0] for c in tried(result.candidates)}
    waiting = {c.plan.provider_names[0] for c in left_out(result.candidates)}
    # Before the first proposal all are waiting; after it, one that is not among them was refused with a reason.
    proposed = bool(waiting or ran or result.not_tried or result.untested_targets)
    return tuple(
        UntestedTarget(target=name, reason="no-time", enough_s=result.budget.enough_s)
        for name in names
        if (provider := of_target(name).name) not in ran and (provider in waiting or not proposed)
    )


def _in_its_own_types(
    baseline: Measuring, name: str, plan: Plan, ran: Measured
) -> tuple[Plan, Measured, tuple[UntestedTarget, ...]]:
    """Return the plan that keeps the model's own number types, its first run, and why, where the default does not.

    OpenVINO computes float32 models in bfloat16 on processors that have it, CUDA in TF32. Beyond the limit, every
    plan on top of that default would fail for its outputs, and an exact plan that is faster would never be tried.
    What OpenVINO does by default depends on where a bundle is loaded, and outputs that are nearly constant hide it:
    without a tolerance, its plans are exact by their setting and not by what was seen here.
    """
    strict = strict_settings(plan.provider_names[0])
    if not strict:
        return plan, ran, ()
    difference = output_check.difference(baseline, ran, f"{name}, first run", baseline.arm(name, plan=plan))
    anywhere = baseline.options.tolerance is None and find(plan.provider_names[0]).hardware != "gpu"
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
    """Return rewrites for this target alone, and those that do not suit its GPU; others are tried with the baseline."""
    model, name = baseline.side.model, targets.of(on).name
    if model.info.format == "ort":
        return [], ()
    features = gpu_features(ran)
    plans = []
    for spec, reason in rewrites.proposals(
        model.ir, allow, workload=baseline.work, objective=objective, target=name, features=features
    ):
        if rewrites.find(spec.name).targets:
            plan = msgspec.structs.replace(on, rewrites=grounded(spec, row))
            origin = f"rewrite {spec.name} on {on.describe()}: {reason}"
            plans.append(PlanProposal(plan=plan, origin=origin, prior=REWRITE_PRIOR))
    return plans, without_feature(baseline, on, ran, objective, allow)


def one_border(baseline: Measuring, on: Plan, ran: Measured) -> tuple[list[PlanProposal], tuple[str, ...]]:
    """Plans that keep a side of the graph on the CPU, where a run left nodes there between the provider's own."""
    model, version = baseline.side.model, baseline.side.runtime_of(on).version_of(on)
    if model.info.format == "ort" or on.is_web:
        return [], ()
    return hybrids(model.ir.graph, ran.done.placement, on, version)


def gpu_features(ran: Measured) -> tuple[str, ...]:
    """Return what the GPU has that a page ran on, of all that rewrites may need; nothing outside of a browser."""
    page = ran.done.page
    return (rewrites.SHADERS_OF_FLOAT16,) if page is not None and page.float16 else ()


def without_feature(
    baseline: Measuring, on: Plan, ran: Measured, objective: Objective, allow: Sequence[str]
) -> tuple[str, ...]:
    """Return the rewrites that are not proposed since the GPU that a page ran on is not for them, in words."""
    lacking = rewrites.lacking(
        baseline.side.model.ir,
        allow,
        workload=baseline.work,
        objective=objective,
        target=targets.of(on).name,
        features=gpu_features(ran),
    )
    return tuple(f"rewrite {name}: the browser's GPU has no {feature}" for name, feature in lacking)


def with_runtime(result: TuneResult, side: Resolved) -> TuneResult:
    """The answer with what its winner runs on, where that is another runtime than the default's, and its price."""
    runtime = side.runtime_of(result.winner)
    if runtime == side.runtime:
        return result
    adoption = None if runtime.ort_web_dist else made.adoption(runtime, side.runtime)
    return msgspec.structs.replace(result, runtime=runtime, adoption=adoption)
