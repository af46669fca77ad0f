"""Roofline bound of a node: the minimum time for its work, and whether arithmetic or memory limits that time."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal

import msgspec
import numpy as np

from ortune.catalogue.providers import ON_CPU, profile_names
from ortune.records import MachinePeak, ProfiledNode
from ortune.trace.traffic import ExecutedNode, from_memory

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
"""Operators that multiply integers, or may do so, as MatMulNBits does at accuracy level 4."""

CPU_PROVIDERS = ON_CPU | profile_names(lambda p: p.hardware == "cpu")
"""Execution providers that compute on the CPU, so its peak bounds their nodes."""

_CLOCK_NS = 1000.0  # resolution of the profiler's clock: an execution may have taken this much longer
_TURBO = 1.1  # ratio by which clock rates vary between moments
PRODUCTS = INT8_OPERATORS | {
    "Conv", "FusedConv", "ConvTranspose", "MatMul", "FusedMatMul", "Gemm", "FusedGemm",
}  # fmt: skip
"""Operators whose kernels are near their arithmetic or memory bound, except very small kernels."""
LOOKUPS = frozenset(("TreeEnsemble", "TreeEnsembleClassifier", "TreeEnsembleRegressor"))
"""Operators limited by dependent memory accesses instead of an arithmetic rate."""
SHORT_NS = 10_000.0
"""Maximum time of an execution that is dominated by start-up overhead if it is far from its floor."""
WAKING_NS = 100_000.0
SMALL_NS = 5_000.0
"""Maximum floor of a matrix product that is dominated by thread handover if it is shorter than ``WAKING_NS``."""
FAR = 0.2  # maximum ratio of needed time to actual time for overhead


def floor(
    flops: float, bytes: float, *, kind: Kind, threads: int, peak: MachinePeak, touched: float = 0.0
) -> tuple[float, Bound]:
    """Return the minimum time for an amount of work, and which resource limits it.

    Args:
        flops: Operations; a multiply-add counts as two.
        bytes: Bytes moved to or from memory, without cached bytes: see ``trace.traffic``.
        kind: Type that is multiplied. For integers, the larger of both peaks is used, since a kernel may convert
            integers to floats if that is faster.
        threads: Number of threads; 0 or less for the largest measured number.
        peak: Peak rates of the machine.
        touched: All bytes read and written, cached or not; their rate is at most that of elementwise work in caches.

    Returns:
        (nanoseconds, "compute" or "memory"); (0.0, "") for no work.
    """
    arithmetic = rate(peak.flops_per_s, threads)
    if kind == "int8":
        arithmetic = max(arithmetic, rate(peak.int8_ops_per_s, threads))
    bandwidth = rate(peak.bytes_per_s, threads)
    cached = peak.elementwise_bytes_per_s * (threads if threads > 0 else max(peak.flops_per_s, default=1))
    # 2 GFLOP at 100 GFLOP/s take 20 ms, 100 MB at 10 GB/s take 10 ms: at least 20 ms, limited by arithmetic.
    computing = 1e9 * flops / arithmetic if arithmetic and flops > 0 else 0.0
    moving = 1e9 * bytes / bandwidth if bandwidth and bytes > 0 else 0.0
    moving = max(moving, 1e9 * touched / cached if cached and touched > 0 else 0.0)
    if not computing and not moving:
        return 0.0, ""
    return (moving, "memory") if moving > computing else (computing, "compute")


def rate(by_threads: Mapping[int, float], threads: int) -> float:
    """Return the peak rate for a number of threads, linearly interpolated; 0.0 if nothing was measured.

    More threads always count as at least as fast as fewer, even if a measurement was disturbed. Nothing is
    extrapolated beyond the largest measured number of threads, which is also used for 0 threads or less.
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
    steps: Sequence[ExecutedNode] = (),
) -> tuple[ProfiledNode, ...]:
    """Return the nodes, with ``floor_ns`` and ``bound`` set for CPU nodes whose work is known.

    The floor is the largest of three bounds: arithmetic, at the rate of matrix products; all bytes touched, at the rate
    of elementwise work in caches; and bytes that no cache can contain, at the rate of memory. ``trace.traffic`` finds
    the memory bytes from ``steps``. For nodes not in ``steps`` (in loop bodies), these bytes count as memory traffic:

    - Activations of one execution beyond the size of the last-level cache.
    - Weights, if those of the whole model (or of the repeated loop body) exceed that cache. The cache retains at most
      its own size between runs, here distributed equally over the nodes' weights.

    A node is bound by overhead if its executions are shorter than ``SHORT_NS`` and far from their floor, or if it is a
    small matrix product that takes many times its floor. Without a known cache size, no memory traffic is assumed.
    Without a known elementwise rate, a node with less than one operation per byte has a floor only from memory, since
    the rate of matrix products does not apply. A time below the floor means overcounted work or an underestimated peak:
    the floor is kept, and ``below_floor`` lists such nodes.

    Args:
        nodes: Nodes with the work of all executions in a run.
        peak: Peak rates of the machine.
        threads: Threads of the session; 0 for the largest measured number.
        int8: Nodes or operators that multiply integers, in addition to ``INT8_OPERATORS``.
        weights: Bytes of constants that one execution of a node reads, by node name; all other bytes count as
            activations.
        steps: Reads and writes of the main-graph nodes, in execution order.
    """
    weights = weights or {}
    cache = peak.cache_bytes
    missed = _missed(nodes, weights, cache) if cache else {}
    traffic = from_memory(steps, weights, cache) if cache else {}
    bounded = []
    for node in nodes:
        if node.flops is None or node.op_type in LOOKUPS or node.provider not in CPU_PROVIDERS:
            bounded.append(node)
            continue
        whole = node.op_type in INT8_OPERATORS or node.name in int8 or node.op_type in int8
        touched, calls = node.bytes or 0.0, max(node.calls, 1.0)
        if node.name in traffic and not node.inside:
            moved = min(traffic[node.name] * calls, touched)
        elif cache:
            # A value of one execution can be cached up to the cache's size; only the excess must have moved.
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
    """Return whether overhead of starting executions dominates a node's time."""
    took = node.least_ns
    if 0 < took < SHORT_NS * node.calls and floor_ns < FAR * took:
        return True
    small = took < WAKING_NS * node.calls and needed_ns < SMALL_NS * node.calls
    return node.op_type in PRODUCTS and small and needed_ns < FAR * took


