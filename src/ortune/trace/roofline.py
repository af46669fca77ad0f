"""The least time that this machine needs for a node's work, and what bounds it: arithmetic, or memory."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal

import msgspec
import numpy as np

from ortune.catalogue.providers import ON_CPU, profiled
from ortune.records import MachinePeak, ProfiledNode
from ortune.trace.traffic import Step, from_memory

Kind = Literal["float32", "int8"]
Bound = Literal["compute", "memory", "overhead", ""]

INT8_OPERATORS = frozenset(
    (
        "QLinearConv", "QLinearMatMul", "QLinearAdd", "QLinearMul", "QLinearSigmoid", "QLinearLeakyRelu",
        "QLinearAveragePool", "QLinearGlobalAveragePool", "QLinearConcat", "QLinearSoftmax", "QLinearWhere",
        "QLinearConvTranspose", "ConvInteger", "MatMulInteger", "MatMulIntegerToFloat",
        "DynamicQuantizeMatMul", "DynamicQuantizeLSTM", "QGemm", "QAttention", "QEmbedLayerNormalization",
        "MatMulNBits",
    )
)  # fmt: skip
"""Operators that multiply integers, or may: MatMulNBits does at an accuracy level of 4."""

CPU_PROVIDERS = ON_CPU | profiled(lambda p: p.hardware == "cpu")
"""Where the peak of the CPU is a bound; what runs on a device has another."""

_CLOCK_NS = 1000.0  # of the profiler: an execution took up to so much longer than was written
_TURBO = 1.1  # clocks differ by so much from one moment to the next, and both figures are the best of many
PRODUCTS = INT8_OPERATORS | {
    "Conv", "FusedConv", "ConvTranspose", "MatMul", "FusedMatMul", "Gemm", "FusedGemm",
}  # fmt: skip
"""Operators whose kernels come near what their arithmetic and their memory need, however small they are."""
LOOKUPS = frozenset(("TreeEnsemble", "TreeEnsembleClassifier", "TreeEnsembleRegressor"))
"""Operators that walk from one value to the next: no rate of arithmetic says what they need."""
SHORT_NS = 10_000.0
"""An execution that is shorter, and far from its floor, is mostly started and ended."""
WAKING_NS = 100_000.0
SMALL_NS = 5_000.0
"""A product that is shorter than the former and needs less than the latter is mostly handed to threads."""
FAR = 0.2  # of a node's time: what it needs is no more than that


def floor(
    flops: float, bytes: float, *, kind: Kind, threads: int, peak: MachinePeak, touched: float = 0.0
) -> tuple[float, Bound]:
    """Return the least time for an amount of work, and what bounds it.

    Args:
        flops: Operations; a multiply-add is two.
        bytes: What must come from memory or go there. What lies in a cache does not count: see ``trace.traffic``.
        kind: What is multiplied. Integers take the larger of both peaks, since a kernel may convert them where
            that is faster.
        threads: That work on it; 0 or less is all of them.
        peak: Of the machine.
        touched: What is read and written at all, wherever it lies: no faster than elementwise work in caches.

    Returns:
        Nanoseconds, and "compute" or "memory"; 0.0 and "" for no work.
    """
    arithmetic = rate(peak.flops_per_s, threads)
    if kind == "int8":
        arithmetic = max(arithmetic, rate(peak.int8_ops_per_s, threads))
    bandwidth = rate(peak.bytes_per_s, threads)
    cached = peak.elementwise_bytes_per_s * (threads if threads > 0 else max(peak.flops_per_s, default=1))
    # 2 GFLOP at 100 GFLOP/s take 20 ms and 100 MB at 10 GB/s take 10 ms: at least 20 ms, bound by arithmetic.
    computing = 1e9 * flops / arithmetic if arithmetic and flops > 0 else 0.0
    moving = 1e9 * bytes / bandwidth if bandwidth and bytes > 0 else 0.0
    moving = max(moving, 1e9 * touched / cached if cached and touched > 0 else 0.0)
    if not computing and not moving:
        return 0.0, ""
    return (moving, "memory") if moving > computing else (computing, "compute")


def rate(by_threads: Mapping[int, float], threads: int) -> float:
    """Return a peak with that many threads, between measured numbers by a straight line; 0.0 if nothing is measured.

    More threads reach at least what fewer do, whatever a disturbed measurement says; beyond the largest number
    measured nothing is added. 0 threads or less are as many as were measured.
    """
    if not by_threads:
        return 0.0
    counts = sorted(by_threads)
    rates = np.maximum.accumulate([by_threads[n] for n in counts])
    return float(np.interp(threads if threads > 0 else counts[-1], counts, rates))


def with_floors(
    nodes: Sequence[ProfiledNode],
    peak: MachinePeak,
    threads: int,
    int8: Collection[str] = (),
    weights: Mapping[str, float] | None = None,
    providers: Collection[str] = CPU_PROVIDERS,
    steps: Sequence[Step] = (),
) -> tuple[ProfiledNode, ...]:
    """Adds ``floor_ns`` and ``bound`` to CPU nodes whose work is known.

    The floor is what must be so at least, the largest of three: arithmetic, at the rate of products of matrices; all
    bytes that are touched, at the rate of elementwise work in caches; and the bytes that no cache can have held, at the
    rate of memory. ``trace.traffic`` finds these in ``steps``. Of other nodes (in the body of a loop)
    memory counts where no cache can have helped:

    - Activations of one execution, beyond the size of the last-level cache: up to that size they may lie there.
    - Weights, where those of the whole model (or of the body that a loop repeats) are larger than that cache: from one
      run to the next it keeps its own size of them at most, here an equal share of each node's.

    Where executions take less than ``SHORT_NS`` each, and are far from their floor, overhead is what bounds a node, and
    so it is of small products that take many times what they need. Without a known size of the cache nothing need come
    from memory. Without a known rate of elementwise work a node that does less than an operation a byte has a floor
    only where memory makes one: the rate of products says nothing of it. A time below the floor means that the work is
    over-counted or the peak under-measured: the floor stays as it is, and ``below_floor`` lists such nodes.

    Args:
        nodes: With the work of all executions in a run.
        peak: Of the machine.
        threads: Of the session; 0 for all that were measured.
        int8: Names of nodes, or operators, that multiply integers, in addition to ``INT8_OPERATORS``.
        weights: Bytes of constants that one execution of a node reads, by its name; what is not named counts as
            activations.
        providers: Execution providers that compute on the CPU.
        steps: What the nodes of the main graph read and make, in the order in which they run.
    """
    weights = weights or {}
    cache = peak.cache_bytes
    missed = _missed(nodes, weights, cache) if cache else {}
    traffic = from_memory(steps, weights, cache) if cache else {}
    bounded = []
    for node in nodes:
        if node.flops is None or node.op_type in LOOKUPS or node.provider not in providers:
            bounded.append(node)
            continue
        whole = node.op_type in INT8_OPERATORS or node.name in int8 or node.op_type in int8
        touched, calls = node.bytes or 0.0, max(node.calls, 1.0)
        if node.name in traffic and not node.inside:
            moved = min(traffic[node.name] * calls, touched)
        elif cache:
            # A value of one execution can lie in the cache up to its whole size; only what goes beyond must
            # have moved.
            once = max(0.0, touched - weights.get(node.name, 0.0) * node.calls) / calls
            moved = max(0.0, once - cache) * calls + missed.get(node.name, 0.0)
        else:
            moved = 0.0
        kind: Kind = "int8" if whole else "float32"
        ns, bound = floor(node.flops, moved, kind=kind, threads=threads, peak=peak, touched=touched)
        moving, _ = floor(0.0, touched, kind=kind, threads=threads, peak=peak)
        if _is_overhead(node, ns, ns + moving):
            bound = "overhead"
        elif bound != "memory" and not peak.elementwise_bytes_per_s and node.flops < touched:
            bounded.append(node)
            continue
        bounded.append(msgspec.structs.replace(node, floor_ns=ns, bound=bound))
    return tuple(bounded)


def _is_overhead(node: ProfiledNode, floor_ns: float, needed_ns: float) -> bool:
    """Return whether starting its executions is most of what a node costs."""
    took = node.least_ns
    if 0 < took < SHORT_NS * node.calls and floor_ns < FAR * took:
        return True
    small = took < WAKING_NS * node.calls and needed_ns < SMALL_NS * node.calls
    return node.op_type in PRODUCTS and small and needed_ns < FAR * took


def lost_ns(node: ProfiledNode) -> float:
    """Return time beyond the floor where nothing disturbs the node; 0.0 without a floor."""
    return 0.0 if node.floor_ns is None else max(0.0, node.least_ns - node.floor_ns)


def below_floor(nodes: Sequence[ProfiledNode]) -> tuple[ProfiledNode, ...]:
    """Return nodes that were faster than their floor by more than clocks vary, the largest gap first.

    Their work is over-counted, or the peak under-measured; either way their floor proves nothing.
    """
    below = [
        node
        for node in nodes
        if node.floor_ns is not None
        and node.floor_ns > _TURBO * node.least_ns + _CLOCK_NS * max(node.calls, 1.0)
    ]
    return tuple(sorted(below, key=lambda node: (node.least_ns - (node.floor_ns or 0.0), node.name)))


def _missed(nodes: Sequence[ProfiledNode], weights: Mapping[str, float], cache: int) -> dict[str, float]:
    """Yield bytes of weights that each node fetches from memory in a run, at least; nothing for those that fit."""
    bodies: dict[str, float] = {}
    for node in nodes:
        bodies[node.inside] = bodies.get(node.inside, 0.0) + weights.get(node.name, 0.0)
    total = sum(bodies.values())

    def missed_by_node() -> Iterator[tuple[str, float]]:
        for node in nodes:
            size = weights.get(node.name, 0.0)
            # Of weights that are read in turn, a cache keeps its own size from one pass to the next: the rest
            # is fetched anew in every pass of a loop, or once a run.
            again = (
                size * (1 - cache / bodies[node.inside]) * node.calls if bodies[node.inside] > cache else 0.0
            )
            once = size * (1 - cache / total) if total > cache else 0.0
            yield node.name, max(again, once)

    return dict(missed_by_node())
