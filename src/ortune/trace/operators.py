"""Time of a typical run by operator and by node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ortune.records import NodeTime, OperatorTime
from ortune.trace.grouping import combined, sums
from ortune.trace.table import Labels, Trace

Matrix = np.ndarray[Any, np.dtype[np.float64]]


def kept_runs(trace: Trace, skip_runs: int) -> range:
    """Return the runs after the first ``skip_runs`` (warm-up).

    If there are no further runs, all runs except the first are returned, or the only run.
    """
    first = skip_runs if skip_runs < trace.n_runs else min(1, max(trace.n_runs - 1, 0))
    return range(first, trace.n_runs)


def by_operator(trace: Trace, skip_runs: int = 0) -> tuple[OperatorTime, ...]:
    """Sum time by operator and execution provider, most expensive first."""
    keys, rows = groups(trace.op_type, trace.provider)
    typical = _typical(per_run(trace, rows, len(keys), kept_runs(trace, skip_runs)))
    total = float(typical.sum())
    # One row per pair of operator and node, so a node counts once regardless of its executions.
    first, _ = combined((rows, len(keys)), (trace.name.codes, len(trace.name.texts)))
    nodes = np.bincount(rows[first], minlength=len(keys))
    times = [
        OperatorTime(
            op_type=op,
            provider=provider,
            n_nodes=int(nodes[key]),
            time_ns=float(ns),
            share_ratio=float(ns) / total if total else 0.0,
        )
        for key, ((op, provider), ns) in enumerate(zip(keys, typical, strict=True))
    ]
    return tuple(sorted(times, key=lambda row: (-row.time_ns, row.op_type, row.provider)))


def by_node(trace: Trace, skip_runs: int = 0) -> tuple[NodeTime, ...]:
    """Sum time by node, most expensive first, over all executions of a run."""
    keys, rows = groups(trace.name, trace.op_type, trace.provider)
    typical = _typical(per_run(trace, rows, len(keys), kept_runs(trace, skip_runs)))
    total = float(typical.sum())
    times = [
        NodeTime(
            name=name,
            op_type=op,
            provider=provider,
            time_ns=float(ns),
            share_ratio=float(ns) / total if total else 0.0,
        )
        for (name, op, provider), ns in zip(keys, typical, strict=True)
    ]
    return tuple(sorted(times, key=lambda row: (-row.time_ns, row.name)))


def _typical(times: Matrix) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return each key's mean time over the middle half of the runs, which are ordered by their total time.

    Medians per key would not add up: if other programs slow down different nodes in different runs, the median of one
    node can exceed that of all nodes of its operator.
    """
    n_runs = times.shape[1]
    half = max(1, n_runs // 2)
    half += (n_runs - half) % 2  # an equal number omitted at either end
    # Runs in order of total time, without a quarter at either end.
    middle = np.argsort(times.sum(axis=0), kind="stable")[(n_runs - half) // 2 : (n_runs + half) // 2]
    return np.asarray(times[:, middle].mean(axis=1))


def run_time_ns(trace: Trace, skip_runs: int = 0) -> float:
    """Return the median run time in nanoseconds, without skipped runs; 0.0 if no run was recorded completely."""
    kept = trace.run_ns[kept_runs(trace, skip_runs).start :]
    return float(np.median(kept)) if len(kept) else 0.0


def groups(*labels: Labels) -> tuple[list[tuple[str, ...]], np.ndarray[Any, np.dtype[np.int64]]]:
    """Group rows by their texts in several columns; return the sorted combinations, and each row's index into them."""
    first, rows = combined(*((column.codes, len(column.texts)) for column in labels))
    keys = [tuple(column[row] for column in labels) for row in first.tolist()]
    order = sorted(range(len(keys)), key=keys.__getitem__)
    place = np.empty(len(keys), dtype=np.int64)
    place[order] = np.arange(len(keys))
    return [keys[i] for i in order], place[rows]


def per_run(
    trace: Trace, rows: Sequence[int] | np.ndarray[Any, Any], n_keys: int, runs: Sequence[int]
) -> Matrix:
    """Return the self time of each key in each run, in nanoseconds (keys, runs); one column of zeros without runs."""
    column = np.full(trace.n_runs + 1, -1, dtype=np.int64)  # the last entry is for rows in no run
    column[list(runs)] = np.arange(len(runs))
    to = column[trace.run]
    inside = to >= 0
    return sums(np.asarray(rows)[inside], to[inside], trace.self_ns[inside], (n_keys, max(1, len(runs))))
