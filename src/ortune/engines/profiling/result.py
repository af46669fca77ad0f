"""Creates the result of a profile, which all output formats share, and the sides of a difference."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from ortune import rewrites
from ortune.catalogue.in_page import threads_in_page
from ortune.catalogue.knobs import why_too_old
from ortune.catalogue.named import GLOBAL_THREAD_POOL as POOL
from ortune.catalogue.named import GRAPH_OPTIMIZATION_LEVEL as LEVEL
from ortune.catalogue.named import INTRA_OP_NUM_THREADS as THREADS
from ortune.catalogue.named import ORT_INTRA_OP_NUM_THREADS as VARIABLE
from ortune.catalogue.providers import ON_CPU
from ortune.engines.profiling.kernels import transfers
from ortune.engines.profiling.memory import memory_of
from ortune.engines.profiling.nodes import NodeOrigins, profiled_nodes, whole_numbers
from ortune.engines.profiling.processes import MachineLoad
from ortune.measuring.sides import ResolvedSide
from ortune.records import (
    GpuRun,
    MachinePeak,
    PageParts,
    ProfileDifference,
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
from ortune.trace.undisturbed import operator_times, undisturbed_run
from ortune.trace.variance import variance

_OUT = "initializers-out-of-inputs"


def page_parts(trace: Trace, warmup: int) -> PageParts | None:
    """Return the parts of a browser page's runs, from its time marks and the profile; None if either is missing."""
    n = min(len(trace.page_runs), trace.n_runs)
    if not n or trace.device_only:
        return None
    in_runs = trace.run >= 0
    operators = np.bincount(trace.run[in_runs], trace.self_ns[in_runs], minlength=trace.n_runs)
    # A truncated log lacks its beginning.
    figures = np.column_stack([np.asarray(trace.page_runs[-n:], dtype=np.float64), operators[-n:]])
    # Warm-up counts from the first run, so runs missing in the log are part of it.
    figures = figures[min(max(0, warmup - (trace.n_runs - n)), n - 1) :]
    whole, inputs, outputs, computed = (float(np.median(column)) for column in figures.T)
    rest = float(np.median(figures[:, 0] - figures[:, 1:].sum(axis=1)))
    return PageParts(
        whole_ns=whole,
        inputs_ns=inputs,
        operators_ns=computed,
        outputs_ns=outputs,
        rest_ns=rest,
        n_runs=len(figures),
        queued=not {*trace.nodes.provider} <= ON_CPU,
    )


