"""Profiles a model once, to determine its headroom."""

from __future__ import annotations

import math
from pathlib import Path

from ortune import monotonic
from ortune.engines.profiling.nodes import NodeOrigins, find_origins
from ortune.engines.profiling.peaks import known_peak
from ortune.engines.profiling.processes import TIMED_NS, base_arm, profile, runs_within
from ortune.engines.profiling.result import result_of
from ortune.engines.profiling.stored_peaks import not_measured
from ortune.errors import OrtuneError
from ortune.measuring.measuring import Measuring
from ortune.records import ProfileResult, messages

SHORT_NS = 400_000_000
"""Time of the profiled runs if only the headroom is needed, in nanoseconds."""


def short_profile(
    baseline: Measuring,
    latency_ns: float,
    store: Path | None,
    *,
    floors: bool = True,
    most_ns: float = math.inf,
    read_ns: float = 0.0,
) -> ProfileResult | None:
    """Profile one process of the baseline; None if it fails under the profiler, or if the time is too short."""
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
    """Profile one process of the baseline; add a note and return None if the time is too short.

    Args:
        baseline: The model to profile.
        latency_ns: Duration of a run.
        store: Folder of the store with the machine's peak; None for the user's own.
        floors: Whether nodes are compared with the machine's peak.
        named: Whether the user's nodes are found even if no floors are compared.
        most_ns: Maximum time for profiling.
        read_ns: Time reserved for reading the trace and finding the user's nodes.
        time_ns: Preferred time of the profiled runs.

    Raises:
        OrtuneError: The model fails under the profiler.
    """
    runs = runs_within(baseline, latency_ns, most_ns - read_ns, time_ns)
    if not runs:
        baseline.note(messages.Remark(code="not-profiled"))
        return None
    began_s = monotonic.now_s()
    side, keep = baseline.side, baseline.scratch / "headroom.json"
    try:
        (process,) = profile(baseline, [base_arm(baseline)], runs, [keep])
        left_s = 1e-9 * (most_ns - read_ns) - (monotonic.now_s() - began_s)
        peak = known_peak(side.runtime, baseline.scratch, store, baseline.machine, left_s) if floors else None
        graph = NodeOrigins()
        if named or peak is not None:
            folder = baseline.scratch / "headroom"
            folder.mkdir(exist_ok=True)
            graph = find_origins(side, baseline.work, folder, process.trace, process.graph)
    finally:
        keep.unlink(missing_ok=True)
    return result_of(
        "", process.trace, process.attribution, process.warmup, graph, peak, side,
        slowdown=process.slowdown, cpus=baseline.host.effective_cpus, state=process.state, resident=process.resident,
        no_peak=not_measured(store) if peak is None else "", gpu_run=process.gpu_run,
    )  # fmt: skip
