"""Maps the profile of a first look to the model's nodes, and compares the profile with the machine's peak."""

from __future__ import annotations

from pathlib import Path

import msgspec

from ortune.engines.profiling.nodes import NodeOrigins, find_origins
from ortune.engines.profiling.processes import MachineLoad
from ortune.engines.profiling.result import result_of
from ortune.engines.profiling.stored_peaks import load_peak, not_measured
from ortune.measuring.sides import ResolvedSide
from ortune.records import Headroom, Host, OperatorProfile, Workload
from ortune.trace.attribution import attribute
from ortune.trace.operators import by_node
from ortune.trace.table import Floats, Trace
from ortune.verbs.look.words import NOT_MAPPED

SAVING_S, SAVING_LOADS = 1.5, 3


def saving_s(load_ns: float) -> float:
    """Return the time limit in seconds for saving the optimised graph, which maps its nodes to the model's nodes."""
    return SAVING_S + SAVING_LOADS * load_ns / 1e9


def explained(
    side: ResolvedSide,
    work: Workload,
    trace: Trace,
    warm: int,
    wall_ns: Floats | None,
    profile: OperatorProfile,
    *,
    host: Host,
    state: MachineLoad,
    store: Path | None,
    scratch: Path,
    hurried: bool,
) -> tuple[OperatorProfile, Headroom | None, dict[str, float]]:
    """Return the profile with the model's node names, the possible gain, and nanoseconds by node of the model.

    The time of an optimised node that replaces several nodes is divided equally among them.
    """
    node_origins, peak = NodeOrigins(), load_peak(host, store, side.runtime.ort_version)
    no_peak = NOT_MAPPED if hurried else ""
    if not hurried:
        node_origins = find_origins(side, work, scratch, trace)
    nodes = [
        msgspec.structs.replace(
            n, originals=node_origins.originals.get(n.name, ()), purpose=node_origins.purpose.get(n.name, "")
        )
        for n in profile.nodes
    ]
    result = result_of(
        "", trace, attribute(trace, range(warm, trace.n_runs), wall_ns), 0, node_origins, peak, side,
        slowdown=profile.slowdown_ratio, cpus=host.effective_cpus, state=state,
        no_peak=not_measured(store) if peak is None else no_peak,
    )  # fmt: skip
    times: dict[str, float] = {}
    for row in by_node(trace, warm):
        own = node_origins.originals.get(row.name, ())
        for name in own:
            times[name] = times.get(name, 0.0) + row.time_ns / len(own)
    return msgspec.structs.replace(profile, nodes=tuple(nodes)), result.headroom, times
