"""Whose nodes a first look's profile has, and how near they are to the machine's peak."""

from __future__ import annotations

from pathlib import Path

import msgspec

from ortune.profiling.nodes import Origins, origins
from ortune.profiling.peaks import NOT_MEASURED, load_peak
from ortune.profiling.processes import Seen
from ortune.profiling.result import result_of
from ortune.records import Headroom, Host, OperatorProfile, Workload
from ortune.trace.attribution import attribute
from ortune.trace.table import Trace
from ortune.trials.sides import Resolved

SAVING_S, SAVING_LOADS = 1.5, 3


def saving_s(load_ns: float) -> float:
    """Seconds that ONNX Runtime may need to save the graph that it runs, which tells whose its nodes are."""
    return SAVING_S + SAVING_LOADS * load_ns / 1e9


def explained(
    side: Resolved,
    work: Workload,
    trace: Trace,
    warm: int,
    profile: OperatorProfile,
    *,
    host: Host,
    seen: Seen,
    store: Path | None,
    scratch: Path,
    hurried: bool,
) -> tuple[OperatorProfile, Headroom | None]:
    """The profile with its nodes named after the user's own, and what can be won."""
    known, peak = Origins(), load_peak(host, store, side.runtime.ort_version)
    no_peak = "no time was left to find what its nodes do" if hurried else ""
    if not hurried:
        known = origins(side, work, scratch, trace)
    nodes = [
        msgspec.structs.replace(n, originals=known.of.get(n.name, ()), purpose=known.purpose.get(n.name, ""))
        for n in profile.nodes
    ]
    result = result_of(
        "", trace, attribute(trace, range(warm, trace.n_runs)), 0, known, peak, side,
        slowdown=profile.slowdown_ratio, cpus=host.effective_cpus, seen=seen,
        no_peak=NOT_MEASURED if peak is None else no_peak,
    )  # fmt: skip
    return msgspec.structs.replace(profile, nodes=tuple(nodes)), result.headroom
