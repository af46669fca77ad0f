"""``ortune lock``: what ONNX Runtime makes of a model, kept in a file and compared with it later. Nothing is timed."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from ortune import __version__, knobs, platform
from ortune.errors import InputError, ModelError, UsageError
from ortune.fleet import runtimes
from ortune.flows.compare_options import Watcher
from ortune.flows.ground import InputOptions
from ortune.flows.lock_check import LEVELS, TOLERANCE, differences
from ortune.flows.sides import Resolved, SideText, merge, read_plan, resolve, target_providers
from ortune.model import from_git, workload
from ortune.model.open import OpenModel, open_model
from ortune.model.outputs import random_ops
from ortune.model.snapshot.exported import exported_operators, locked_model
from ortune.model.snapshot.observed import observed_sizes
from ortune.model.snapshot.optimised import graph_snapshot, saved_graph
from ortune.model.snapshot.structure import operators
from ortune.records import (
    Envelope,
    FeedRef,
    GraphSnapshot,
    HardwareSnapshot,
    LockedRun,
    LockResult,
    Measured,
    ModelRef,
    Plan,
    Snapshot,
    Workload,
)
from ortune.report import lock_words
from ortune.store.db import SessionLog
from ortune.trials import pilot, requests
from ortune.trials.executor import Arm, Executor
from ortune.trials.launch import Limits
from ortune.trials.output_snapshot import output_snapshots
from ortune.trials.scratch import scratch_folder
from ortune.trials.tool import ToolFailed, ToolProcess

SCHEMA = "ortune/snapshot/1"
SUFFIX = ".lock.json"
BOUND_LEVELS = ("layout", "all")
"""Levels at which the processor decides what comes out: blocks as wide as its vectors, layouts for its kernels."""

_LEVEL = "graph_optimization_level"
_LIMIT_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What ``lock`` can be asked.

    Attributes:
        model: Any SIDE: a model, a bundle, or a model of a git revision.
        check: Compare with the lock file instead of writing it.
        file: The lock file; None is beside the model, ``m.onnx.lock.json``.
        tolerance: Relative, of the outputs' mean and norm.
        strict: Every difference fails, also another version of ONNX Runtime alone.
    """

    model: str
    check: bool = False
    file: Path | None = None
    settings: Sequence[str] = ()
    rewrites: Sequence[str] = ()
    plan: Path | None = None
    python: str | None = None
    target: str = "cpu"
    inputs: InputOptions = field(default_factory=InputOptions)
    tolerance: float = TOLERANCE
    strict: bool = False


def lock(options: Options, watcher: Watcher | None = None) -> Envelope:
    """Writes the snapshot of a model, or compares the model with the one written before.

    Returns:
        The whole document; ``result`` is a LockResult, ``verdict`` "written", "unchanged" or "changed".

    Raises:
        OrtuneError: The model, a setting or the lock file cannot be used.
    """
    watch = watcher or Watcher()
    path = options.file or default_path(options.model)
    was = read(path, options.model) if options.check else None
    with scratch_folder() as scratch:
        side = _side(options, was, scratch)
        watch.say(f"looking with {runtimes.describe(side.runtime)}")
        now = take(side, _inputs(options, was), scratch, watch, locked=was)
    if was is None:
        write(path, now)
        result = LockResult(path=str(path), written=True, snapshot=now, headline=f"locked in {path}")
        verdict = "written"
    else:
        changes, notes = differences(was, now, tolerance=options.tolerance, strict=options.strict)
        result = LockResult(
            path=str(path),
            written=False,
            snapshot=now,
            changes=changes,
            headline=lock_words.headline(was, now, changes),
            notes=notes,
        )
        verdict = "changed" if any(c.fails for c in changes) else "unchanged"
    return Envelope(
        schema="ortune/lock/1",
        ortune=__version__,
        host=platform.host(),
        model=ModelRef(path=str(side.model.path), sha256=side.model.info.sha256),
        status="ok",
        verdict=verdict,
        result=result,
    )


def checked_tolerance(given: float | None) -> float:
    """``--tolerance``, or the usual one; UsageError when it is no positive number."""
    if given is None:
        return TOLERANCE
    if not (math.isfinite(given) and given > 0.0):
        raise UsageError(f"{given} is not a positive number", where="--tolerance", do="e.g. --tolerance 0.05")
    return given


def default_path(model: str) -> Path:
    """The lock file of a model: beside it, and one for all its git revisions."""
    git = from_git.split(model)
    path = Path(git[0] if git else model)
    return path.with_name(path.name + SUFFIX)


