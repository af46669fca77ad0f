"""Takes a snapshot: the optimised graphs by level, one run with its outputs, and the model as exported."""

from __future__ import annotations

import hashlib
import shutil
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from ortune.catalogue.levels import level_of
from ortune.catalogue.named import GRAPH_OPTIMIZATION_LEVEL as LEVEL
from ortune.catalogue.providers import CPU
from ortune.engines.locks.outputs import output_snapshots
from ortune.engines.locks.snapshot.exported import exported_operators, locked_model
from ortune.engines.locks.snapshot.observed import observed_sizes
from ortune.engines.locks.snapshot.optimised import graph_snapshot, saved_graph
from ortune.engines.locks.snapshot.structure import operators
from ortune.errors import ModelError, UsageError
from ortune.graph.model.graphs import graphs
from ortune.graph.model.open import OpenModel
from ortune.graph.outputs import random_ops
from ortune.inputs import workload
from ortune.measuring import failures, feeding
from ortune.measuring.executor import Arm, Executor
from ortune.measuring.input_options import InputOptions
from ortune.measuring.reported import reported_file
from ortune.measuring.sides import ResolvedSide
from ortune.measuring.watcher import Watcher
from ortune.records import (
    Applied,
    Channel,
    FeedRef,
    GraphSnapshot,
    HardwareSnapshot,
    LockedRun,
    Measured,
    Outcome,
    Plan,
    Snapshot,
    TrialRequest,
    Workload,
    messages,
)
from ortune.store.db import SessionLog
from ortune.targets.machine import Machine
from ortune.targets.runner import run
from ortune.targets.task import Limits, TrialTask
from ortune.targets.tool import ToolFailed, ToolProcess
from ortune.trace.ort_profile import read_profile

SCHEMA = "ortune/snapshot/1"
BOUND_LEVELS = ("layout", "all")
"""Optimisation levels whose graphs depend on the processor, by the block sizes and layouts of its kernels."""


SAVED = "as-run.onnx"
"""File name of the graph that ran, in the run's folder."""

LIMIT_S = 600.0
"""Time limit of a load or a run, in seconds."""

_LIMITS = Limits(load_s=LIMIT_S, run_s=LIMIT_S)
_EXTERNAL = "session.optimized_model_external_initializers"
_DATA = "as-run.data"


def take_snapshot(
    side: ResolvedSide,
    inputs: InputOptions,
    scratch: Path,
    watch: Watcher,
    machine: Machine,
    *,
    stored: Plan,
    overrides: Plan | None = None,
) -> Snapshot:
    """Take the snapshot of a model.

    Args:
        side: The model, its plan and the runtime.
        inputs: Input options.
        scratch: Folder of this invocation.
        watch: Progress and cancellation callbacks.
        machine: Machine of the run.
        stored: Plan to store in the snapshot; for a bundle, its plan with portable thread counts.
        overrides: Settings passed in addition to a bundle's plan; None for a model.

    Raises:
        OrtuneError: The model does not load or cannot be fed.
    """
    model = side.opened()
    work = workload.propose(
        model.ir,
        shapes=inputs.shapes,
        dims=inputs.dims,
        kept=inputs.kept,
        inputs_path=inputs.inputs,
        image=inputs.image,
        seed=inputs.seed,
        custom_ops=tuple(inputs.custom_ops),
    )
    if len(work.cases) != 1:
        where, do = "--dim", "pass one size per dimension"
        if inputs.inputs is not None:
            where, do = f"--inputs {inputs.inputs}", "pass one test_data_set_N or an .npz"
        raise UsageError("a lock records one set of shapes", where=where, do=do)
    work, refs, trial = _run_on_inputs(side, model, work, scratch, watch, machine)
    random = tuple(sorted({op for _, op in random_ops(model.ir)}))
    folder = Path(trial.outputs_path) / work.cases[0].name
    shapes = {choice.name: choice.shape for choice in work.cases[0].inputs}
    level = level_of(side.plan)
    profile = reported_file(trial.done.profile, scratch)
    watch.line(messages.Remark(code="optimising-levels"))
    levels = _levels(side, model, inputs, shapes, None if random else profile, scratch)
    return Snapshot(
        schema=SCHEMA,
        ort_version=side.runtime.ort_version,
        ort_web=side.runtime.ort_web,
        model=locked_model(model),
        run=LockedRun(
            plan=stored,
            given=overrides,
            level=level,
            seed=work.seed,
            shapes=shapes,
            feeds=_digest(refs),
            inputs=Path(work.inputs_path).name,
            random=random,
            placement=nodes_by_provider(profile) if side.plan.providers else {CPU.name: levels[level].nodes},
            outputs=output_snapshots(folder, random=bool(random)),
        ),
        levels={name: graph for name, graph in levels.items() if name not in BOUND_LEVELS},
        hardware=HardwareSnapshot(
            machine=machine.host.machine,
            features=tuple(sorted(machine.host.features)),
            levels={name: graph for name, graph in levels.items() if name in BOUND_LEVELS},
        ),
    )


