"""``ortune diagnose``: finds why a model is slow, and measures the fixes."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import replace

import msgspec

from ortune import monotonic, rules, targets
from ortune.engines.profiling.headroom import one_profile
from ortune.errors import OrtuneError
from ortune.measuring import memory_in_turn, output_check
from ortune.measuring.first_run import find_checked_inputs
from ortune.measuring.fixed_blocks import fits, shorten_trials
from ortune.measuring.measuring import Measuring
from ortune.measuring.opening import Experiment
from ortune.measuring.pace import Pace
from ortune.measuring.right_outputs import check_against_float64, evaluation_limit_s
from ortune.measuring.run_pilot import run_pilot
from ortune.measuring.sides import SideText, require_unchanged
from ortune.measuring.watcher import Watcher
from ortune.printable import without_password
from ortune.records import FUNCTIONAL_ONLY, Envelope, Finding, Plan, ProfileResult
from ortune.records.messages import FirstRun
from ortune.search.blocks import BASE, awake_warning, measured
from ortune.search.figures import WORDS, describe, figure
from ortune.search.phases import LEAST_CHECKS_S, PROFILE_ALONE_SHARE, PROFILE_BEFORE_FIXES_SHARE
from ortune.show import headroom_words
from ortune.show.answer_commands import plan_options
from ortune.show.finding_words import measurable
from ortune.show.message_words import texts
from ortune.trace.undisturbed import as_profile
from ortune.verbs._shared.session import begin_or_resume, experiment, store_result
from ortune.verbs._shared.severities import fails
from ortune.verbs._shared.spelling import command, named, words
from ortune.verbs._shared.steps_words import PLANNING
from ortune.verbs._shared.watching import with_words
from ortune.verbs.diagnose.fixes import TOGETHER, Fixes
from ortune.verbs.diagnose.options import Options
from ortune.verbs.diagnose.result import DiagnoseResult


def run(options: Options, watcher: Watcher | None = None) -> Envelope[DiagnoseResult]:
    """Find why a model is slow, and measure the gain of each fix.

    Raises:
        OrtuneError: The model does not run, or this machine cannot measure now.
    """
    watch = with_words(watcher)
    if options.page:
        return _page(options, watch)
    with experiment("diagnose", options, watch) as opened:
        text = SideText(
            text=str(options.model), rewrites=tuple(options.rewrite), runtime=named(options.runtime)
        )
        side = opened.resolve(text)
        with opened.measuring(side.label):
            begin_or_resume(opened, options, [side], options.resume, model=side.label)
            envelope = _diagnose(options, opened, opened.base_measuring(side))
        return store_result(opened, options, envelope)


def _page(options: Options, watch: Watcher) -> Envelope[DiagnoseResult]:
    """Watch the user's page and return its document."""
    shown = replace(options, page=without_password(options.page))
    with experiment("diagnose", shown, watch) as opened:
        opened.begin(shown.page, {"model": shown.page})
        return store_result(opened, shown, _watch(shown, opened, options.page))


def _watch(options: Options, opened: Experiment, url: str) -> Envelope[DiagnoseResult]:
    watch = opened.watch
    began_s = monotonic.now_s()
    watch.line(f"watching {options.page}")
    from ortune.verbs.diagnose.watched import (
        watched,  # talks to a browser, which no other diagnosis needs
    )

    page, first = watched(url, options.in_browser, options.watch_s, opened.scratch, watch.stop)
    findings = tuple({(f.code, f.what): f for session in page.sessions for f in session.findings}.values())
    result = DiagnoseResult(
        side=first,
        findings=findings,
        fail_on=options.severity,
        failed=fails(findings, options.severity),
        reproduce=command("diagnose", options),
        page=page,
        session=opened.log.id,
        elapsed_s=monotonic.now_s() - began_s,
    )
    return opened.document(result, status="interrupted" if watch.stop() else "ok")


def exit_code(envelope: Envelope[DiagnoseResult]) -> int:
    """Return 1 if findings remain that ``--fail-on`` does not accept, or else 0."""
    return int(envelope.result is not None and envelope.result.failed)


def _diagnose(options: Options, opened: Experiment, baseline: Measuring) -> Envelope[DiagnoseResult]:
    """Run and profile the model, measure the fixes, and return the document."""
    watch, budget = opened.watch, opened.budget
    watch.line(FirstRun(side="the model"))
    find_checked_inputs(baseline, budget)
    check_against_float64(baseline, evaluation_limit_s(budget))
    output_check.step_down(baseline)
    watch.line(PLANNING)
    run_pilot(baseline, options.objective, budget, lambda trial_ns: fits(budget, trial_ns))
    # A second profile and its findings would differ, so a resumed session takes the recorded ones.
    once = opened.replay.once
    profile = once("profile", ProfileResult | None, lambda: _profile(options, opened, baseline))
    opened.replay.record_other_work()
    pace = opened.pace(least_s=LEAST_CHECKS_S)
    findings = once("findings", tuple[Finding, ...], lambda: _findings(opened, baseline, profile, pace))
    opened.replay.record_other_work()
    memory_in_turn.measure(opened, baseline, baseline.pilot.first)
    fixes = Fixes(opened, baseline, options.objective, options.seed)
    fixes.checks_s = pace.needed_s(options.budget_s) - options.budget_s if pace.left_out else 0.0
    fixes.gather(findings, options.allowed)
    fixes.measure()
    require_unchanged(baseline.side)
    for note in opened.skipped(pace, fixes.enough_s):
        baseline.note(note)
    return _document(options, opened, baseline, findings, fixes, profile)