def encoded(snapshot: Snapshot) -> str:
    """The lock file's text: sorted, one fact a line, the same for the same snapshot."""
    text = json.dumps(msgspec.to_builtins(snapshot), indent=2, sort_keys=True)
    # A shape on one line is what a person compares.
    shapes = re.compile(r"\[\n\s+-?\d+(?:,\n\s+-?\d+)*\n\s+\]")
    return (
        shapes.sub(lambda found: f"[{', '.join(found.group().strip('[]').split())}]", text).replace(",,", ",")
        + "\n"
    )


def write(path: Path, snapshot: Snapshot) -> None:
    """Writes a lock file beside its place and renames it.

    Raises:
        UsageError: It cannot be written.
    """
    part = path.with_name(path.name + ".part")
    try:
        part.write_text(encoded(snapshot), encoding="utf-8")
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise UsageError(
            f"the lock cannot be written: {error.strerror}", where=str(path), do="choose another --output"
        ) from error


def read(path: Path, model: str) -> Snapshot:
    """Reads a lock file.

    Raises:
        UsageError: It is not there, is damaged, or of another number.
    """
    again = f"ortune lock {model}" + ("" if path == default_path(model) else f" --output {path}")
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        raise UsageError("there is no lock file", where=str(path), do=f"write it: {again}") from None
    except OSError as error:
        raise UsageError(
            f"the lock file cannot be read: {error.strerror}", where=str(path), do="check its permissions"
        ) from error
    try:
        found = msgspec.json.decode(text, type=Snapshot)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UsageError(
            f"this is not a lock file that can be read: {error}",
            where=str(path),
            do=f"write it anew: {again}",
        ) from error
    levels = {**found.levels, **found.hardware.levels}
    if found.schema != SCHEMA or not {"disable", "extended", found.run.level} <= levels.keys():
        what = f"the lock is of schema {found.schema!r}, and this ortune reads {SCHEMA!r}"
        if found.schema == SCHEMA:
            what = "the lock lacks levels that every lock has"
        raise UsageError(what, where=str(path), do=f"write it anew: {again}")
    return found


def _side(o: Options, was: Snapshot | None, scratch: Path) -> Resolved:
    """The model with its plan: a check runs as locked, with what is given on top."""
    given = Plan(settings=knobs.parse_settings(list(o.settings)), providers=target_providers(o.target))
    if o.plan:
        given = merge(read_plan(o.plan), given)
    if was is not None:
        given = merge(was.run.plan, given)
    text = SideText(text=o.model, rewrites=o.rewrites, python=o.python)
    side = resolve(text, common=given, base_model=None, scratch=scratch)
    if side.model.facts.format == "ort":
        raise ModelError(
            "A model in ORT format was optimised when it was made, so there is nothing to lock.",
            where=str(side.model.path),
            do="Lock the .onnx that it was made from.",
        )
    return side


def _inputs(o: Options, was: Snapshot | None) -> InputOptions:
    """A check feeds what the lock fed, where nothing else is asked."""
    if was is None or o.inputs.shapes or o.inputs.dims or o.inputs.inputs:
        return o.inputs
    return replace(o.inputs, shapes=was.run.shapes, seed=o.inputs.seed or was.run.seed)


def take(
    side: Resolved,
    inputs: InputOptions,
    scratch: Path,
    watch: Watcher,
    *,
    locked: Snapshot | None = None,
) -> Snapshot:
    """The snapshot of a model as it is.

    Args:
        side: The model, its plan and the runtime.
        inputs: What it is fed.
        scratch: Folder of this invocation.
        watch: Is told what happens.
        locked: The lock it will be compared with: its shapes are a wish, which another model may refuse.

    Raises:
        OrtuneError: The model does not load or cannot be fed.
    """
    model = side.model if side.runs == side.model.path else open_model(side.runs)
    work = _proposed(model, inputs, wish=locked is not None)
    if len(work.cases) != 1:
        raise UsageError("a lock has one set of shapes", where="--dim", do="give one size a dimension")
    work, refs, trial = _fed(side, model, work, scratch, watch)
    random = tuple(sorted({op for _, op in random_ops(model.ir)}))
    folder = Path(trial.outputs_path) / work.cases[0].name
    shapes = {choice.name: choice.shape for choice in work.cases[0].inputs}
    level = str(side.plan.settings.get(_LEVEL, "all"))
    levels, placement = _levels(side, model, inputs, shapes, "" if random else trial.done.profile, scratch)
    host = platform.host()
    return Snapshot(
        schema=SCHEMA,
        ort_version=side.runtime.ort_version,
        model=locked_model(model),
        run=LockedRun(
            plan=side.plan,
            level=level,
            seed=work.seed,
            shapes=shapes,
            feeds=_digest(refs),
            random=random,
            placement=placement or {"CPUExecutionProvider": levels[level].nodes},
            outputs=output_snapshots(folder, random=bool(random)),
        ),
        levels={name: graph for name, graph in levels.items() if name not in BOUND_LEVELS},
        hardware=HardwareSnapshot(
            machine=host.machine,
            features=tuple(sorted(host.features)),
            levels={name: graph for name, graph in levels.items() if name in BOUND_LEVELS},
        ),
    )


