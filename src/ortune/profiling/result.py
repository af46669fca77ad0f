"""What one profiled run tells, as the record that every format reads; and one side of a difference."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from ortune import rewrites
from ortune.knobs import too_old
from ortune.knobs.cpu.global_thread_pool import KNOB as POOL
from ortune.knobs.cpu.graph_optimization_level import KNOB as LEVEL
from ortune.knobs.cpu.intra_op_num_threads import KNOB as THREADS
from ortune.knobs.cpu.ort_intra_op_num_threads import KNOB as VARIABLE
from ortune.knobs.in_page import threads_in_page
from ortune.profiling.kernels import transfers
from ortune.profiling.memory import memory_of
from ortune.profiling.nodes import Origins, profiled_nodes, whole_numbers
from ortune.profiling.processes import Seen
from ortune.providers import ON_CPU
from ortune.records import (
    MachinePeak,
    OperatorTime,
    PageParts,
    ProfileDifference,
    ProfiledNode,
    ProfileResult,
    TraceInfo,
)
from ortune.stats.multiplicity import widths_together
from ortune.trace.attribution import NAMES, Attribution, mean
from ortune.trace.difference import SideTimes, difference, parts
from ortune.trace.headroom import Conditions, headroom
from ortune.trace.layers import layers
from ortune.trace.matching import SideNode
from ortune.trace.memory import Resident
from ortune.trace.naming import stable_names
from ortune.trace.roofline import with_floors
from ortune.trace.table import ABSENT, Floats, Trace
from ortune.trace.variance import variance
from ortune.trials.sides import Resolved

_OUT = "initializers-out-of-inputs"


def page_parts(trace: Trace, warmup: int) -> PageParts | None:
    """What marks of a page's runs and the profile of these tell together; None where either is missing."""
    n = min(len(trace.page_runs), trace.n_runs)
    if not n or trace.device_only:
        return None
    known = trace.run >= 0
    operators = np.bincount(trace.run[known], trace.self_ns[known], minlength=trace.n_runs)
    # A log that was cut off lacks what came first.
    told = np.column_stack([np.asarray(trace.page_runs[-n:], dtype=np.float64), operators[-n:]])
    told = told[min(max(0, warmup - (trace.n_runs - n)), n - 1) :]
    whole, inputs, outputs, computed = (float(np.median(column)) for column in told.T)
    rest = float(np.median(told[:, 0] - told[:, 1:].sum(axis=1)))
    return PageParts(
        whole_ns=whole,
        inputs_ns=inputs,
        operators_ns=computed,
        outputs_ns=outputs,
        rest_ns=rest,
        n_runs=len(told),
        queued=not {*trace.nodes.provider} <= ON_CPU,
    )