def result_of(
    path: str,
    trace: Trace,
    attribution: Attribution,
    warmup: int,
    origins: NodeOrigins,
    peak: MachinePeak | None = None,
    side: ResolvedSide | None = None,
    *,
    slowdown: float | None = None,
    cpus: int = 0,
    state: MachineLoad | None = None,
    no_peak: str = "",
    resident: Resident | None = None,
    gpu_run: GpuRun | None = None,
) -> ProfileResult:
    """Return the result of one trace, joined with facts about the run.

    Args:
        path: Path of a trace that another program recorded; "" for a trace of this command.
        trace: The trace.
        attribution: The attributed time of the trace's steady runs.
        warmup: Number of warm-up runs at the start of the trace, from a statistical test.
        origins: Origins of the nodes of the optimised graph.
        peak: Peak of this machine, for floors.
        side: The profiled side; None for a trace that another program recorded.
        slowdown: Ratio of the time of a profiled run to that of a plain run; None if unknown.
        cpus: Number of CPUs available to the run; 0 if the trace was recorded elsewhere.
        state: Load of the machine.
        no_peak: Reason that there is no peak.
        resident: Memory of the process, if it was measured.
        gpu_run: Transfer times of a run.
    """
    nodes = profiled_nodes(trace, attribution, origins)
    plain = (
        float(np.median(attribution.wall_ns)) / slowdown if slowdown and len(attribution.wall_ns) else None
    )
    at = _conditions(side, cpus)
    at = replace(
        at,
        slowdown=slowdown,
        plain_ns=plain,
        busy=state.busy if state else "",
        no_peak=no_peak or origins.trouble,
        peak_of=_other_version(peak, side),
        peak_doubted=peak is not None and not peak.agreed,
    )
    undisturbed = attribution.fast_categories()
    fast_ns = sum(c.ns for c in undisturbed)
    lost_runs = int(trace.lost[attribution.runs.start : attribution.runs.stop].sum())
    if peak is not None:
        nodes = with_floors(
            nodes, peak, at.threads, whole_numbers(trace), origins.weights, steps=origins.lifetimes.steps
        )
    categories = attribution.categories()
    providers: dict[str, float] = {}
    for node in nodes:
        providers[node.provider] = providers.get(node.provider, 0.0) + node.time_ns
    middle = _middle_run(attribution)
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
            lacks=trace.lacks,
        ),
        n_runs=len(attribution.wall_ns),
        wall_ns=attribution.mean_wall_ns,
        slowdown_ratio=slowdown,
        fast_ns=None if lost_runs else fast_ns,
        undisturbed=None if lost_runs else undisturbed_run(attribution.mean_wall_ns, undisturbed, nodes),
        sensors=state.sensors if state else None,
        categories=categories,
        operators=operator_times(nodes),
        nodes=nodes,
        layers=places,
        layers_left_out=left_out,
        providers=dict(sorted(providers.items(), key=lambda item: -item[1])),
        page_parts=page_parts(trace, trace.n_runs - len(attribution.wall_ns)),
        pieces=trace.pieces,
        device_ns=_device(trace, attribution),
        transfers=transfers(trace, attribution),
        variance=variance(trace, attribution, warmup),
        memory=(
            memory_of(trace, middle, origins.lifetimes, origins.weights_bytes, resident)
            if middle is not None
            else None
        ),
        peak=peak,
        # The host's time determines the gain of settings, and must be complete.
        headroom=None if trace.device_only or lost_runs else headroom(undisturbed, nodes, fast_ns, at),
        gpu_run=gpu_run,
        unmapped=origins.unmapped,
    )


