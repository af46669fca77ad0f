"""``ortune tune``: finds the fastest configuration of a model, then writes the report and the bundle."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec

from ortune import targets
from ortune.bundle.write import require_replaceable, require_writable
from ortune.engines.racing.tuning import Tuning
from ortune.engines.racing.winner_rows import check_winner_rows
from ortune.errors import UsageError
from ortune.measuring import base_checks
from ortune.measuring.first_run import find_checked_inputs
from ortune.measuring.opening import Experiment
from ortune.measuring.plan_runtimes import with_web_or_node
from ortune.measuring.right_outputs import check_against_float64, evaluation_limit_s
from ortune.measuring.run_pilot import run_pilot
from ortune.measuring.sides import ResolvedSide, SideText, require_unchanged, resolve
from ortune.measuring.watcher import Watcher
from ortune.records import BrowserPlace, Envelope, Headroom, Plan, ProfileResult
from ortune.records.messages import FirstRun
from ortune.runtimes import runtimes
from ortune.search.phases import ROW_SHARE
from ortune.search.plan_edits import merge
from ortune.show import finding_words
from ortune.show.message_words import texts
from ortune.verbs._shared import tune_facts, tune_headline
from ortune.verbs._shared.applications import recording_of, require_no_models
from ortune.verbs._shared.bundling import with_bundle
from ortune.verbs._shared.remote_browser import remote_browser
from ortune.verbs._shared.session import begin_or_resume, experiment, store_result
from ortune.verbs._shared.spelling import command, named, words
from ortune.verbs._shared.steps_words import PLANNING
from ortune.verbs._shared.tuned import make_result, with_runtime
from ortune.verbs._shared.watching import with_words
from ortune.verbs.tune import steps_words, within_memory, wrong_default
from ortune.verbs.tune.across import unreached_targets
from ortune.verbs.tune.options import Options
from ortune.verbs.tune.profiles import default_headroom, winner_difference
from ortune.verbs.tune.proposing import look_in_browser, search
from ortune.verbs.tune.result import TuneResult


def run(options: Options, watcher: Watcher | None = None) -> Envelope[TuneResult]:
    """Find the fastest plan, confirm it, and write the bundle if one was requested.

    For a recording, tune the application instead, and return the document of ``verbs/_app_tune``.

    Returns:
        The document; ``error`` is set if the bundle could not be written after the measurements.

    Raises:
        OrtuneError: Nothing could be tuned, or the bundle's folder is not writable from the start.
    """
    watch = with_words(watcher)
    options = options.spelled_out
    recording = recording_of(options.model)
    if recording is not None:
        from ortune.verbs._app_tune.run import tune

        application: Envelope[Any] = tune(options, recording, watch)
        return application
    require_no_models(options.models)
    options.check()
    if options.directory is not None:
        require_writable(options.directory)
    with experiment("tune", options, watch) as opened:
        text = SideText(text=str(options.model), runtime=named(options.runtime))
        watch.line(f"reading {options.model}")
        side = resolve(text, common=Plan(), scratch=opened.scratch, say=watch.say)
        opened.measure_at(side.runtime, options.default)
        if options.directory is not None and options.force:
            require_replaceable(options.directory, side.model.path)
        # ``--runtime openvino`` sets OpenVINO in every plan; the default that plans are compared with is on the CPU.
        everywhere = merge(Plan(providers=side.plan.providers), options.common)
        side = options.with_runtimes(side, watch.say)
        runtime = with_web_or_node(side.runtime, options.default, options.in_browser)
        side = replace(side, plan=options.default, runtime=runtime)
        watch.say(f"measuring with {runtimes.describe(runtime)}")
        names = [options.first_target]
        there = remote_browser(options, names, opened.scratch, watch) if options.serve else None
        with opened.measuring(side.label, machine=there):
            begin_or_resume(opened, options, [side], options.resume, model=side.label)
            run, envelope = _tune(options, everywhere, opened, side)
        # Where nothing could be tried, or nothing confirmed, there is nothing to ship.
        budget = envelope.result.budget
        ships = budget.n_trials > 0 and not budget.exploratory
        if options.directory is not None and ships:
            place = ["--store", str(options.store)] if options.store else []
            again = ["ortune", "tune", *words(options), *place]
            envelope = with_bundle(
                run, envelope, envelope.result, options.directory, force=options.force, again=again
            )
        return store_result(opened, options, envelope)


def exit_code(envelope: Envelope[TuneResult]) -> int:
    """Return the exit code: 2 if the bundle could not be written (the result is stored nevertheless), else 0."""
    return UsageError.exit_code if envelope.error else 0


def _tune(
    options: Options, everywhere: Plan, opened: Experiment, side: ResolvedSide
) -> tuple[Tuning, Envelope[TuneResult]]:
    """Tune a model and return the tuning and its document; ``everywhere`` is required by the user in every plan."""
    watch, baseline = opened.watch, opened.base_measuring(side)
    run = Tuning(
        baseline,
        opened.replay,
        watch,
        objective=options.objective,
        worth=options.worth_ratio,
        allowed=options.allowed,
        budget=opened.budget,
        current=options.today,
        answer_s=opened.answer_s,
        worth_adopting=options.worth_adopting_ratio,
    )
    watch.line(FirstRun(side="the model"))
    find_checked_inputs(baseline, opened.budget.running)
    check_against_float64(baseline, evaluation_limit_s(opened.budget.running))
    wrong_default.step_down(run)
    run.record_other_work()
    within = within_memory.step_down(run, options.max_memory_bytes)
    watch.line(PLANNING)
    enough = run_pilot(baseline, options.objective, run.budget, run.holds_block, lambda: run.least_trials)
    base_checks.require_real_times(baseline)
    headroom: Headroom | None = None
    short: ProfileResult | None = None
    places: tuple[BrowserPlace, ...] = ()
    if options.target == targets.WEB:
        watch.line(steps_words.TESTING_BACKENDS)
        places = look_in_browser(run, races=enough)
    if not baseline.check.claims:
        run.report_no_race(finding_words.NO_CLAIMS)
    elif enough:
        run.reserve_for_explanation(options.objective)
        watch.line(steps_words.PROFILING)
        headroom, short, profile = default_headroom(run, options.objective, options.folder)
        run.record_other_work()  # a resumed session takes the profile and its duration from the journal
        mended = wrong_default.mending(run, ROW_SHARE)
        run.record_other_work()
        replaced = within is not None and within.base is not None
        if (baseline.check.wrong_plan is not None and not mended) or replaced:
            everywhere = merge(everywhere, Plan(settings=baseline.side.plan.settings))
        asked = options.asked(everywhere)
        if replaced:
            asked = replace(asked, pinned=(*asked.pinned, *baseline.side.plan.rewrites))
        if mended:
            asked = replace(asked, pinned=(*asked.pinned, *mended), as_asked=True)
        search(run, asked, profile, places)
    else:
        run.report_no_race(plans=max(1, len(options.others)))
    wrong_default.time_once(run)
    require_unchanged(baseline.side)
    check_winner_rows(run)
    result = with_runtime(make_result(run, within=within), baseline.side)
    without_time = () if run.stopped else unreached_targets(result, options.others)
    result = msgspec.structs.replace(
        result,
        places=places,
        untested_targets=(*result.untested_targets, *without_time),
        notes=(*result.notes, *texts(opened.notes)),
        headline=tune_headline.headline(result),
        reproduce=command("tune", options),
        headroom=headroom,
        default_profile=short,
        why=winner_difference(run, result),
    )
    untested = tune_facts.nothing_tested(result)
    return run, opened.document(
        result,
        status="interrupted" if run.stopped else "ok",
        verdict="nothing-tested" if untested else run.search.verdict(changes=result.changes),
    )
