"""What can still be won on a model, from one profile of it."""

from __future__ import annotations

import math
from pathlib import Path

from ortune import monotonic
from ortune.engines.profiling.nodes import Origins, origins
from ortune.engines.profiling.peaks import known_peak
from ortune.engines.profiling.processes import NOT_HELD, TIMED_NS, base_arm, profile, runs_within
from ortune.engines.profiling.result import result_of
from ortune.engines.profiling.stored_peaks import not_measured
from ortune.errors import OrtuneError
from ortune.measuring.measuring import Measuring
from ortune.records import ProfileResult

SHORT_NS = 400_000_000
"""Number of profiled runs if only the headroom is needed."""


def short_profile(
    baseline: Measuring,
    latency_ns: float,
    store: Path | None,
    *,
    floors: bool = True,
    most_ns: float = math.inf,
    read_ns: float = 0.0,
) -> ProfileResult | None:
    """Profile one process of the baseline; None if it does not run under the profiler, or not in that time."""
    try:
        return one_profile(
            baseline,
            latency_ns,
            store,
            floors=floors,
            named=False,
            most_ns=most_ns,
            read_ns=read_ns,
            time_ns=SHORT_NS,
        )
    except OrtuneError:
        return None


def one_profile(
    baseline: Measuring,
    latency_ns: float,
    store: Path | None,
    *,
    floors: bool = True,
    named: bool = True,
    most_ns: float = math.inf,
    read_ns: float = 0.0,
    time_ns: float = TIMED_NS,
) -> ProfileResult | None:
    """Profile one process of the baseline; None, with a note, where the time does not hold it.

    Args:
        baseline: What is profiled.
        latency_ns: Of a run.
        store: Where the machine's peak lies.
        floors: Whether nodes are compared with that peak.
        named: Whether the user's own nodes are found in any case, not for floors alone.
        most_ns: What profiling may take.
        read_ns: Of that, what it takes to read the trace and to find the user's own nodes in it.
        time_ns: Of profiled runs, where there is time for more.

    Raises:
        OrtuneError: It does not run under the profiler.
    """
    runs = runs_within(baseline, latency_ns, most_ns - read_ns, time_ns)
    if not runs:
        baseline.note(NOT_HELD)
        return None
    began_s = monotonic.now_s()
    side, keep = baseline.side, baseline.scratch / "headroom.json"
    try:
        (process,) = profile(baseline, [base_arm(baseline)], runs, [keep])
        left_s = 1e-9 * (most_ns - read_ns) - (monotonic.now_s() - began_s)
        peak = known_peak(side.runtime, baseline.scratch, store, baseline.machine, left_s) if floors else None
        graph = Origins()
        if named or peak is not None:
            folder = baseline.scratch / "headroom"
            folder.mkdir(exist_ok=True)
            graph = origins(side, baseline.work, folder, process.trace, process.graph)
    finally:
        keep.unlink(missing_ok=True)
    return result_of(
        "", process.trace, process.attribution, process.warmup, graph, peak, side,
        slowdown=process.slowdown, cpus=baseline.host.effective_cpus, state=process.state, resident=process.resident,
        no_peak=not_measured(store) if peak is None else "", gpu_run=process.gpu_run,
    )  # fmt: skip