def side_times(label: str, processes: Sequence[tuple[Trace, Attribution]], origins: NodeOrigins) -> SideTimes:
    """Return one side of a difference: each node's mean per process, or per part of a single process's runs."""
    samples = [_samples(attribution, alone=len(processes) == 1) for _, attribution in processes]
    size = samples[0].wall.size
    trace, attribution = processes[0]
    calls = dict(zip(trace.name.texts, attribution.calls.tolist(), strict=True))
    shared = Counter(trace.name.texts)
    nodes: dict[Hashable, tuple[str, str, np.ndarray]] = {}
    keys = stable_names([trace for trace, _ in processes], origins.places)
    for number, ((trace, _), same) in enumerate(zip(processes, keys, strict=True)):
        named = zip(same, trace.name.texts, trace.nodes.op_type, samples[number].by_node, strict=True)
        for key, name, op, ns in named:
            _, _, times = nodes.setdefault(key, (name, op, np.zeros(len(processes) * size)))
            # Each process has its part of the array; zeros remain for nodes that it lacks.
            times[number * size : (number + 1) * size] += ns
    return SideTimes(
        label=label,
        processes=len(processes),
        wall_ns=np.concatenate([sample.wall for sample in samples]),
        categories={
            name: np.concatenate([sample.by_category[i] for sample in samples])
            for i, name in enumerate(NAMES)
        },
        nodes=[
            SideNode(
                name=name,
                op_type=op,
                originals=origins.originals.get(name, ()),
                purpose=origins.purpose.get(name, ""),
                ns=times,
                work=(
                    (work[0] * calls[name], work[1] * calls[name])
                    if (work := origins.work.get(name)) is not None and shared[name] == 1
                    else None
                ),
            )
            for name, op, times in nodes.values()
        ],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Samples:
    """Samples of one process in nanoseconds: (rows, samples) by category and by node, (samples,) for the whole run."""

    wall: Floats
    by_category: Floats
    by_node: Floats


def _samples(attribution: Attribution, *, alone: bool) -> _Samples:
    """Return the mean run of a process as one sample; for the only process, a sample for each part of its runs."""
    sampled = parts if alone else lambda by_run: mean(by_run)[:, None]
    return _Samples(
        wall=sampled(attribution.wall_ns[None, :])[0],
        by_category=sampled(attribution.by_category),
        by_node=sampled(attribution.by_node),
    )


def difference_of(
    a: SideTimes,
    b: SideTimes,
    slowdown: Sequence[float | None] = (None, None),
    plain_ns: float | None = None,
    counterparts: Mapping[str, str] | None = None,
) -> ProfileDifference:
    """Return the difference of two sides, B minus A."""
    result = difference(a, b, widths_together, counterparts)
    return msgspec.structs.replace(
        result, a_slowdown_ratio=slowdown[0], b_slowdown_ratio=slowdown[1], plain_ns=plain_ns
    )


def _conditions(side: ResolvedSide | None, cpus: int) -> Conditions:
    """Return the conditions of the headroom that follow from plan and model."""
    if side is None:
        return Conditions()
    return Conditions(threads=_threads(side, cpus), cpus=cpus, unbounded=_unbounded(side))


def _threads(side: ResolvedSide, cpus: int) -> int:
    """Return the number of computing threads that the session, the process, the environment or the page sets."""
    if side.plan.is_web:
        return threads_in_page(side.plan.settings, cpus)
    asked = [side.plan.settings.get(knob.name) for knob in (THREADS, POOL, VARIABLE)]
    if not why_too_old(VARIABLE, side.runtime.ort_version):
        text = os.environ.get(VARIABLE.key, "")
        asked.append(int(text) if text.isdecimal() else None)
    # The session's own setting precedes the process's; more threads than CPUs add no arithmetic.
    threads = next((int(count) for count in asked if isinstance(count, int) and count > 0), cpus)
    return min(threads, cpus)


def _unbounded(side: ResolvedSide) -> str:
    """Return the reason that ONNX Runtime could not optimise all nodes; "" if it could."""
    if side.plan.settings.get(LEVEL.name) == "disable":
        return "graph optimisation is off"
    if _OUT in (spec.name for spec in side.plan.rewrites):
        return ""
    return next((reason for _, reason in rewrites.find(_OUT).proposes(side.model.ir, None)), "")


def _other_version(peak: MachinePeak | None, side: ResolvedSide | None) -> str:
    """Return a note that the peak was measured with a different ONNX Runtime version; "" if it was the same."""
    if peak is None or side is None or peak.ort_version in ("", side.runtime.ort_version):
        return ""
    return f"measured with onnxruntime {peak.ort_version}"


def _middle_run(attribution: Attribution) -> int | None:
    """Return the index of the run with the median time; None without runs."""
    if not len(attribution.wall_ns):
        return None
    return attribution.runs.start + int(
        np.argsort(attribution.wall_ns, kind="stable")[len(attribution.wall_ns) // 2]
    )


def _device(trace: Trace, attribution: Attribution) -> dict[str, float]:
    """Return the device time of the mean steady run, by the provider of the node that started each kernel.

    The result is empty if the nodes are themselves kernels. Kernels without a node, which some plugins have, are listed
    under "device" and belong to the run in which they began.
    """
    kernels = trace.kernels
    if trace.device_only or not len(kernels.row) or not len(attribution.wall_ns):
        return {}
    owned = kernels.row >= 0
    owners = kernels.row[owned]
    provider = np.full(len(owned), len(trace.provider.texts))
    provider[owned] = trace.provider.codes[owners]
    begin = trace.run_start_ns[attribution.runs.start]
    end = trace.run_start_ns[attribution.runs.stop - 1] + trace.run_ns[attribution.runs.stop - 1]
    counts = (begin <= kernels.start_ns) & (kernels.start_ns <= end)
    counts[owned] = (trace.run[owners] >= attribution.runs.start) & (
        trace.run[owners] < attribution.runs.stop
    )
    counts &= kernels.bytes == ABSENT  # copies are listed separately
    names = (*trace.provider.texts, "device")
    # Providers by their code, and one more place for kernels of no node.
    times = np.bincount(provider[counts], weights=kernels.duration_ns[counts], minlength=len(names))
    return {name: float(ns) / len(attribution.wall_ns) for name, ns in zip(names, times, strict=True) if ns}