def _run_on_inputs(
    side: ResolvedSide, model: OpenModel, work: Workload, scratch: Path, watch: Watcher, machine: Machine
) -> tuple[Workload, tuple[FeedRef, ...], Measured]:
    """Run the model once on suitable inputs; return the workload, the input files, and the outcome."""

    def arm(refs: tuple[FeedRef, ...]) -> Arm:
        return Arm(name="lock", plan=side.plan, model=side.runs, runtime=side.runtime, feeds=refs)

    refs = feeding.write_case_feeds(model.ir, work, scratch / "feeds")
    outcome = _run(side, work, refs, scratch, machine)
    if not isinstance(outcome, Measured):
        executor = Executor({}, work, scratch, SessionLog(None, ""), machine)
        executor.limits = _LIMITS
        work = feeding.find_running_workload(executor, arm, model.ir, work, scratch, watch.tell).work
        refs = feeding.write_case_feeds(model.ir, work, scratch / "settled")
        outcome = _run(side, work, refs, scratch, machine)
    if not isinstance(outcome, Measured):
        failures.raise_if_unrunnable(outcome, arm(refs))
        raise ModelError(
            failures.describe(outcome), where=failures.place(arm(refs)), do=failures.remedy(outcome)
        )
    watch.say(workload.describe(work))
    return work, refs, outcome


def _run(
    side: ResolvedSide, work: Workload, refs: tuple[FeedRef, ...], scratch: Path, machine: Machine
) -> Outcome:
    """Run the model once under the profiler, in a session that saves its optimised graph.

    Profile and graph must come from one session, since another session may give the generated names to other nodes.
    """
    folder = scratch / "run"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    saving: tuple[tuple[Channel, str, str], ...] = (
        ("session_option", "optimized_model_filepath", str(folder / SAVED)),
        # Folding can make a small file larger than protobuf allows.
        ("session_config", f"{_EXTERNAL}_file_name", _DATA),
        ("session_config", f"{_EXTERNAL}_min_size_in_bytes", "1024"),
    )
    request = TrialRequest(
        model=str(side.runs),
        applied=tuple(Applied(knob="lock", channel=c, key=key, value=v) for c, key, v in saving),
        feeds=refs,
        warmup_runs=0,
        seed=work.seed,
        custom_ops=work.custom_ops,
        outputs_path=str(folder / "outputs"),
        profile_path=str(folder / "profile"),
    )
    task = TrialTask(
        plan=side.plan, runtime=side.runtime, request=request, folder=folder, scratch=scratch, limits=_LIMITS
    )
    outcomes = run([task], machine)
    assert outcomes is not None
    (folder / _DATA).unlink(missing_ok=True)  # only the graph is read
    return outcomes[0]


def nodes_by_provider(profile: Path) -> dict[str, int]:
    """Return the number of profiled nodes by execution provider; {} if the profile cannot be read or names none."""
    try:
        trace = read_profile(profile)
    except UsageError:
        return {}
    return dict(sorted(Counter(provider for provider in trace.nodes.provider if provider).items()))


def _levels(
    side: ResolvedSide,
    model: OpenModel,
    inputs: InputOptions,
    shapes: Mapping[str, tuple[int, ...]],
    profile: Path | None,
    scratch: Path,
) -> dict[str, GraphSnapshot]:
    """Return the snapshots of the optimised graphs by level."""
    level = level_of(side.plan)
    names = [name for name in LEVEL.choices if name not in (level, "layout")]
    folder = scratch / "levels"
    folder.mkdir()
    settings = {k: v for k, v in side.plan.settings.items() if k != LEVEL.name}
    tool = ToolProcess(
        runtime=side.runtime,
        folder=scratch,
        plan=Plan(settings=settings, providers=side.plan.providers),
        custom_ops=tuple(inputs.custom_ops),
        limits=_LIMITS,
    )
    try:
        tool("levels", side.runs, folder, {"levels": ",".join(names)})
    except ToolFailed as error:
        raise ModelError(error.what, where=str(side.runs), do=error.do, code=error.code) from error
    saved = {name: saved_graph(folder / f"{name}.onnx") for name in names}
    saved[level] = saved_graph(scratch / "run" / SAVED)
    observed = observed_sizes(profile, saved[level].graph) if profile else {}
    # In the graphs of other sessions, only the exporter's names denote the same values.
    own = {v.name for graph in graphs(model.ir) for node in graph for v in node.outputs}
    elsewhere = {name: size for name, size in observed.items() if name in own}
    plain, exported = operators(saved["disable"].graph), exported_operators(model)
    return {
        name: graph_snapshot(saved[name], shapes, observed if name == level else elsewhere, exported, plain)
        for name in LEVEL.choices
        if name in saved
    }


def _digest(refs: tuple[FeedRef, ...]) -> str:
    """Return a digest of the input values."""
    digest = hashlib.sha256()
    for file in sorted(Path(refs[0].path).iterdir()):
        digest.update(f"{file.name} {file.stat().st_size} ".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]
