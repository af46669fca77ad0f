"""What can still be won on a model, from one short profile of it."""

from __future__ import annotations

import math
from pathlib import Path

from ortune.errors import OrtuneError
from ortune.experiment.baseline import Baseline
from ortune.profiling.nodes import Origins, origins
from ortune.profiling.peaks import NOT_MEASURED, load_peak
from ortune.profiling.processes import NOT_HELD, base_arm, profile, runs_within
from ortune.profiling.result import result_of
from ortune.records import ProfileResult

TIMED_NS = 400_000_000


def short_profile(
    baseline: Baseline,
    latency_ns: float,
    store: Path | None,
    *,
    floors: bool = True,
    most_ns: float = math.inf,
) -> ProfileResult | None:
    """Profiles one process of the baseline; None where it does not run under the profiler, or not in that time."""
    runs = runs_within(baseline, latency_ns, most_ns, TIMED_NS)
    if not runs:
        baseline.note(NOT_HELD)
        return None
    keep = baseline.scratch / "headroom.json"
    try:
        (process,) = profile(baseline, [base_arm(baseline)], runs, [keep])
        version = baseline.side.runtime.ort_version
        peak = load_peak(baseline.machine.host, store, version) if floors else None
        known = Origins()
        if peak is not None:
            folder = baseline.scratch / "headroom"
            folder.mkdir(exist_ok=True)
            known = origins(baseline.side, baseline.work, folder, process.trace, process.graph)
    except OrtuneError:
        return None
    finally:
        keep.unlink(missing_ok=True)
    return result_of(
        "", process.trace, process.found, process.warmup, known, peak, baseline.side,
        slowdown=process.slowdown, cpus=baseline.host.effective_cpus, seen=process.seen,
        no_peak=NOT_MEASURED if peak is None else "",
    )  # fmt: skip
