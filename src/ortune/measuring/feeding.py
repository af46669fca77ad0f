"""Finds inputs with which a model runs, by trials, and writes their files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec
import onnx_ir

from ortune.errors import InputError
from ortune.inputs import feed_files, workload
from ortune.inputs.feeds import Kind
from ortune.inputs.trial_fixes import alternatives, cannot_feed, first_line, why_not
from ortune.measuring.broken_levels import LoweredArm, find_broken_level, run_unoptimised
from ortune.measuring.executor import Arm, Executor
from ortune.measuring.failures import raise_if_unrunnable
from ortune.records import Failed, FeedRef, Measured, Workload, messages

FEED_TRIES = 12
_OF_A_RUN = ("run-error", "input-error")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnableInputs:
    """Inputs with which a model runs.

    Attributes:
        work: The workload with these inputs.
        lowered: The levels at which the model fails and runs, if it fails at the requested level; otherwise None.
    """

    work: Workload
    lowered: LoweredArm | None = None


def write_case_feeds(
    model: onnx_ir.Model, work: Workload, folder: Path, kind: Kind = "usual"
) -> tuple[FeedRef, ...]:
    """Generate the feeds of every case, write their files, and return these.

    The same workload gives the same bytes.
    """
    refs = []
    for i, (case, values) in enumerate(workload.feeds(model, work, kind)):
        place = folder / f"{kind}-{i}"
        feed_files.write_feeds(place, values)
        refs.append(FeedRef(name=case.name, path=str(place), weight=case.weight))
    return tuple(refs)


def find_running_workload(
    executor: Executor,
    arm: Callable[[tuple[FeedRef, ...]], Arm],
    model: onnx_ir.Model,
    proposal: Workload,
    folder: Path,
    say: Callable[[messages.Message], None],
    *,
    keep_outputs: bool = False,
) -> RunnableInputs:
    """Try the proposed inputs and correct them by ONNX Runtime's errors, until they run.

    Inputs that fail are run once more without graph optimisation. If that succeeds, the optimiser is the cause; if not,
    the error names nodes of the model. With ``keep_outputs`` the executor's last outcome has the path of the outputs.

    Raises:
        InputError: No inputs were found that run; the error names the input and the option.
        ModelError: The model does not load.
    """
    work, last = proposal, ""
    for attempt in range(FEED_TRIES):
        refs = write_case_feeds(model, work, folder / f"try-{attempt}")
        outcome = executor.trial(arm(refs), runs=0, keep_outputs=keep_outputs)
        if isinstance(outcome, Measured):
            return RunnableInputs(work=work)
        plain = run_unoptimised(executor, arm(refs), outcome, keep_outputs=keep_outputs)
        if isinstance(plain, Measured):
            lowered = find_broken_level(executor, arm(refs), outcome, plain, keep_outputs=keep_outputs)
            return RunnableInputs(work=work, lowered=lowered)
        raise_if_unrunnable(outcome, arm(refs))
        some = _cases_that_run(executor, arm, refs, model, work) if len(work.cases) > 1 else None
        if some is not None:
            work = some
            continue
        last = plain.what if isinstance(plain, Failed) and plain.reason in _OF_A_RUN else outcome.what
        better = alternatives(model, work, last)
        if better is None:
            break
        say(messages.FailedInputs(what=last))
        work = better
    raise cannot_feed(model, work, last)


def _cases_that_run(
    executor: Executor,
    arm: Callable[[tuple[FeedRef, ...]], Arm],
    refs: tuple[FeedRef, ...],
    model: onnx_ir.Model,
    work: Workload,
) -> Workload | None:
    """Run each case of a mix separately, and return the mix without the cases that fail; None if all or none fail.

    Raises:
        InputError: Some of the user's inputs fail, and others run.
    """
    failed: dict[str, str] = {}
    for case, ref in zip(work.cases, refs, strict=True):
        one = arm((msgspec.structs.replace(ref, weight=1.0),))
        outcome = executor.trial(one, runs=0)
        if isinstance(outcome, Failed) and not isinstance(run_unoptimised(executor, one, outcome), Measured):
            failed[case.name] = outcome.what
    if not 0 < len(failed) < len(work.cases):
        return None
    if work.inputs_path:
        why = next(iter(failed.values()))
        raise InputError(
            f"the model does not run with {', '.join(failed)}, and runs with the other inputs: {first_line(why)}",
            where=work.inputs_path,
            do="check their shapes and values against the training data, or leave them out",
        )
    total = sum(case.weight for case in work.cases if case.name not in failed)
    cases = tuple(
        msgspec.structs.replace(case, weight=case.weight / total)
        for case in work.cases
        if case.name not in failed
    )
    dims = {case.name: case.dims for case in work.cases}
    notes = [
        f"{name} is left out, because the model does not run with it: {why_not(model, dims[name], what)}"
        for name, what in failed.items()
    ]
    return msgspec.structs.replace(work, cases=cases, notes=(*work.notes, *notes))