def lost_ns(node: ProfiledNode) -> float:
    """Return how far a node's undisturbed time exceeds its floor, in nanoseconds; 0.0 without a floor."""
    return 0.0 if node.floor_ns is None else max(0.0, node.least_ns - node.floor_ns)


def below_floor(nodes: Sequence[ProfiledNode]) -> tuple[ProfiledNode, ...]:
    """Return the nodes that were faster than their floor by more than clock rates vary, largest gap first.

    The work of these nodes was overcounted or the peak underestimated, so their floors are not valid.
    """
    below = [
        node
        for node in nodes
        if node.floor_ns is not None
        and node.floor_ns > _TURBO * node.least_ns + _CLOCK_NS * max(node.calls, 1.0)
    ]
    return tuple(sorted(below, key=lambda node: (node.least_ns - (node.floor_ns or 0.0), node.name)))


def _missed(nodes: Sequence[ProfiledNode], weights: Mapping[str, float], cache: int) -> dict[str, float]:
    """Return the minimum bytes of weights that each node fetches from memory per run, by name."""
    bodies: dict[str, float] = {}
    for node in nodes:
        bodies[node.inside] = bodies.get(node.inside, 0.0) + weights.get(node.name, 0.0)
    total = sum(bodies.values())

    def missed_by_node() -> Iterator[tuple[str, float]]:
        for node in nodes:
            size = weights.get(node.name, 0.0)
            # Of weights read in turn, a cache retains its own size from one pass to the next: the rest is fetched
            # again in every pass of a loop, or once per run.
            again = (
                size * (1 - cache / bodies[node.inside]) * node.calls if bodies[node.inside] > cache else 0.0
            )
            once = size * (1 - cache / total) if total > cache else 0.0
            yield node.name, max(again, once)

    return dict(missed_by_node())
