"""Kernels and copies on a device, matched to the nodes of a trace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

import numpy as np

from ortune.records import Transfer
from ortune.trace.attribution import Attribution, mean
from ortune.trace.table import ABSENT, NO_RUN, Floats, Trace

_Way = Literal["to-device", "to-host", "on-device"]
_WAYS: Mapping[str, _Way] = {
    "Memcpy HtoD": "to-device",
    "Memcpy DtoH": "to-host",
    "Memcpy DtoD": "on-device",
}
"""Direction of a copy, by the name that the worker's tracer gives it."""


def kernels_a_run(trace: Trace) -> int | None:
    """Count the kernels of the last run, which has no one-time work; None if the trace has no kernels of nodes."""
    rows = trace.kernels.row
    rows = rows[rows >= 0]
    if not len(rows):
        return None
    return int(np.count_nonzero(trace.run[rows] == trace.n_runs - 1))


def with_kernel_times(trace: Trace, attribution: Attribution) -> Attribution:
    """Return the attribution with the device time of each node's kernels in place of host times."""
    kernels = trace.kernels
    owned = kernels.row >= 0
    rows, ns = kernels.row[owned], kernels.duration_ns[owned]
    runs = trace.run[rows] - attribution.runs.start
    steady = (runs >= 0) & (runs < len(attribution.runs))
    by_node = np.zeros_like(attribution.by_node)
    np.add.at(by_node, (trace.name.codes[rows[steady]], runs[steady]), ns[steady])
    return replace(attribution, by_node=by_node, wall_ns=by_node.sum(axis=0))


def node_times(trace: Trace, attribution: Attribution) -> Floats | None:
    """Return the kernel time of each node in the mean steady run, as an array by node; None if no kernel has a node."""
    kernels = trace.kernels
    if trace.device_only or not (kernels.row >= 0).any():
        return None
    return mean(with_kernel_times(trace, attribution).by_node)


def transfers(trace: Trace, attribution: Attribution) -> tuple[Transfer, ...]:
    """Return the copies of the mean steady run, grouped by direction, longest first.

    A copy without a node belongs to the run during which the device made it.
    """
    kernels, n_runs = trace.kernels, len(attribution.runs)
    copies = np.flatnonzero(kernels.bytes != ABSENT)
    if not len(copies) or not n_runs:
        return ()
    owner = kernels.row[copies]
    begin, end = trace.run_start_ns, trace.run_start_ns + trace.run_ns
    # The last run that began before the copy; the copy is in that run if it had not ended yet.
    last = np.searchsorted(begin, kernels.start_ns[copies], side="right") - 1
    within = (last >= 0) & (kernels.start_ns[copies] <= end[np.maximum(last, 0)])
    run = np.where(owner >= 0, trace.run[np.maximum(owner, 0)], np.where(within, last, NO_RUN))
    steady = (run >= attribution.runs.start) & (run < attribution.runs.stop)
    groups: dict[tuple[_Way, bool], list[int]] = {}
    for copy, node in zip(copies[steady].tolist(), owner[steady].tolist(), strict=True):
        way = _WAYS.get(kernels.name[copy])
        if way:
            groups.setdefault((way, node >= 0), []).append(copy)
    rows = [
        Transfer(
            way=way,
            of_nodes=of_nodes,
            count=len(mine) / n_runs,
            bytes=float(kernels.bytes[mine].sum()) / n_runs,
            time_ns=float(kernels.duration_ns[mine].sum()) / n_runs,
        )
        for (way, of_nodes), mine in groups.items()
    ]
    return tuple(sorted(rows, key=lambda row: -row.time_ns))