def _proposed(model: OpenModel, o: InputOptions, *, wish: bool) -> Workload:
    def propose(options: InputOptions) -> Workload:
        return workload.propose(
            model.ir,
            shapes=options.shapes,
            dims=options.dims,
            inputs_path=options.inputs,
            seed=options.seed,
            custom_ops=tuple(options.custom_ops),
        )

    if not wish:
        return propose(o)
    names = {v.name for v in model.ir.graph.inputs}
    try:
        return propose(replace(o, shapes={name: dims for name, dims in o.shapes.items() if name in names}))
    except InputError:
        return propose(replace(o, shapes={}))  # the inputs changed, and the check says how


def _fed(
    side: Resolved, model: OpenModel, work: Workload, scratch: Path, watch: Watcher
) -> tuple[Workload, tuple[FeedRef, ...], Measured]:
    """Runs the model once on inputs that it takes: those inputs, and the run."""
    executor = Executor({}, work, scratch, SessionLog(None, ""))
    executor.limits = Limits(load_s=_LIMIT_S, run_s=_LIMIT_S)

    def arm(refs: tuple[FeedRef, ...]) -> Arm:
        return Arm(name="lock", plan=side.plan, model=side.runs, runtime=side.runtime, feeds=refs)

    refs = pilot.write_case_feeds(model.ir, work, scratch / "feeds")
    outcome = executor.trial(arm(refs), runs=0, keep_outputs=True, profile=True)
    if not isinstance(outcome, Measured):
        work = pilot.settle_workload(executor, arm, model.ir, work, scratch, watch.say)
        refs = pilot.write_case_feeds(model.ir, work, scratch / "settled")
        outcome = executor.trial(arm(refs), runs=0, keep_outputs=True, profile=True)
    if not isinstance(outcome, Measured):
        pilot.raise_if_unrunnable(outcome, arm(refs))
        raise ModelError(pilot.describe(outcome), where=pilot.place(arm(refs)), do=pilot.remedy(outcome))
    watch.say(workload.describe(work))
    return work, refs, outcome


def _levels(
    side: Resolved,
    model: OpenModel,
    inputs: InputOptions,
    shapes: dict[str, tuple[int, ...]],
    profile: str,
    scratch: Path,
) -> tuple[dict[str, GraphSnapshot], dict[str, int]]:
    """The optimised graph by level, and nodes by provider where the build tells."""
    level = str(side.plan.settings.get(_LEVEL, "all"))
    names = [name for name in LEVELS if name != "layout" or level == "layout"]
    folder = scratch / "levels"
    folder.mkdir()
    rest = Plan(settings={k: v for k, v in side.plan.settings.items() if k != _LEVEL})
    try:
        applied = requests.applied(rest, side.runtime)
        tool = ToolProcess(
            runtime=side.runtime,
            folder=scratch,
            applied=applied,
            providers=side.plan.providers,
            custom_ops=tuple(inputs.custom_ops),
            limits=Limits(load_s=_LIMIT_S),
        )
        tool("levels", side.runs, folder, {"levels": ",".join(names), "placement": level})
    except requests.CannotApply as error:
        raise UsageError(str(error), where="--set", do="leave that setting out") from error
    except ToolFailed as error:
        do = "See whether ONNX Runtime loads the model: ortune doctor MODEL."
        raise ModelError(error.what, where=str(side.runs), do=do, code=error.code) from error
    saved = {name: saved_graph(folder / f"{name}.onnx") for name in names}
    observed = observed_sizes(Path(profile), saved[level].graph) if profile else {}
    plain, exported = operators(saved["disable"].graph), exported_operators(model)
    found = {name: graph_snapshot(graph, shapes, observed, exported, plain) for name, graph in saved.items()}
    placed = json.loads((folder / "placement.json").read_text(encoding="utf-8"))
    # With the CPU alone every node is there, and how many a build counts differs from version to version.
    return found, dict(sorted(placed.items())) if side.plan.providers else {}


def _digest(refs: tuple[FeedRef, ...]) -> str:
    """A digest of the values fed."""
    digest = hashlib.sha256()
    for file in sorted(Path(refs[0].path).iterdir()):
        digest.update(f"{file.name} {file.stat().st_size} ".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]