def result_of(
    path: str,
    trace: Trace,
    found: Attribution,
    warmup: int,
    known: Origins,
    peak: MachinePeak | None = None,
    side: Resolved | None = None,
    *,
    slowdown: float | None = None,
    cpus: int = 0,
    seen: Seen | None = None,
    no_peak: str = "",
    resident: Resident | None = None,
) -> ProfileResult:
    """Everything that one trace tells, with what is known beside it.

    Args:
        path: Of a trace that others made, else "".
        trace: What was recorded.
        found: Its steady runs, attributed.
        warmup: Runs at its start that a test calls warm-up.
        known: Of the graph that ran.
        peak: Of this machine, for floors.
        side: What ran; None for a trace that others made.
        slowdown: A profiled run over one that is not; None where that is not known.
        cpus: That the run could use; 0 where nothing ran here.
        seen: What else happened on the machine.
        no_peak: Why there is no peak.
        resident: Memory of the process, where it was watched.
    """
    nodes = profiled_nodes(trace, found, known)
    plain = float(np.median(found.wall_ns)) / slowdown if slowdown and len(found.wall_ns) else None
    at = _conditions(side, cpus)
    at = replace(
        at,
        slowdown=slowdown,
        plain_ns=plain,
        busy=seen.busy if seen else "",
        no_peak=no_peak or known.trouble,
        peak_of=_other_version(peak, side),
        peak_doubted=peak is not None and not peak.agreed,
    )
    undisturbed = found.fast_categories()
    fast_ns = sum(c.ns for c in undisturbed)
    lost_runs = int(trace.lost[found.runs.start : found.runs.stop].sum())
    if peak is not None:
        nodes = with_floors(
            nodes, peak, at.threads, whole_numbers(trace), known.weights, steps=known.lifetimes.steps
        )
    categories = found.categories()
    providers: dict[str, float] = {}
    for node in nodes:
        providers[node.provider] = providers.get(node.provider, 0.0) + node.time_ns
    middle = _middle_run(found)
    places, left_out = layers(nodes)
    return ProfileResult(
        trace=TraceInfo(
            path=path,
            format=trace.format,
            n_events=trace.n_events,
            n_runs=trace.n_runs,
            device_only=trace.device_only,
            complete=trace.complete,
            n_unreadable=trace.n_unreadable,
            n_mended=trace.n_mended,
            n_outside=trace.n_outside,
            lost_runs=lost_runs,
            left_out_runs=trace.n_left_out,
            missing=trace.missing,
        ),
        n_runs=len(found.wall_ns),
        wall_ns=found.mean_wall_ns,
        slowdown_ratio=slowdown,
        fast_ns=None if lost_runs else fast_ns,
        sensors=seen.sensors if seen else None,
        categories=categories,
        operators=_operators(nodes),
        nodes=nodes,
        layers=places,
        layers_left_out=left_out,
        providers=dict(sorted(providers.items(), key=lambda item: -item[1])),
        page_parts=page_parts(trace, trace.n_runs - len(found.wall_ns)),
        pieces=trace.pieces,
        device_ns=_device(trace, found),
        transfers=transfers(trace, found),
        variance=variance(trace, found, warmup),
        memory=(
            memory_of(trace, middle, known.lifetimes, known.weights_bytes, resident)
            if middle is not None
            else None
        ),
        peak=peak,
        # What the host did decides what settings can win, and all of it must be there.
        headroom=None if trace.device_only or lost_runs else headroom(undisturbed, nodes, fast_ns, at),
        unmapped=known.unmapped,
    )


