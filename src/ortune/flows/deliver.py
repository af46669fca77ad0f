"""Tuning, then what the user carries away: the report and the bundle."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec

from ortune import platform
from ortune.errors import UsageError
from ortune.fleet import runtimes
from ortune.flows.compare import open_store
from ortune.flows.compare_options import Watcher
from ortune.flows.replay import Replay, stored
from ortune.flows.sides import Resolved, SideText, resolve
from ortune.flows.tune import Tuning
from ortune.flows.tune_options import Options
from ortune.records import Envelope, Plan, TuneResult
from ortune.search.figures import OBJECTIVES
from ortune.store.db import SessionLog, Store
from ortune.store.lock import measuring
from ortune.trials.scratch import scratch_folder


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
        rewritten=run.models.get(run.model_key(result.winner)),
        feeds=Path(run.ground.refs[0].path),
        outputs=run.reference_outputs(),
        report_html=render(envelope),
        directory=run.o.directory,
        force=run.o.force,
    )
    done = msgspec.structs.replace(result, bundle=str(path), report=str(path / "report.html"))
    return msgspec.structs.replace(envelope, result=done)


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
            log, replay = _journal(store, side, options)
            with measuring(f"tune {side.label}", wait=options.wait, say=watch.say):
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


def _journal(store: Store | None, side: Resolved, options: Options) -> tuple[SessionLog, Replay]:
    """A new session, or the one to go on with and what it measured."""
    asked = replace(options, resume=None, store=None, directory=None, force=False, wait=True)
    key = f"tune {side.model.info.sha256} {hashlib.sha256(repr(asked).encode()).hexdigest()[:16]}"
    if store is None:
        return SessionLog(None, ""), Replay()
    if options.resume is None:
        return store.begin("tune", key, {"model": side.label, "host": platform.host()}), Replay()
    wanted = [s.id for s in store.sessions(key) if options.resume in ("newest", s.id)]
    for session in wanted:
        if not any(e.kind == "result" for e in store.events(session)):
            return store.resume(session), stored(store, session)
    raise UsageError(
        "no unfinished session of this model and these options is stored",
        where="--resume",
        do="leave --resume out, or give the options of the session that was interrupted",
    )
