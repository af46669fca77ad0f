"""``ortune tune app.workload``: replays a recording with changes, confirms the best ones, and writes a bundle."""

from __future__ import annotations

from pathlib import Path

import msgspec

from ortune import rules
from ortune.bundle import digests
from ortune.bundle.app_write import write_app_bundle
from ortune.bundle.format import portable_name
from ortune.bundle.settings import portable
from ortune.bundle.shared import APP_SCHEMA
from ortune.bundle.write import require_replaceable, require_writable
from ortune.errors import MeasurementError, UsageError
from ortune.measuring.application import Application
from ortune.measuring.application_models import RewrittenAppModel, seen_values
from ortune.measuring.opening import Experiment
from ortune.measuring.recorded_settings import applied
from ortune.measuring.watcher import Watcher
from ortune.records import (
    AppBundle,
    AppProof,
    AppRatio,
    AppSession,
    Envelope,
    ErrorInfo,
    Plan,
    RecordedInput,
    Recording,
    Value,
)
from ortune.rules import Facts
from ortune.show.message_words import texts
from ortune.verbs._app_bench.run import part
from ortune.verbs._app_tune import words
from ortune.verbs._app_tune.plays import SearchStopped
from ortune.verbs._app_tune.result import AppConfirmation, AppTuneResult, RewrittenModel
from ortune.verbs._app_tune.search import ApplicationSearch
from ortune.verbs._shared.applications import application_of, require_applicable
from ortune.verbs._shared.arrival_options import arrivals_of
from ortune.verbs._shared.session import begin_or_resume, experiment, store_result
from ortune.verbs._shared.spelling import command
from ortune.verbs.tune.options import Options

_CHANNELS = ("session_option", "session_config")


def tune(options: Options, recording: Recording, watch: Watcher) -> Envelope[AppTuneResult]:
    """Find changes that make a recorded application faster, write them as a bundle, and return the result document.

    Raises:
        OrtuneError: Nothing could be measured, an option is invalid, or the bundle's folder is not writable.
    """
    require_applicable(
        options, {"quick", "bundle", "output", "force", "current", "resume", "rate", "arrival"}
    )
    current = _current(options)
    where, directory = Path(options.model), options.directory
    if directory is not None:
        require_writable(directory)
        if options.force:
            require_replaceable(directory, where)
    with experiment("app-tune", options, watch) as opened:
        arrivals = arrivals_of(options.rate, options.arrival)
        application = application_of(opened, options, recording, arrivals=arrivals)
        with opened.measuring(where.name):
            sides = list(application.sides.values())
            begin_or_resume(opened, options, sides, options.resume, (where,), model=where.name)
            application.find_inputs()
            search = ApplicationSearch(opened, application, where, current)
            if not search.plays.played.calls:
                raise MeasurementError("no call can be played", where=str(where), do="record it for longer")
            stopped = False
            try:
                search.pilot()
                kind = "" if arrivals is None else arrivals.kind
                watch.say(
                    words.plan(part(search.plays.played, arrivals), kind, search.plays.played.rate_per_s)
                )
                search.run()
            except SearchStopped:
                stopped = True
            result = _result(options, opened, application, search)
        error = None
        if directory is not None and result.verdict == "faster" and result.confirmation is not None:
            bundle = _bundle(opened, application, search, result, result.confirmation)
            made = {application.paths[index].name: each.path for index, each in search.rewritten.items()}
            try:
                place = write_app_bundle(
                    bundle,
                    where,
                    directory,
                    models={
                        each.replacement: made[each.name] for each in bundle.sessions if each.replacement
                    },
                    text=words.readme(result),
                    force=options.force,
                )
                result = msgspec.structs.replace(result, bundle=str(place))
            except UsageError as refused:
                error = ErrorInfo(code=refused.code, what=refused.what, where=refused.where, do=refused.do)
        result = msgspec.structs.replace(result, headline=words.headline(result))
        envelope = opened.document(
            result, status="interrupted" if stopped else "ok", verdict=result.verdict, error=error
        )
        return store_result(opened, options, envelope)


def _current(options: Options) -> dict[str, Value]:
    """Return the session settings of ``--current``.

    Raises:
        UsageError: ``--current`` contains changes that are not session settings.
    """
    today = options.today or Plan()
    channels = {each.channel for each in applied(today.settings)}
    if today.rewrites or today.providers or channels - set(_CHANNELS):
        raise UsageError(
            "the current configuration of a recording has settings of sessions alone",
            where=f"--current {options.current}",
            do="omit it, or pass settings as in 'intra_op_num_threads=2,allow_spinning=0'",
        )
    return dict(today.settings)