def side_times(label: str, processes: Sequence[tuple[Trace, Attribution]], known: Origins) -> SideTimes:
    """One side of a difference: every node's mean in each process; of a single process in each part of its runs."""
    samples = [_samples(found, alone=len(processes) == 1) for _, found in processes]
    size = samples[0].wall.size
    trace, found = processes[0]
    calls = dict(zip(trace.name.texts, found.calls.tolist(), strict=True))
    shared = Counter(trace.name.texts)
    nodes: dict[Hashable, tuple[str, str, np.ndarray]] = {}
    keys = stable_names([trace for trace, _ in processes], known.places)
    for number, ((trace, _), same) in enumerate(zip(processes, keys, strict=True)):
        named = zip(same, trace.name.texts, trace.nodes.op_type, samples[number].by_node, strict=True)
        for key, name, op, ns in named:
            _, _, times = nodes.setdefault(key, (name, op, np.zeros(len(processes) * size)))
            times[number * size : (number + 1) * size] += ns
    return SideTimes(
        label=label,
        processes=len(processes),
        wall_ns=np.concatenate([each.wall for each in samples]),
        categories={
            name: np.concatenate([each.by_category[i] for each in samples]) for i, name in enumerate(NAMES)
        },
        nodes=[
            SideNode(
                name=name,
                op_type=op,
                originals=known.of.get(name, ()),
                purpose=known.purpose.get(name, ""),
                ns=times,
                work=(
                    (work[0] * calls[name], work[1] * calls[name])
                    if (work := known.work.get(name)) is not None and shared[name] == 1
                    else None
                ),
            )
            for name, op, times in nodes.values()
        ],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Samples:
    """What one process adds to each row of a difference: (rows, samples), and of the whole run (samples,)."""

    wall: Floats
    by_category: Floats
    by_node: Floats


def _samples(found: Attribution, *, alone: bool) -> _Samples:
    """The mean run of a process that is one of several; of one alone each part of its runs."""
    sampled = parts if alone else lambda by_run: mean(by_run)[:, None]
    return _Samples(
        wall=sampled(found.wall_ns[None, :])[0],
        by_category=sampled(found.by_category),
        by_node=sampled(found.by_node),
    )


def difference_of(
    a: SideTimes,
    b: SideTimes,
    slowdown: Sequence[float | None] = (None, None),
    plain_ns: float | None = None,
    counterparts: Mapping[str, str] | None = None,
) -> ProfileDifference:
    """B minus A."""
    found = difference(a, b, widths_together, counterparts)
    return msgspec.structs.replace(
        found, a_slowdown_ratio=slowdown[0], b_slowdown_ratio=slowdown[1], plain_ns=plain_ns
    )


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


def _conditions(side: Resolved | None, cpus: int) -> Conditions:
    """What a plan and a model decide."""
    if side is None:
        return Conditions()
    return Conditions(threads=_threads(side, cpus), cpus=cpus, unbounded=_unbounded(side))


def _threads(side: Resolved, cpus: int) -> int:
    """Threads that compute: of the session's own pool, of the process's, as the variable says, or those of a page."""
    if side.plan.is_web:
        return threads_in_page(side.plan.settings, cpus)
    asked = [side.plan.settings.get(knob.name) for knob in (THREADS, POOL, VARIABLE)]
    if not too_old(VARIABLE, side.runtime.ort_version):
        text = os.environ.get(VARIABLE.key, "")
        asked.append(int(text) if text.isdecimal() else None)
    given = next((int(count) for count in asked if isinstance(count, int) and count > 0), cpus)
    return min(given, cpus)


def _unbounded(side: Resolved) -> str:
    """Why other nodes than these may do the same: what ONNX Runtime has not been let optimise."""
    if side.plan.settings.get(LEVEL.name) == "disable":
        return "graph optimisation is off"
    if _OUT in (spec.name for spec in side.plan.rewrites):
        return ""
    return next((reason for _, reason in rewrites.find(_OUT).proposes(side.model.ir, None)), "")


def _other_version(peak: MachinePeak | None, side: Resolved | None) -> str:
    """With which other ONNX Runtime the peak was measured."""
    if peak is None or side is None or peak.ort_version in ("", side.runtime.ort_version):
        return ""
    return f"measured with onnxruntime {peak.ort_version}"


def _middle_run(found: Attribution) -> int | None:
    """The run whose time is the median."""
    if not len(found.wall_ns):
        return None
    return found.runs.start + int(np.argsort(found.wall_ns, kind="stable")[len(found.wall_ns) // 2])


def _device(trace: Trace, found: Attribution) -> dict[str, float]:
    """Device time of the mean steady run, by the provider of the node that each kernel follows.

    Nothing where the nodes are the kernels. Some plugins name no node with their kernels: these stand under "device",
    and belong to the run they began in.
    """
    kernels = trace.kernels
    if trace.device_only or not len(kernels.row) or not len(found.wall_ns):
        return {}
    owned = kernels.row >= 0
    owners = kernels.row[owned]
    provider = np.full(len(owned), len(trace.provider.texts))
    provider[owned] = trace.provider.codes[owners]
    begin = trace.run_start_ns[found.runs.start]
    end = trace.run_start_ns[found.runs.stop - 1] + trace.run_ns[found.runs.stop - 1]
    counts = (begin <= kernels.start_ns) & (kernels.start_ns <= end)
    counts[owned] = (trace.run[owners] >= found.runs.start) & (trace.run[owners] < found.runs.stop)
    counts &= kernels.bytes == ABSENT  # copies are told apart
    names = (*trace.provider.texts, "device")
    times = np.bincount(provider[counts], weights=kernels.duration_ns[counts], minlength=len(names))
    return {name: float(ns) / len(found.wall_ns) for name, ns in zip(names, times, strict=True) if ns}
