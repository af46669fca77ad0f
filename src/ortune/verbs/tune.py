"""Tuning, then what the user carries away: the report and the bundle."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated

import msgspec

from ortune import __version__, rewrites, targets
from ortune.bundle import format as bundle_format
from ortune.errors import UsageError
from ortune.fleet import runtimes
from ortune.records import PROTOCOL_VERSION, Envelope, Plan, TuneResult
from ortune.search.figures import OBJECTIVES
from ortune.trials.replay import RESUMED, Replay, stored
from ortune.trials.scratch import scratch_folder
from ortune.trials.sides import Resolved, SideText, resolve
from ortune.trials.watcher import Watcher
from ortune.verbs._options import (
    MODEL,
    OUT,
    RUN,
    AnyPath,
    Argument,
    Budget,
    Kept,
    Load,
    Objective,
    OnePlan,
    Option,
    Tolerance,
    share,
)
from ortune.verbs._session import Session, session
from ortune.verbs._tune_result import code_rewritten
from ortune.verbs._tuning import Tuning

FORMATS = ("text", "json", "markdown", "github")
STOPPING = (
    "stopping the race; the best plan so far is then confirmed with nine blocks; Ctrl-C again stops at once"
)


@dataclass(frozen=True, kw_only=True)
class Options(Kept, Load, OnePlan):
    """The fastest correct way to run a model on this machine, proven.

    Tries settings one at a time against the untouched default, combines those that help, drops those that do not
    pay, and confirms the winner on fresh blocks. Writes NAME.ortune: model, settings, code, report and proof.
    """

    model: Annotated[AnyPath, Argument("MODEL", "model.onnx or model.ort.")]
    rewrite: Annotated[
        Sequence[str],
        Option(
            "--rewrite", "NAME[:k=v]", "A rewrite of the model, part of every plan tried. Repeatable.", MODEL
        ),
    ] = ()
    current: Annotated[
        str | None,
        Option(
            "--current",
            "PLAN",
            "What you run today: default, 'intra=4,spin=0', a plan.json or a NAME.ortune. "
            "The headline is then against it.",
            MODEL,
        ),
    ] = None
    objective: Objective = "latency"
    tolerance: Tolerance = None
    budget: Budget = "3m"
    worth: Annotated[
        str | float, Option("--worth", "1%", "The smallest gain that is worth a change.", RUN)
    ] = "1%"
    allow: Annotated[
        Sequence[str],
        Option(
            "--allow",
            "WHAT",
            "Let through: numerics, behaviour, or a guard (mean, p95, memory, cpu). Repeatable.",
            RUN,
        ),
    ] = ()
    resume: Annotated[
        str | None,
        Option(
            "--resume",
            "[ID]",
            "Go on with the newest interrupted session of this model and these options, or with ID.",
            RUN,
            again=False,
        ),
    ] = None
    force: Annotated[bool, Option("--force", "", "Replace an existing bundle.", OUT, again=False)] = False
    bundle: Annotated[
        bool, Option("--bundle/--no-bundle", "", "Write the bundle NAME.ortune.", OUT, again=False)
    ] = True
    output: Annotated[
        AnyPath, Option("--output", "DIR", "Folder for the bundle.", OUT, short="-o", again=False)
    ] = "."

    @cached_property
    def worth_ratio(self) -> float:
        """The smallest gain that is worth a change, as a share."""
        return share(self.worth, "--worth") or 0.0

    @property
    def directory(self) -> Path | None:
        """Where the bundle goes; None makes none."""
        return Path(self.output) if self.bundle else None


def _bundle(run: Tuning, envelope: Envelope) -> Envelope:
    """Writes the bundle while the session's files are still there."""
    from ortune.bundle.write import write_bundle
    from ortune.report.html.page import render

    result = envelope.result
    assert isinstance(result, TuneResult)
    assert run.options.directory is not None
    path = write_bundle(
        result,
        run.baseline.work,
        run.host,
        model=run.side.model.path,
        rewritten=run.models.made(result.winner),
        feeds=Path(run.baseline.refs[0].path),
        outputs=run.reference_outputs(),
        report_html=render(envelope),
        directory=run.options.directory,
        force=run.options.force,
        model_settings=_model_settings(result.winner),
    )
    report, info = path / "report.html", bundle_format.read(path)
    if info.plain_model:
        # Pasted as they are, the lines must load the model that was measured, whose place is known only now.
        result = msgspec.structs.replace(
            result,
            code=code_rewritten(result.winner, str(path / info.model), run.baseline.machine.allocators),
        )
        report.write_text(render(msgspec.structs.replace(envelope, result=result)), encoding="utf-8")
    done = msgspec.structs.replace(result, bundle=str(path), report=str(report))
    return msgspec.structs.replace(envelope, result=done)


