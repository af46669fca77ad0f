"""Proposes plans from settings, rewrites, findings and other targets, and searches among them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ortune import rewrites, rules, targets
from ortune.catalogue import facts
from ortune.catalogue.providers import CPU
from ortune.engines.quantizing import quantizing as quantising
from ortune.engines.quantizing.inputs import write_inputs
from ortune.engines.racing.confirming import confirm_winner
from ortune.engines.racing.entering import enter
from ortune.engines.racing.tuning import Tuning
from ortune.measuring import base_checks
from ortune.measuring.pace import Pace
from ortune.measuring.replay import Places
from ortune.measuring.rewriting import usable_packages
from ortune.objectives import OF_MEMORY, Objective
from ortune.records import BrowserPlace, Failed, Finding, Plan, ProfileResult, RewriteSpec
from ortune.search.figures import FROM_START, TIMES, figure
from ortune.search.phases import CHECKS_SHARE, IN_BROWSERS_SHARE, ROW_SHARE
from ortune.search.plan_edits import merge
from ortune.search.proposals.plans import PlanProposal, propose
from ortune.trace.undisturbed import as_profile
from ortune.verbs.tune import in_browsers, proposed_words, steps_words
from ortune.verbs.tune.across import (
    gpu_features,
    one_border_plans,
    propose_on_targets,
    scope_of,
    without_feature,
)
from ortune.verbs.tune.needed_rewrites import needed
from ortune.verbs.tune.within_memory import in_rows

IN_ROWS_PRIOR = 0.6


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneRequest:
    """The user's requests for a tuning.

    Attributes:
        everywhere: Settings and providers that are part of every plan.
        pinned: Rewrites that are part of every plan.
        target: Target of the default plan.
        allow: Allowed safety classes, guards, settings and rewrites.
        others: Further targets to race, if the user named them.
        of_a_browser: Whether all providers of a browser are raced instead of ``others``.
        as_asked: Whether the part common to all plans is also tried on its own.
    """

    everywhere: Plan
    pinned: tuple[RewriteSpec, ...]
    target: str
    allow: Sequence[str]
    others: Sequence[str] = ()
    of_a_browser: bool = False
    as_asked: bool = False


def search(
    run: Tuning, asked: TuneRequest, profile: ProfileResult | None, places: Sequence[BrowserPlace] = ()
) -> None:
    """Propose plans, race them, and confirm the winner; the results are stored in `run`.

    Args:
        run: The tuning, with a timed baseline.
        asked: The user's request.
        profile: Profile of the default; None if it was not profiled.
        places: Execution providers of the browser, if all of them were requested.
    """
    baseline, model = run.baseline, run.side.model
    pace = run.pace(CHECKS_SHARE)
    findings = _findings(run, asked, profile, pace)
    pinned = tuple(rewrites.completed(spec, model.ir, baseline.work) for spec in asked.pinned)
    proposed, refused, bases = _proposed(run, asked, findings, places, pace)
    run.record_skipped(pace, CHECKS_SHARE)
    # A model of fewer bits is made, and its outputs are compared, before it may cost blocks.
    if any(quantising.is_quantising(plan) for plan in (Plan(rewrites=pinned), *(p.plan for p in proposed))):
        inputs = write_inputs(baseline)
        run.models.feeds, run.calibration = inputs.calibrating, inputs.summary
        tried = quantising.Quantising(run, inputs)
        proposed, run.precision = tried.chosen(proposed, bases), tried.rows
    # The user's rewrites and settings are part of every plan and never ablated.
    required = merge(Plan(rewrites=pinned, settings=rewrites.settings_for(pinned)), asked.everywhere)
    if not enter(run, proposed, refused, required=required):
        return
    if not run.exploring:
        run.calibrate()
    if run.exploring:
        run.explore()
        return
    run.race(baseline.host.effective_cpus)
    confirm_winner(run)


def _proposed(
    run: Tuning, asked: TuneRequest, findings: Sequence[Finding], places: Sequence[BrowserPlace], pace: Pace
) -> tuple[list[PlanProposal], tuple[str, ...], tuple[Plan, ...]]:
    """Return (plans to try, highest prior first; notes on refused plans; one plan for each other target)."""
    baseline, model, first = run.baseline, run.side.model, run.baseline.pilot.first
    everywhere, allow = asked.everywhere, asked.allow
    of_model, target = facts.facts_of(model.ir), targets.target_of(everywhere).name
    objective = _objective(run)
    row = _row(run, everywhere, target, objective, pace)
    run.record_other_work()
    rewritable = not model.in_ort_format
    # Stored, because the time left decides the rewrites: a resumed session proposes the same.
    rewritten = run.replay.once(
        "rewritten",
        list[tuple[RewriteSpec, str]],
        lambda: (
            [
                (quantising.unsaturated(spec, model.ir, baseline.host), reason)
                for spec, reason in rewrites.proposals(
                    model.ir,
                    allow,
                    workload=baseline.work,
                    objective=objective,
                    target=target,
                    packages=usable_packages(baseline.side.runtime),
                    features=gpu_features(first),
                    begins=pace.begins,
                )
            ]
            if rewritable
            else []
        ),
    )
    proposed, refused = propose(
        of_model,
        baseline.work,
        baseline.host,
        scope_of(baseline, everywhere, objective, allow),
        rewritten=rewritten,
        row=row,
        findings=findings,
        latency_ns=figure(first, "median"),
        as_asked=asked.as_asked,
    )
    if objective in OF_MEMORY and target == CPU.target:
        fewer = [
            PlanProposal(plan=plan, origin=proposed_words.IN_ROWS, prior=IN_ROWS_PRIOR)
            for plan in in_rows(baseline)
        ]
        proposed = sorted([*fewer, *proposed], key=lambda plan: -plan.prior)
    if rewritable:
        refused += without_feature(baseline, everywhere, first, objective, allow)
    split, unsplit = _one_border(run, asked)
    proposed, refused = sorted([*split, *proposed], key=lambda plan: -plan.prior), (*refused, *unsplit)
    others = in_browsers.raced(places) if asked.of_a_browser else tuple(run.side.elsewhere)
    if not others:
        return proposed, refused, ()
    # Targets that the user did not name only use time that the search can spare.
    nobody_asked = not asked.of_a_browser and not asked.others
    spare = (lambda: run.spare_ns(1.0)) if nobody_asked else None
    elsewhere = propose_on_targets(
        baseline, others, of_model, objective=objective, allow=allow, row=row, spare_ns=spare
    )
    run.untested = elsewhere.untested
    more = sorted([*elsewhere.proposed, *proposed], key=lambda plan: -plan.prior)
    return more, (*refused, *elsewhere.refused), elsewhere.bases


def _one_border(run: Tuning, asked: TuneRequest) -> tuple[list[PlanProposal], tuple[str, ...]]:
    """Return plans that keep one end of the graph on the CPU, if the target leaves CPU nodes between its own nodes.

    Raises:
        MeasurementError: The CPU emulates the target's device.
    """
    baseline, on = run.baseline, asked.everywhere
    if not on.providers or on.is_web:
        return [], ()
    ran = baseline.executor.trial(baseline.arm(asked.target, plan=on), runs=0)
    if isinstance(ran, Failed):
        return [], ()  # the race reports the reason for each plan
    if targets.target_of(on).emulated(ran):
        raise base_checks.emulation_error(baseline.side.label, targets.target_of(on).provider)
    return one_border_plans(baseline, on, ran)


def _objective(run: Tuning) -> Objective:
    """Return the objective for proposals: "cold-start" for all objectives that include the process start."""
    objective = run.search.race.objective
    return "cold-start" if objective in FROM_START else objective


def look_in_browser(run: Tuning, *, races: bool) -> tuple[BrowserPlace, ...]:
    """Return the state of the browser's targets, from the journal in a resumed session.

    If nothing is raced, the targets may use all remaining time.
    """
    replay = run.replay

    def look() -> Places:
        most_ns = (IN_BROWSERS_SHARE if races else 1.0) * run.budget.left_ns
        places = in_browsers.places(run.baseline, 1e-9 * most_ns, races=races)
        return Places(places=places, ended_ns=replay.clock())

    places = replay.once("places", Places, look)
    replay.set_clock(places.ended_ns)
    return places.places


def _row(
    run: Tuning, everywhere: Plan, target: str, objective: Objective, pace: Pace
) -> tuple[RewriteSpec, ...]:
    """Return the exact rewrites that are raced together as one proposal."""
    model, work = run.side.model, run.baseline.work

    def decide() -> tuple[RewriteSpec, ...]:
        if model.in_ort_format:
            return ()
        row = rewrites.pipeline(
            model.ir, workload=work, objective=objective, target=target, begins=pace.begins
        )
        if objective in TIMES:
            run.watch.line(steps_words.WITHOUT_EACH_REWRITE)
            limit_s = min(run.spare_ns(ROW_SHARE) / 1e9, pace.left_s)
            row = needed(run.baseline, run.models, row, everywhere, limit_s)
        return row

    return run.replay.once("row", tuple[RewriteSpec, ...], decide)


def _findings(
    run: Tuning, asked: TuneRequest, profile: ProfileResult | None, pace: Pace
) -> tuple[Finding, ...]:
    """Return the findings that propose a plan, from the model, its runs and its profile."""
    facts_of_run = replace(
        run.baseline.facts(),
        plan=merge(asked.everywhere, Plan(rewrites=asked.pinned)),
        target=asked.target,
        profile=profile and as_profile(profile),
        begins=pace.begins,
    )
    # Stored, because a second profile might lead to other findings and plans.
    return run.replay.once(
        "findings",
        tuple[Finding, ...],
        lambda: tuple(finding for finding in rules.findings(facts_of_run) if finding.plan is not None),
    )
