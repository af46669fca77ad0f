"""What one profiled run tells, as the record that every format reads; and one side of a difference."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import msgspec
import numpy as np

from ortune import platform
from ortune.flows.profile_memory import memory_of
from ortune.flows.profile_nodes import Origins, profiled_nodes, whole_numbers
from ortune.flows.profile_words import findings
from ortune.flows.sides import Resolved
from ortune.records import (
    MachinePeak,
    OperatorTime,
    ProfileDifference,
    ProfiledNode,
    ProfileResult,
    TraceInfo,
)
from ortune.report import difference_words
from ortune.stats.processes import t_quantile
from ortune.trace.attribution import Attribution, mean
from ortune.trace.difference import SideTimes, difference
from ortune.trace.headroom import headroom
from ortune.trace.layers import layers
from ortune.trace.matching import SideNode
from ortune.trace.naming import stable_names
from ortune.trace.roofline import with_floors
from ortune.trace.table import Trace
from ortune.trace.variance import variance


def result_of(
    path: str,
    trace: Trace,
    found: Attribution,
    warmup: int,
    known: Origins,
    peak: MachinePeak | None = None,
    side: Resolved | None = None,
) -> ProfileResult:
    """Everything that one trace tells, with what is known beside it."""
    nodes = profiled_nodes(trace, found, known)
    threads = _threads(side)
    if peak is not None:
        nodes = with_floors(nodes, peak, threads, whole_numbers(trace), known.weights)
    categories = found.categories()
    providers: dict[str, float] = {}
    for node in nodes:
        providers[node.provider] = providers.get(node.provider, 0.0) + node.time_ns
    middle = _middle_run(found)
    result = ProfileResult(
        trace=TraceInfo(
            path=path,
            format=trace.format,
            n_events=trace.n_events,
            n_runs=trace.n_runs,
            complete=trace.complete,
            n_unreadable=trace.n_unreadable,
            missing=trace.missing,
        ),
        n_runs=len(found.wall_ns),
        wall_ns=found.mean_wall_ns,
        categories=categories,
        operators=_operators(nodes),
        nodes=nodes,
        layers=layers(nodes),
        providers=dict(sorted(providers.items(), key=lambda item: -item[1])),
        device_ns=_device(trace, found),
        variance=variance(trace, found, warmup),
        memory=(
            memory_of(trace, middle, known.lifetimes, known.weights_bytes) if middle is not None else None
        ),
        peak=peak,
        headroom=headroom(categories, nodes, found.mean_wall_ns),
        unmapped=known.unmapped,
    )
    return msgspec.structs.replace(result, findings=findings(result))


def side_times(label: str, processes: Sequence[tuple[Trace, Attribution]], known: Origins) -> SideTimes:
    """One side of a difference: every node's mean in each process.

    Args:
        label: What it is called.
        processes: The first is the one whose names ``known`` has.
        known: Of the graph that they ran.
    """
    n = len(processes)
    nodes: dict[Hashable, tuple[str, str, np.ndarray]] = {}
    keys = stable_names([trace for trace, _ in processes], known.places)
    for number, ((trace, found), same) in enumerate(zip(processes, keys, strict=True)):
        named = zip(same, trace.name.texts, trace.nodes.op_type, mean(found.by_node), strict=True)
        for key, name, op, ns in named:
            _, _, times = nodes.setdefault(key, (name, op, np.zeros(n)))
            times[number] += ns
    categories: dict[str, np.ndarray[Any, np.dtype[np.float64]]] = {
        c.name: np.array([found.categories()[i].ns for _, found in processes])
        for i, c in enumerate(processes[0][1].categories())
    }
    return SideTimes(
        label=label,
        wall_ns=np.array([found.mean_wall_ns for _, found in processes]),
        categories=categories,
        nodes=[
            SideNode(
                name=name,
                op_type=op,
                originals=known.of.get(name, ()),
                purpose=known.purpose.get(name, ""),
                ns=times,
            )
            for name, op, times in nodes.values()
        ],
    )


def difference_of(
    a: SideTimes, b: SideTimes, slowdown: Sequence[float | None] = (None, None)
) -> ProfileDifference:
    """B minus A, with its sentence.

    Args:
        a: One side.
        b: The other.
        slowdown: A profiled run of either over one that is not profiled.
    """
    found = difference(a, b, quantile)
    found = msgspec.structs.replace(found, a_slowdown_ratio=slowdown[0], b_slowdown_ratio=slowdown[1])
    return msgspec.structs.replace(found, sentence=difference_words.sentence(found))


def quantile(degrees: float) -> float:
    """Two-sided 95 % quantile of Student's t; degrees of freedom are rounded down, which is the careful side."""
    return t_quantile(0.975, max(1, int(degrees)))


def _operators(nodes: Sequence[ProfiledNode]) -> tuple[OperatorTime, ...]:
    """Operators of the mean steady run: sums of its nodes, the dearest first."""
    groups: dict[tuple[str, str], list[ProfiledNode]] = {}
    for node in nodes:
        groups.setdefault((node.op_type, node.provider), []).append(node)
    rows = [
        OperatorTime(
            op_type=op,
            provider=provider,
            n_nodes=len(mine),
            time_ns=sum(node.time_ns for node in mine),
            share_ratio=sum(node.share_ratio for node in mine),
        )
        for (op, provider), mine in groups.items()
    ]
    return tuple(sorted(rows, key=lambda row: (-row.time_ns, row.op_type, row.provider)))


def _threads(side: Resolved | None) -> int:
    asked = side.plan.settings.get("intra_op_num_threads") if side else None
    cpus = platform.host().effective_cpus
    return min(int(asked), cpus) if isinstance(asked, int) and asked > 0 else cpus


def _middle_run(found: Attribution) -> int | None:
    """The run whose time is the median."""
    if not len(found.wall_ns):
        return None
    return found.runs.start + int(np.argsort(found.wall_ns, kind="stable")[len(found.wall_ns) // 2])


def _device(trace: Trace, found: Attribution) -> dict[str, float]:
    """Device time of the mean steady run, by the provider of the node that each kernel follows.

    Some plugins name no node with their kernels: these stand under "device", and belong to the run they began in.
    """
    kernels = trace.kernels
    if not len(kernels.row) or not len(found.wall_ns):
        return {}
    owned = kernels.row >= 0
    owners = kernels.row[owned]
    provider = np.full(len(owned), len(trace.provider.texts))
    provider[owned] = trace.provider.codes[owners]
    begin = trace.run_start_ns[found.runs.start]
    end = trace.run_start_ns[found.runs.stop - 1] + trace.run_ns[found.runs.stop - 1]
    counts = (begin <= kernels.start_ns) & (kernels.start_ns <= end)
    counts[owned] = (trace.run[owners] >= found.runs.start) & (trace.run[owners] < found.runs.stop)
    names = (*trace.provider.texts, "device")
    times = np.bincount(provider[counts], weights=kernels.duration_ns[counts], minlength=len(names))
    return {name: float(ns) / len(found.wall_ns) for name, ns in zip(names, times, strict=True) if ns}
