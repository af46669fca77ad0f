"""What a model is fed: inputs that run, found by trying them for real, and their files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import onnx_ir

from ortune.inputs import feed_files, workload
from ortune.inputs.feeds import Kind
from ortune.inputs.trial_fixes import alternatives, cannot_feed
from ortune.records import FeedRef, Measured, Workload
from ortune.trials.executor import Arm, Executor
from ortune.trials.failures import raise_if_unrunnable

FEED_TRIES = 12


def write_case_feeds(
    model: onnx_ir.Model, work: Workload, folder: Path, kind: Kind = "usual"
) -> tuple[FeedRef, ...]:
    """Makes every case's feeds and writes them. The same workload gives the same bytes."""
    refs = []
    for i, (case, values) in enumerate(workload.feeds(model, work, kind)):
        place = folder / f"{kind}-{i}"
        feed_files.write_feeds(place, values)
        refs.append(FeedRef(name=case.name, path=str(place), weight=case.weight))
    return tuple(refs)


def settle_workload(
    executor: Executor,
    arm: Callable[[tuple[FeedRef, ...]], Arm],
    model: onnx_ir.Model,
    proposal: Workload,
    folder: Path,
    say: Callable[[str], None],
    *,
    keep_outputs: bool = False,
) -> Workload:
    """Tries the proposed inputs for real and corrects them from what ONNX Runtime says.

    With ``keep_outputs`` the executor's last outcome says where they lie.

    Raises:
        InputError: No inputs were found that run; names the input and the flag.
        ModelError: The model does not load, whatever it is fed.
    """
    work, last = proposal, ""
    for attempt in range(FEED_TRIES):
        refs = write_case_feeds(model, work, folder / f"try-{attempt}")
        outcome = executor.trial(arm(refs), runs=0, keep_outputs=keep_outputs)
        if isinstance(outcome, Measured):
            return work
        raise_if_unrunnable(outcome, arm(refs))
        last = outcome.what
        better = alternatives(model, work, last)
        if better is None:
            break
        say(f"these inputs failed ({last.splitlines()[0][:100]}); trying others")
        work = better
    raise cannot_feed(model, work, last)