def _model_settings(plan: Plan) -> tuple[str, ...]:
    """The settings that hardware-bound rewrites brought into a plan, by name."""
    bound = [spec for spec in plan.rewrites if rewrites.find(spec.name).hardware_bound]
    brought = rewrites.settings_for(bound).items()
    return tuple(name for name, value in brought if plan.settings.get(name) == value)


def run(options: Options, watcher: Watcher | None = None) -> Envelope:
    """Finds the fastest plan and proves it; ``result`` is a TuneResult. The bundle is written where one is asked for.

    Raises:
        OrtuneError: Nothing could be tuned, or the bundle cannot be written.
    """
    watch, model = watcher or Watcher(), str(options.model)
    if options.objective not in OBJECTIVES:
        raise UsageError(
            f"no objective is called {options.objective!r}", do=f"one of {', '.join(OBJECTIVES)}"
        )
    if not targets.find(options.target).ships:
        raise UsageError(
            f"no bundle can be made for {options.target} yet, so tune does not search its settings",
            where="--target",
            do=f"ortune compare MODEL --target {options.target} --b-set KNOB=VALUE",
        )
    if bundle_format.is_bundle(Path(model)):
        plain = Path(model) / bundle_format.read(Path(model)).model
        raise UsageError(
            "is tuned already: its own plan would pass for the default",
            where=model,
            do=f"ortune compare {model} proves it again; ortune tune {plain} begins anew",
        )
    if options.directory is not None:
        _require_writable(options.directory)
    with scratch_folder() as scratch:
        side = resolve(
            SideText(text=model, python=options.interpreter),
            common=Plan(),
            base_model=None,
            scratch=scratch,
        )
        watch.say(f"measuring with {runtimes.describe(side.runtime)}")
        with session("tune", options, watch) as kept:
            with kept.measuring(side.label):
                # Journal and clock begin with the lock: waiting for another ortune costs nothing of the budget.
                replay = _journal(kept, side, options)
                run = Tuning(options, watch, side, scratch, kept.log, replay, kept.machine)
                envelope = run.go()
            return kept.keep(_bundle(run, envelope) if options.directory is not None else envelope)


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


def _journal(kept: Session, side: Resolved, options: Options) -> Replay:
    """Begins a new session, or goes on with one: what it measured."""
    same = replace(options, resume=None, store=None, output=".", bundle=True, force=False, no_wait=False)
    # Nothing stale: another build, another machine or other inputs make another session.
    facts = (
        __version__,
        PROTOCOL_VERSION,
        same,
        side.runtime.package,
        side.runtime.ort_version,
        kept.machine.host.fingerprint,
        _stamp(options.feeds.inputs),
        _stamp(options.feeds.workload),
    )
    key = f"{side.model.info.sha256} {hashlib.sha256(repr(facts).encode()).hexdigest()[:16]}"
    store, resume = kept.store, options.resume
    if store is None and resume is not None:
        raise UsageError("there is no store to resume from", where="--resume", do="name it with --store PATH")
    if store is None or resume is None:
        kept.begin(key, model=side.label)
        return Replay()
    wanted = [s.id for s in store.sessions(f"tune {key}") if resume in ("newest", s.id)]
    for id_ in wanted:
        if not any(e.kind == "result" for e in store.events(id_)):
            replay = stored(store, id_)
            kept.log = store.resume(id_)
            kept.log.add(RESUMED, {"trials": len(replay.trials)})
            return replay
    raise UsageError(
        "no unfinished session of this model and these options is stored",
        where="--resume",
        do="leave --resume out, or give the options of the session that was interrupted",
    )