def _profile(options: Options, opened: Experiment, baseline: Measuring) -> ProfileResult | None:
    """Profile one process; return None if it fails under the profiler or does not fit in the budget."""
    opened.watch.line("profiling")
    first = baseline.pilot.first
    # Where no fix can be raced, nothing else needs the time.
    budget = opened.budget.reserve(opened.answer_s)
    for_fixes = budget.share(1 - PROFILE_BEFORE_FIXES_SHARE)
    races = for_fixes.holds(shorten_trials(baseline, 1, for_fixes), baseline.pilot.trial_ns)
    try:
        result = one_profile(
            baseline,
            figure(first, "median") or first.done.cases[0].first_ns,
            options.folder,
            most_ns=(PROFILE_BEFORE_FIXES_SHARE if races else PROFILE_ALONE_SHARE) * budget.left_ns,
            read_ns=opened.answer_s * 1e9,
        )
    except OrtuneError as error:
        opened.watch.say(f"not profiled: {error.what}")
        return None
    if result is None or result.headroom is None:
        return result
    return msgspec.structs.replace(result, headroom=headroom_words.worded(result.headroom))


def _findings(
    opened: Experiment, baseline: Measuring, profile: ProfileResult | None, pace: Pace
) -> tuple[Finding, ...]:
    first = baseline.pilot.first
    page = first.done.page
    facts = replace(
        baseline.facts(),
        begins=pace.begins,
        # Only a software device is passed on: its slow spots are not diagnosed.
        page=page if page is not None and page.software else None,
        emulated=targets.target_of(baseline.side.plan).emulated(first),
        # If the optimisation level was lowered, only the wrong level is diagnosed.
        plan=baseline.check.wrong_plan or baseline.side.plan,
        profile=profile and as_profile(profile),
        host=opened.machine.host,
        sensors=opened.machine.sensors(),
        environment=os.environ,
    )
    findings = rules.findings(facts, measured=True)
    return (*findings, *(finding for finding in baseline.findings if finding not in findings))


def _document(
    options: Options,
    opened: Experiment,
    baseline: Measuring,
    findings: Sequence[Finding],
    fixes: Fixes,
    profile: ProfileResult | None,
) -> Envelope[DiagnoseResult]:
    asked = words(options, without=("budget", "allow", "fail_on"))

    def compares(plan: Plan) -> str:
        return shlex.join(["ortune", "compare", *asked, *plan_options(plan, "--b-")])

    tried = {
        fix.arm: msgspec.structs.replace(result, command=compares(fix.change))
        for fix, result in fixes.results()
    }
    whole = tried.pop(TOGETHER, None)
    comparisons = {
        code: result.comparison
        for result in tried.values()
        for code in result.codes
        if result.comparison is not None
    }
    verified = tuple(msgspec.structs.replace(f, verified=comparisons.get(f.code)) for f in findings)
    ordered = tuple(sorted(measurable(verified, asked), key=_order))
    functional_only = baseline.functional_only
    faster = any(comparison.verdict == "faster" for comparison in comparisons.values())
    base = measured(fixes.blocks, BASE) or [baseline.pilot.first]
    result = DiagnoseResult(
        side=baseline.side.record,
        statistic=WORDS[fixes.statistic] if fixes.statistic else "",
        figures=None if functional_only else describe(base, fixes.statistic or "median"),
        findings=ordered,
        tried=tuple(tried.values()),
        together=whole,
        not_tried=tuple(fixes.not_tried),
        profile=profile,
        controls=tuple(fixes.controls),
        peak_in_turn=baseline.peak_in_turn,
        notes=(
            *baseline.work.notes,
            *texts(baseline.notes),
            *texts(awake_warning(fixes.blocks)),
            *texts(opened.notes),
        ),
        fail_on=options.severity,
        failed=fails((*baseline.alerts, *ordered), options.severity),
        reproduce=command("diagnose", options),
        tune=shlex.join(["ortune", "tune", *asked]),
        session=opened.log.id,
        elapsed_s=opened.elapsed_s,
        enough_s=fixes.enough_s,
    )
    return opened.document(
        result,
        status="interrupted" if opened.watch.stop() else "ok",
        verdict="functional-only" if functional_only else "faster" if faster else None,
    )


def _order(finding: Finding) -> tuple[int, float, float]:
    """Return a finding's sort key: first emulation, then confirmed gains, unmeasured fixes, fixes without a gain."""
    comparison = finding.verified
    if finding.code == FUNCTIONAL_ONLY:
        return -1, 0.0, 0.0
    if comparison is not None:
        return (0, comparison.ratio, 0.0) if comparison.verdict == "faster" else (2, comparison.ratio, 0.0)
    return 1, 0.0, -(finding.share_ratio or 0.0)
