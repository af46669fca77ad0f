"""Tuning, then what the user carries away: the report and the bundle."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec

from ortune import __version__, platform, rewrites
from ortune.bundle import format as bundle_format
from ortune.errors import UsageError
from ortune.fleet import runtimes
from ortune.records import PROTOCOL_VERSION, Envelope, Plan, TuneResult
from ortune.search.figures import OBJECTIVES
from ortune.store.db import SessionLog, Store
from ortune.store.lock import measuring
from ortune.trials.replay import RESUMED, Replay, stored
from ortune.trials.scratch import scratch_folder
from ortune.trials.sides import Resolved, SideText, resolve
from ortune.trials.watcher import Watcher
from ortune.verbs.compare import open_store, session_header
from ortune.verbs.tune import Tuning
from ortune.verbs.tune_options import Options
from ortune.verbs.tune_result import code_rewritten


def tune_and_deliver(options: Options, watcher: Watcher | None = None) -> Envelope:
    """``tune``, and the bundle with its report where ``options.directory`` names a place.

    Raises:
        OrtuneError: Nothing could be tuned, or the bundle cannot be written.
    """
    return _tuned(options, watcher or Watcher(), _bundle if options.directory is not None else None)


def _bundle(run: Tuning, envelope: Envelope) -> Envelope:
    """Writes the bundle while the session's files are still there."""
    from ortune.bundle.write import write_bundle
    from ortune.report.html.page import render

    result = envelope.result
    assert isinstance(result, TuneResult)
    assert run.o.directory is not None
    path = write_bundle(
        result,
        run.ground.work,
        run.host,
        model=run.side.model.path,
        rewritten=run.models.made(result.winner),
        feeds=Path(run.ground.refs[0].path),
        outputs=run.reference_outputs(),
        report_html=render(envelope),
        directory=run.o.directory,
        force=run.o.force,
        model_settings=_model_settings(result.winner),
    )
    report, info = path / "report.html", bundle_format.read(path)
    if info.plain_model:
        # Pasted as they are, the lines must load the model that was measured, whose place is known only now.
        result = msgspec.structs.replace(result, code=code_rewritten(result.winner, str(path / info.model)))
        report.write_text(render(msgspec.structs.replace(envelope, result=result)), encoding="utf-8")
    done = msgspec.structs.replace(result, bundle=str(path), report=str(report))
    return msgspec.structs.replace(envelope, result=done)


def _model_settings(plan: Plan) -> tuple[str, ...]:
    """The settings that hardware-bound rewrites brought into a plan, by name."""
    bound = [spec for spec in plan.rewrites if rewrites.find(spec.name).hardware_bound]
    brought = rewrites.settings_for(bound).items()
    return tuple(name for name, value in brought if plan.settings.get(name) == value)


def _tuned(
    options: Options, watch: Watcher, finish: Callable[[Tuning, Envelope], Envelope] | None = None
) -> Envelope:
    """Finds the fastest plan and proves it; ``result`` is a TuneResult.

    Args:
        options: What is asked.
        watch: Who is told.
        finish: Called with the run and its document before its files are deleted; returns the document to keep.

    Raises:
        OrtuneError: Nothing could be tuned; the exit code is the error's.
    """
    if options.objective not in OBJECTIVES:
        raise UsageError(
            f"no objective is called {options.objective!r}", do=f"one of {', '.join(OBJECTIVES)}"
        )
    if options.target != "cpu":
        raise UsageError(
            f"tune searches the settings of the CPU; {options.target} is no target of its search",
            where="--target",
            do=f"ortune compare MODEL --target {options.target} --b-set KNOB=VALUE",
        )
    if bundle_format.is_bundle(Path(options.model)):
        plain = Path(options.model) / bundle_format.read(Path(options.model)).model
        raise UsageError(
            "is tuned already: its own plan would pass for the default",
            where=options.model,
            do=f"ortune compare {options.model} proves it again; ortune tune {plain} begins anew",
        )
    if options.directory is not None:
        _require_writable(options.directory)
    with scratch_folder() as scratch:
        side = resolve(
            SideText(text=options.model, python=options.python),
            common=Plan(),
            base_model=None,
            scratch=scratch,
        )
        watch.say(f"measuring with {runtimes.describe(side.runtime)}")
        store, trouble = open_store(options.store)
        if trouble:
            watch.say(trouble)
        try:
            with measuring(f"tune {side.label}", wait=options.wait, say=watch.say):
                # Journal and clock begin with the lock: waiting for another ortune costs nothing of the budget.
                log, replay = _journal(store, side, options)
                run = Tuning(options, watch, side, scratch, log, replay)
                try:
                    envelope = run.go()
                finally:
                    run.ground.close()
            if finish:
                envelope = finish(run, envelope)
            log.add("result", envelope)
            if log.trouble:
                watch.say(log.trouble)
        finally:
            if store:
                store.close()
    return envelope


def _require_writable(folder: Path) -> None:
    """Says before the budget is spent that the bundle could not be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UsageError(
            f"the bundle cannot be written there: {error.strerror}",
            where=f"--output {folder}",
            do="choose another folder, or --no-bundle",
        ) from error


def _stamp(inputs: Path | None) -> str:
    """Changes when the user's input files do."""
    if inputs is None:
        return ""
    files = sorted(inputs.rglob("*")) if inputs.is_dir() else [inputs]
    return repr([(str(f), f.stat().st_size, f.stat().st_mtime_ns) for f in files if f.is_file()])


def _journal(store: Store | None, side: Resolved, options: Options) -> tuple[SessionLog, Replay]:
    """A new session, or the one to go on with and what it measured."""
    asked = replace(options, resume=None, store=None, directory=None, force=False, wait=True)
    # Nothing stale: another build, another machine or other inputs make another session.
    facts = (
        __version__,
        PROTOCOL_VERSION,
        asked,
        side.runtime.package,
        side.runtime.ort_version,
        platform.host().fingerprint,
        _stamp(options.inputs.inputs),
        _stamp(options.inputs.workload),
    )
    key = f"tune {side.model.info.sha256} {hashlib.sha256(repr(facts).encode()).hexdigest()[:16]}"
    if store is None and options.resume is not None:
        raise UsageError("there is no store to resume from", where="--resume", do="name it with --store PATH")
    if store is None:
        return SessionLog(None, ""), Replay()
    if options.resume is None:
        return store.begin("tune", key, session_header(model=side.label)), Replay()
    wanted = [s.id for s in store.sessions(key) if options.resume in ("newest", s.id)]
    for session in wanted:
        if not any(e.kind == "result" for e in store.events(session)):
            replay = stored(store, session)
            log = store.resume(session)
            log.add(RESUMED, {"trials": len(replay.trials)})
            return log, replay
    raise UsageError(
        "no unfinished session of this model and these options is stored",
        where="--resume",
        do="leave --resume out, or give the options of the session that was interrupted",
    )
