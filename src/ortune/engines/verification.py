"""Checks that a model to be delivered loads in its runtime and gives the outputs of its source."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from ortune.catalogue.levels import level_of
from ortune.errors import MeasurementError, ModelError, OrtuneError, RuntimeNotFound
from ortune.graph.model.open import OpenModel, open_model
from ortune.measuring import failures, output_check
from ortune.measuring.budget import UNLIMITED
from ortune.measuring.first_run import find_checked_inputs
from ortune.measuring.input_options import InputOptions
from ortune.measuring.measuring import Measuring
from ortune.measuring.right_outputs import check_against_float64
from ortune.measuring.sides import ResolvedSide
from ortune.outputs import pairing
from ortune.outputs.exact import MOST_S
from ortune.records import (
    Failed,
    Measured,
    OutputDifference,
    Plan,
    RewriteSpec,
    Value,
    Verification,
    messages,
)
from ortune.search.blocks import BASE, NEW
from ortune.search.plan_edits import merge
from ortune.store.db import SessionLog
from ortune.targets import named_runtimes
from ortune.targets.machine import Machine

LIMIT_S = 120.0
"""Time limit for loading a model, and for running it once, in seconds; memory is limited as in every trial."""
_OF_THE_MACHINE = ("timeout", "out-of-memory", "disk-full", "no-runtime")
"""Failure reasons of a trial that are not the model's fault."""


def outputs_difference(
    baseline: Measuring,
    path: Path,
    specs: Sequence[RewriteSpec],
    settings: Mapping[str, Value],
) -> OutputDifference:
    """Return the difference of a written model's outputs from its source's, on the same inputs.

    If the source does not run or has wrong outputs at its plan's optimisation level, an alert is added, and both models
    are compared at the highest level with right outputs.

    Args:
        baseline: Baseline of the source.
        path: The written model; its external data is in the same folder.
        specs: The rewrites that created it.
        settings: Settings that the written model needs.

    Raises:
        OrtuneError: The source does not run.
        NewModelFailed: The written model does not run.
    """
    baseline.line(messages.Remark(code="comparing-outputs"))
    # Inputs that both models accept: they are found for the source, and matched by name with the written model.
    find_checked_inputs(baseline, UNLIMITED, limit_s=LIMIT_S)
    check_against_float64(baseline, MOST_S)
    # Outputs that the optimiser makes wrong are no reference.
    output_check.step_down(baseline)
    side = baseline.side
    base = baseline.arm(BASE)
    baseline.pilot.first = baseline.require_measured(
        base, baseline.executor.trial(base, runs=0, keep_outputs=True)
    )
    model = open_model(path).ir
    pairs = pairing.pair_inputs(side.model.ir, model, {})
    refs = pairing.feeds_for(baseline.refs, model, pairs, baseline.scratch / "feeds")
    plan = merge(Plan(settings=dict(settings)), side.plan)
    new = baseline.arm(NEW, plan=plan, model=path, refs=refs)
    trial = baseline.executor.trial(new, runs=0, keep_outputs=True)
    if isinstance(trial, Failed):
        raise NewModelFailed(trial)
    difference = output_check.difference(baseline, trial, rewritten=specs)
    if not difference.ok:
        # Before a rewrite is blamed, check whether the model gives the same outputs twice.
        again = baseline.executor.trial(base, runs=0, keep_outputs=True)
        output_check.notice_randomness(baseline, baseline.require_measured(base, again))
        difference = (
            output_check.difference(baseline, trial, rewritten=specs)
            if baseline.comparer.moments
            else difference
        )
    asked = baseline.check.wrong_plan
    if asked is None:
        return difference
    level = level_of(side.plan)
    if level_of(asked) == level:
        return difference  # another level gave the right outputs
    own = baseline.executor.trial(
        replace(new, plan=merge(Plan(settings=dict(settings)), asked)), runs=0, keep_outputs=True
    )
    right = isinstance(own, Measured) and output_check.difference(baseline, own).ok
    return msgspec.structs.replace(
        difference,
        compared_level=level,
        at_requested_level="fails" if isinstance(own, Failed) else "right" if right else "wrong",
    )


class NewModelFailed(MeasurementError):
    """A written model does not run although its source does."""

    def __init__(self, outcome: Failed) -> None:
        super().__init__(
            f"The new model does not run: {failures.describe(outcome)}",
            do="Nothing was written. Omit one rewrite at a time to find the faulty one.",
            code=outcome.reason,
        )
        self.of_the_machine = outcome.reason in _OF_THE_MACHINE


def verify(
    source: OpenModel,
    path: Path,
    specs: Sequence[RewriteSpec],
    *,
    plan: Plan,
    runtime: str | None,
    inputs: InputOptions,
    scratch: Path,
    machine: Machine,
    line: Callable[[messages.Message | str], None],
    moves: bool,
) -> Verification:
    """Run a written model and its source once each, if an onnxruntime that runs the source is available.

    Args:
        source: The original model.
        path: The written model.
        specs: The rewrites that created it.
        plan: Plan of the runs; for a browser the default plan, since only the graph is checked.
        runtime: The runtime named by the user; None for the usual runtime.
        inputs: Input options for both.
        scratch: Folder for feeds and outputs.
        machine: Machine of the runs.
        line: Callback for progress messages.
        moves: Whether the rewrites may change the outputs by more than rounding, as the user allowed.

    Raises:
        ModelError: The written model does not load or run, or its outputs differ, so it must not be delivered.
    """
    plan = Plan() if plan.is_web else msgspec.structs.replace(plan, rewrites=())
    try:
        side = ResolvedSide(
            label=source.path.name,
            model=source,
            plan=plan,
            runtime=named_runtimes.find(runtime, line),
            runs=source.path,
        )
    except RuntimeNotFound as error:
        if runtime is not None:
            raise
        return Verification(status="not-verified", reason="no-runtime", what=error.what)
    build = side.runtime.build
    try:
        folder = Path(tempfile.mkdtemp(prefix="verify-", dir=scratch))
        baseline = Measuring(side, inputs, folder, SessionLog(None, ""), line, machine, line=line)
        difference = outputs_difference(baseline, path, specs, {})
    except NewModelFailed as error:
        if error.of_the_machine:
            return Verification(status="not-verified", reason=error.code, what=error.what, runtime=build)
        raise _refused(error.what, source, build) from error
    except OrtuneError as error:
        what = f"{error.what} {error.do}" if error.do else error.what
        return Verification(status="not-verified", reason="source", what=what, runtime=build)
    if difference.empty:
        return Verification(
            status="not-verified", reason="empty", what=difference.what, runtime=build, outputs=difference
        )
    if not (difference.ok or (moves and difference.comparable)):
        raise _refused(f"the outputs of the fixed model differ: {difference.what}", source, build)
    return Verification(
        status="equal" if difference.ok else "moved",
        runtime=build,
        outputs=difference,
        alerts=tuple(baseline.alerts),
    )


def _refused(what: str, source: OpenModel, build: str) -> ModelError:
    return ModelError(
        f"{what} ({build})",
        where=str(source.path),
        do="Nothing was written. Exclude fixes one by one with --ignore CODE, and report the faulty one.",
        code="not-verified",
    )
