"""``ortune soak app.workload``: tests whether a recorded application's memory grows while its calls are repeated."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import msgspec

from ortune.errors import Interrupted, MeasurementError, UsageError
from ortune.inputs.played import ReplayPart, Script
from ortune.inputs.recording_file import case_name
from ortune.measuring import application_experiments
from ortune.measuring.application import Application
from ortune.measuring.application_soak import ApplicationSoak, SoakedScript, as_is
from ortune.measuring.budget import Budget
from ortune.measuring.opening import Experiment
from ortune.measuring.soak_experiments import groups
from ortune.measuring.soaked import was_called
from ortune.measuring.watcher import Watcher
from ortune.printable import operand
from ortune.records import Envelope, Recording
from ortune.search.phases import SOAK_SHARE
from ortune.verbs._app_bench.run import LEAST_NS
from ortune.verbs._app_bench.words import missing
from ortune.verbs._shared import soak_progress
from ortune.verbs._shared.applications import application_of, require_applicable
from ortune.verbs._shared.session import experiment, store_result
from ortune.verbs._shared.spelling import command
from ortune.verbs.soak import judging, words
from ortune.verbs.soak.causes import findings_of
from ortune.verbs.soak.changes import LEAST_ALIVE, soak_changes
from ortune.verbs.soak.options import Options
from ortune.verbs.soak.result import AppProcessRow, PlayedSoak, SoakKill, SoakResult, SoakVerdict

PROCESSES = 3
"""Number of processes to run, as copies of the recorded processes."""
WORST: tuple[SoakVerdict, ...] = ("killed", "growing", "fragmented", "undecided", "bounded", "flat")
"""Verdicts from worst to best; an application has the worst verdict of its processes."""


def soak(options: Options, recording: Recording, watch: Watcher) -> Envelope[SoakResult]:
    """Soak a recorded application and return the document.

    Raises:
        OrtuneError: An option does not apply to a recording, or nothing could be measured.
    """
    where = Path(options.model)
    if options.rate is not None or options.arrival is not None:
        raise UsageError(
            "the calls of a recording are soaked without pauses",
            where="--arrival" if options.rate is None else "--rate",
            do=f"omit it, or soak one of its models: ortune soak MODEL --workload {operand(where)} --rate 50/s",
        )
    require_applicable(options, {"fail_on"})
    with experiment("soak", options, watch) as opened:
        application = application_of(opened, options, recording, in_node=False)
        with opened.measuring(where.name, str(where.resolve()), names={"model": where.name}):
            application.find_inputs()
            envelope = _played(options, opened, application)
        return store_result(opened, options, envelope)


def _played(options: Options, opened: Experiment, application: Application) -> Envelope[SoakResult]:
    """Replay the application in a loop until the budget is spent, and judge each process.

    Raises:
        MeasurementError: The calls cannot be replayed.
        Interrupted: The user stopped before the first call.
    """
    played = application.script(max(LEAST_NS, 1e9 * SOAK_SHARE * opened.budget.left_s / PROCESSES))
    if not played.calls:
        raise MeasurementError("no call can be played", where=str(options.model), do="record it for longer")
    n = len(played.scripts)
    alive = min(base.executor.most_alive for base in application.bases.values())
    copies = max(1, min(PROCESSES, alive) // n)
    budget = opened.budget.running.reserve(opened.answer_s)
    look_s = budget.spent_s + SOAK_SHARE * budget.left_s
    run = ApplicationSoak(
        application, as_is(played, copies, opened.terms.feeds.seed), SOAK_SHARE * budget.left_s
    )
    progress = partial(soak_progress.show, opened, "")
    try:
        going = run.start() and run.run(look_s, progress)
        # If the memory of no process rises so far, the soak continues for the rest of the time.
        parts = [[each for each in run.soaked if each.script == number] for number in range(n)]
        rises = going and run.all_alive and any(map(judging.rises, parts))
        if going and not rises:
            going = run.run(budget.end_s, progress)
    finally:
        soaked = run.close()
    failed = next((each.failure for each in soaked if each.failure is not None), None)
    if failed is not None and not judging.killed(failed):
        raise MeasurementError(
            f"the recorded calls cannot be played: {failed.what}",
            where=str(options.model),
            code=failed.reason,
        )
    if failed is None and not any(map(was_called, soaked)):
        raise Interrupted(words.STOPPED)
    result = _result(options, opened, application, run, played)
    if rises and result.verdict in judging.RISES:
        result, going = _with_causes(opened, application, run, result, budget, alive)
    return opened.document(result, status="ok" if going else "interrupted", verdict=result.verdict)


def _with_causes(
    opened: Experiment,
    application: Application,
    run: ApplicationSoak,
    result: SoakResult,
    budget: Budget,
    alive: int,
) -> tuple[SoakResult, bool]:
    """Soak changes of the process with the worst verdict.

    Returns:
        The result with the changes, and False if the user stopped the soak.
    """
    if alive < LEAST_ALIVE:
        return msgspec.structs.replace(result, notes=(*result.notes, words.NO_EXPERIMENTS)), True
    rows = result.application.processes if result.application is not None else ()
    worst = worst_of(rows)
    unchanged = next(each.arm for each in run.soaked if each.script == worst)
    feeds = _feeds(application, unchanged.script)
    largest = feeds.index(result.raised_by) if result.raised_by else 0
    wanted = application_experiments.arms(application, unchanged, largest)
    opened.watch.say(words.causes(len(wanted) - 1))
    found, points, going = soak_changes(
        groups(wanted, alive),
        budget,
        partial(ApplicationSoak, application),
        partial(soak_progress.show, opened, ""),
        growing=result.verdict == "growing",
    )
    findings = findings_of(next(iter(application.bases.values())), found)
    changed = msgspec.structs.replace(
        result,
        experiments=tuple(found),
        points=(*result.points, *points),
        findings=(*result.findings, *findings),
        elapsed_s=opened.elapsed_s,
    )
    return changed, going


def worst_of(rows: Sequence[AppProcessRow]) -> int:
    """Return the index of the row with the worst verdict; if several have it, of the row whose memory grew most."""
    return min(
        range(len(rows)),
        key=lambda n: (WORST.index(rows[n].verdict), rows[n].first_bytes - rows[n].held_bytes),
    )


def _result(
    options: Options, opened: Experiment, application: Application, run: ApplicationSoak, played: ReplayPart
) -> SoakResult:
    rows = [
        _row(opened, application, script, [each for each in run.soaked if each.script == number])
        for number, script in enumerate(played.scripts)
    ]
    number = worst_of(rows)
    worst = rows[number]
    base = next(iter(application.bases.values()))
    side = base.side.record
    own = [each for each in run.soaked if each.script == number]
    kill = next((each.failure for each in own if each.failure is not None), None)
    calls = max((each.points[-1].calls for each in own if each.points), default=0)
    return SoakResult(
        side=msgspec.structs.replace(side, label=Path(options.model).name, plan=base.side.plan),
        **judging.figures_of(worst),
        base_bytes=judging.median_known([each.done.base_bytes if each.done else None for each in own]),
        killed=SoakKill(calls=calls, what=kill.what) if kill is not None else None,
        fixed=tuple(sorted({name for each in run.soaked if each.done for name in each.done.fixed})),
        fresh=tuple(sorted({each.name for inputs in run.fresh for each in inputs})),
        load=words.played_on(run.repeats),
        points=tuple(judging.row(each.name, point) for each in run.soaked for point in each.points),
        application=PlayedSoak(
            rounds=run.repeats,
            calls=played.calls,
            of_calls=played.of_calls,
            processes=tuple(rows),
        ),
        notes=tuple(missing(application.missing)),
        failed=worst.verdict in options.failing,
        reproduce=command("soak", options),
        session=opened.log.id,
        elapsed_s=opened.elapsed_s,
    )


def _row(
    opened: Experiment,
    application: Application,
    script: Script,
    own: Sequence[SoakedScript],
) -> AppProcessRow:
    """Return the row of a recorded process, with a verdict over all of its copies."""
    row = judging.process_row(
        own,
        _feeds(application, script),
        next(iter(application.bases.values())),
        killed=any(each.failure is not None for each in own),
        elapsed_s=opened.elapsed_s,
        process=script.process + 1,
    )
    return msgspec.structs.replace(row, sizes=tuple(size for size in row.sizes if size.calls))


def _feeds(application: Application, script: Script) -> list[str]:
    """Return the name of each input set of a script: model file and shapes; "" if the model is missing."""
    return [
        f"{application.paths[feed.model].name} {case_name(feed.shapes)}"
        if feed.model in application.paths
        else ""
        for feed in script.feeds
    ]
