"""Measures the peak memory over several sizes in turn, which shows memory that grows when sizes change."""

from __future__ import annotations

import math
from collections.abc import Callable

import msgspec

from ortune.inputs.declared import inspect_inputs
from ortune.inputs.sizes_in_turn import sizes_in_turn
from ortune.measuring.measuring import Measuring
from ortune.measuring.opening import Experiment
from ortune.measuring.pilot import run_ns
from ortune.records import Case, Measured, OneSize, PeakInTurn, Workload
from ortune.search.phases import LOOK_SHARE, ROUND_RUNS

MOST_ROUNDS = 5
LEAST_ROUNDS = 2
"""Minimum number of rounds over all sizes: the first has only new sizes, later rounds alternate between known sizes."""


def measure(opened: Experiment, measuring: Measuring, alone: Measured) -> None:
    """Set ``Measuring.peak_in_turn``, which is measured once per session within a fraction of the time left."""
    budget = opened.budget.share(LOOK_SHARE)
    measuring.peak_in_turn = opened.replay.once(
        "peak-in-turn",
        PeakInTurn | None,
        lambda: _with_largest(measuring, alone, lambda: budget.left_ns),
    )
    opened.replay.record_other_work()


def _with_largest(measuring: Measuring, alone: Measured, left_ns: Callable[[], float]) -> PeakInTurn | None:
    """Return the peak over several sizes, with the peak of a process that runs the largest size once."""
    mixes: list[Workload] = []
    found = peak(measuring, alone, left_ns, mixes)
    cases = mixes[0].cases if mixes else ()
    if found is None or found.peak_bytes is None or len(cases) < 2:
        return found
    start_ns = alone.elapsed_ns - alone.done.wall_ns
    if start_ns + ROUND_RUNS * _run_ns(alone) > left_ns():
        return found
    largest = max(cases, key=_elements)
    work = msgspec.structs.replace(mixes[0], cases=(msgspec.structs.replace(largest, weight=1.0),))
    with measuring.executor.keeping_last():
        run = measuring.first_that_runs([work], runs=0, fresh=True, folder="largest")
    if run is None:
        return found
    bytes_ = run[1].done.peak_bytes
    return msgspec.structs.replace(found, largest=largest.name, largest_bytes=bytes_)


def _elements(case: Case) -> int:
    return sum(math.prod(choice.shape) for choice in case.inputs)


def peak(
    measuring: Measuring,
    alone: Measured,
    left_ns: Callable[[], float],
    mixes_that_ran: list[Workload] | None = None,
) -> PeakInTurn | None:
    """Measure the peak in a separate process, which leaves the timed process unchanged.

    Args:
        measuring: The model, with its inputs settled.
        alone: A trial of the model with one size.
        left_ns: Returns the nanoseconds left; called before each attempt.
        mixes_that_ran: List to which the workload that was fed is added.

    Returns:
        The peak, or the reason that only one size was fed; None if all sizes are fixed, the system does not report
        memory, or a page runs the model.
    """
    model, work = measuring.side.model.ir, measuring.work
    if alone.done.peak_bytes is None or measuring.side.plan.is_web:
        return None
    ran = [] if mixes_that_ran is None else mixes_that_ran
    if len(work.cases) > 1:  # each trial runs all of them, in turn
        ran.append(work)
        return PeakInTurn(sizes=tuple(case.name for case in work.cases), peak_bytes=alone.done.peak_bytes)
    if not any(axis.terms for spec in inspect_inputs(model).inputs for axis in spec.shape):
        return None
    mixes = sizes_in_turn(model, work)
    if not mixes:
        return PeakInTurn(one_size=_why_one(work))
    start_ns, round_ns = alone.elapsed_ns - alone.done.wall_ns, ROUND_RUNS * _run_ns(alone)
    # A process starts, then feeds all sizes in turn so often. The first round has each size for the first
    # time.
    rounds = min(MOST_ROUNDS, int((left_ns() - start_ns) / max(1.0, round_ns)))
    enough = True

    def begins() -> bool:
        nonlocal enough
        enough = rounds >= LEAST_ROUNDS and start_ns + rounds * round_ns <= left_ns()
        return enough

    with measuring.executor.keeping_last(), measuring.executor.without_warmup():
        # The first run of each size is not timed; these runs are the first round.
        mix = measuring.first_that_runs(mixes, runs=rounds - 1, fresh=True, begins=begins)
    if mix is None:
        return PeakInTurn(one_size="refused" if enough else "budget")
    ran.append(mix[0])
    return PeakInTurn(sizes=tuple(case.name for case in mix[0].cases), peak_bytes=mix[1].done.peak_bytes)


def _why_one(work: Workload) -> OneSize:
    """Return the reason that the workload's sizes cannot be varied."""
    origins = {choice.origin for choice in work.cases[0].inputs}
    if work.inputs_path or "user" in origins:
        return "given"
    # A batch of one is a convention, not a guess; other sizes would run.
    return "unguessed" if "name" in origins else "refused"


def _run_ns(trial: Measured) -> float:
    """Return the time of a run in nanoseconds, or of the first run if no run was timed."""
    return run_ns(trial) if trial.done.n_runs else float(sum(case.first_ns for case in trial.done.cases))