def _result(
    options: Options, opened: Experiment, application: Application, search: ApplicationSearch
) -> AppTuneResult:
    confirmation = search.confirmation
    asked = [
        rule for rule in rules.Selection(measured=True).rules(("application",)) if rule.tier == "if-measured"
    ]
    findings = rules.found_by(asked, Facts(recording=application.recording, gains=search.gains))
    short = confirmation is None and search.keeps
    return AppTuneResult(
        label=Path(options.model).name,
        verdict=search.verdict,
        runtime=application.runtime,
        played=part(search.plays.played, application.arrivals),
        arrival="" if application.arrivals is None else application.arrivals.kind,
        rate_per_s=search.plays.played.rate_per_s,
        late_share=search.late_share,
        busy=search.busy,
        used_cpus=sorted(search.plays.used_cpus)[len(search.plays.used_cpus) // 2]
        if search.plays.used_cpus
        else None,
        candidates=tuple(search.candidates),
        current=dict(search.base.settings),
        settings=dict(search.kept.settings),
        share=search.kept.share,
        variables=dict(search.kept.variables),
        providers={
            application.paths[index].name: name for index, name in sorted(search.kept.providers.items())
        },
        models=tuple(
            RewrittenModel(
                name=application.paths[index].name,
                rewrites=tuple(spec.name for spec in each.specs),
                guarded=bool(each.only),
            )
            for index, each in sorted(search.rewritten.items())
        ),
        confirmation=confirmation,
        findings=findings,
        command=application.recording.command,
        enough_s=search.enough_s if short or (search.n_stages and not search.candidates) else 0.0,
        n_plays=search.plays.n_plays,
        notes=(
            *words.missing(application.missing),
            *words.left_out(search.plays.played),
            *words.played_by(application.recording, application.runtime),
            *texts(opened.notes),
        ),
        reproduce=command("tune", options),
        session=opened.log.id,
        elapsed_s=opened.elapsed_s,
    )


def _bundle(
    opened: Experiment,
    application: Application,
    search: ApplicationSearch,
    result: AppTuneResult,
    confirmation: AppConfirmation,
) -> AppBundle:
    recording = application.recording
    settings = portable(Plan(settings=dict(search.kept.settings))).settings
    # The same model may be loaded from a file in one session and from bytes in another.
    models = {recording.models[index].sha256: index for index in sorted(application.bases, reverse=True)}
    rewritten = {recording.models[index].sha256: each for index, each in search.rewritten.items()}
    providers = {recording.models[index].sha256: name for index, name in search.kept.providers.items()}
    sessions = tuple(
        _session(
            application,
            index,
            rewritten.get(recording.models[index].sha256),
            settings,
            share=search.kept.share,
            provider=providers.get(recording.models[index].sha256, ""),
        )
        for index in sorted(models.values())
    )
    if search.kept.variables:
        sessions = ()  # the variable reaches all of them
    return AppBundle(
        schema=APP_SCHEMA,
        sessions=sessions,
        variables=dict(search.kept.variables),
        command=recording.command,
        ort_versions=tuple(sorted({process.onnxruntime for process in recording.processes})),
        host=opened.machine.trial_host,
        proof=(
            AppProof(
                change=words.changes(result), wall=_ends(confirmation.wall), cpu=_ends(confirmation.cpu)
            ),
        ),
        memory=confirmation.memory,
        contains=words.headline(result),
        session=opened.log.id,
    )


def _session(
    application: Application,
    index: int,
    rewritten: RewrittenAppModel | None,
    settings: dict[str, Value],
    *,
    share: bool,
    provider: str,
) -> AppSession:
    model, path = application.recording.models[index], application.paths[index]
    session = AppSession(
        name=path.name,
        sha256=(model.sha256,),
        sizes_bytes=(model.size_bytes,) if model.size_bytes else (),
        settings=settings,
        share=share,
        provider=provider,
    )
    if rewritten is None:
        return session
    # A model with fixed sizes has different input and output shapes, so the program gets the shapes of its own model.
    inputs, outputs = (
        seen_values(application.bases[rewritten.model].side.model.ir) if rewritten.only else ((), ())
    )
    only = tuple(RecordedInput(name=name, shape=shape) for name, shape in rewritten.only)
    return msgspec.structs.replace(
        session,
        replacement=f"models/{model.sha256[:12]}/{portable_name(path.stem + rewritten.path.suffix)}",
        replacement_sha256=digests.of_file(rewritten.path),
        only_shapes=(only,) if only else (),
        inputs=inputs,
        outputs=outputs,
    )


def _ends(ratio: AppRatio) -> tuple[float, float, float] | None:
    if ratio.low is None or ratio.high is None:
        return None
    return ratio.value, ratio.low, ratio.high
