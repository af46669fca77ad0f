"""Where the time of a run goes: by operator and by node, as the typical run has it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from ortune.records import NodeTime, OperatorTime
from ortune.trace.ort_profile import Trace

Matrix = np.ndarray[Any, np.dtype[np.float64]]


def kept_runs(trace: Trace, skip_runs: int) -> range:
    """The runs that count: without the first ``skip_runs``, which warm up.

    Where a trace that was cut off holds no more than these, all but the first are taken, or that one alone.
    """
    first = skip_runs if skip_runs < trace.n_runs else min(1, max(trace.n_runs - 1, 0))
    return range(first, trace.n_runs)


def by_operator(trace: Trace, skip_runs: int = 0) -> tuple[OperatorTime, ...]:
    """Time of each operator on each execution provider, the dearest first.

    Args:
        trace: The profile.
        skip_runs: Runs at the start that are left out.
    """
    keys = list(zip(trace.op_type, trace.provider, strict=True))
    names, typical = _typical(trace, keys, skip_runs)
    total = float(typical.sum())
    nodes = Counter(key for key, _ in set(zip(keys, trace.name, strict=True)))
    rows = [
        OperatorTime(
            op_type=op,
            provider=provider,
            n_nodes=nodes[op, provider],
            time_ns=1e3 * float(us),
            share_ratio=float(us) / total if total else 0.0,
        )
        for (op, provider), us in zip(names, typical, strict=True)
    ]
    return tuple(sorted(rows, key=lambda row: (-row.time_ns, row.op_type, row.provider)))


def by_node(trace: Trace, skip_runs: int = 0) -> tuple[NodeTime, ...]:
    """Time of each node, the dearest first; a node of a body that runs several times counts all of them."""
    keys = list(zip(trace.name, trace.op_type, trace.provider, strict=True))
    names, typical = _typical(trace, keys, skip_runs)
    total = float(typical.sum())
    rows = [
        NodeTime(
            name=name,
            op_type=op,
            provider=provider,
            time_ns=1e3 * float(us),
            share_ratio=float(us) / total if total else 0.0,
        )
        for (name, op, provider), us in zip(names, typical, strict=True)
    ]
    return tuple(sorted(rows, key=lambda row: (-row.time_ns, row.name)))


def run_time_ns(trace: Trace, skip_runs: int = 0) -> float:
    """The typical run's own time in the profile (median), nanoseconds; 0 where no run was recorded to its end."""
    kept = trace.run_us[kept_runs(trace, skip_runs).start :]
    return 1e3 * float(np.median(kept)) if len(kept) else 0.0


def _typical(
    trace: Trace, keys: Sequence[tuple[str, ...]], skip_runs: int
) -> tuple[list[tuple[str, ...]], Matrix]:
    """Each key with its median over the runs that count, microseconds: one disturbed run moves nothing."""
    names = sorted(set(keys))
    number = {key: i for i, key in enumerate(names)}
    runs = kept_runs(trace, skip_runs)
    sums = np.zeros((len(names), len(runs)))
    rows = np.fromiter((number[key] for key in keys), dtype=np.int64, count=len(keys))
    inside = trace.run >= runs.start
    np.add.at(sums, (rows[inside], trace.run[inside] - runs.start), trace.self_us[inside])
    return names, np.median(sums, axis=1) if len(runs) else np.zeros(len(names))
