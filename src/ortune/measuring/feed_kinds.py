"""Times the baseline with several kinds of generated inputs, to detect latency that depends on values."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import onnx_ir

from ortune.errors import InputError
from ortune.inputs.feeds import Kind
from ortune.measuring.executor import Arm, Executor
from ortune.measuring.feeding import write_case_feeds
from ortune.records import CaseTimes, FeedRef, Measured, Workload

KINDS: tuple[Kind, ...] = ("usual", "zeros", "extreme")
LEAST_OF_KIND = 12  # runs of each kind of feed


def pooled(first: Sequence[CaseTimes], second: Sequence[CaseTimes]) -> tuple[CaseTimes, ...]:
    """Return the cases that two trials have in common, with the runs of both."""
    again = {case.case: case for case in second}
    return tuple(
        msgspec.structs.replace(case, latency_ns=case.latency_ns + again[case.case].latency_ns)
        for case in first
        if case.case in again
    )


def kinds_runs(runs: int) -> int:
    """Return the number of runs for each kind of inputs, for trials with ``runs`` runs."""
    return max(LEAST_OF_KIND, runs // 4)


def kinds_ns(runs: int, start_ns: float, run_ns: float) -> float:
    """Return the time needed for all kinds of inputs in nanoseconds; ``run_ns`` is the time of a run of every case."""
    return start_ns + len(KINDS) * (1 + kinds_runs(runs)) * run_ns


def kinds_of_feed(
    executor: Executor,
    base: Arm,
    model: onnx_ir.Model,
    work: Workload,
    folder: Path,
    *,
    again: bool = False,
) -> tuple[CaseTimes, ...]:
    """Time the first case in one process, with each kind of inputs that the model accepts; return () if there are none.

    The user's inputs are not varied. A model may reject extreme inputs, so fewer kinds are tried if the trial with all
    kinds fails. ``again`` repeats the trial with the kinds in reverse order.
    """
    if work.inputs_path:
        return ()
    first = Workload(cases=work.cases[:1], seed=work.seed, custom_ops=work.custom_ops)
    refs = {}
    for kind in KINDS:
        try:
            ref = write_case_feeds(model, first, folder / "kinds", kind)[0]
        except InputError:
            continue
        refs[kind] = FeedRef(name=kind, path=ref.path)
    # All of them; then without the extreme ones, then without zeros, since a model may refuse either.
    for kinds in (KINDS, KINDS[:2], (KINDS[0], KINDS[2])):
        chosen = tuple(refs[kind] for kind in kinds if kind in refs)
        feeds, name = (chosen[::-1], "kinds-again") if again else (chosen, "kinds")
        arm = Arm(name=name, plan=base.plan, model=base.model, runtime=base.runtime, feeds=feeds)
        outcome = executor.trial(arm, runs=kinds_runs(executor.timing.runs))
        if isinstance(outcome, Measured):
            return outcome.done.cases
    return ()
