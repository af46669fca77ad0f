"""Causes of slow runs within a process: the nodes or categories that took the extra time."""

from __future__ import annotations

import msgspec
import numpy as np

from ortune.records import NodeVariance, RunVariance
from ortune.trace.attribution import BESIDE_NODES, NAMES, Attribution, mean
from ortune.trace.table import Floats, Numbers, Trace

SLOW = 0.1  # fraction of runs that count as slow
OWNERS = 10
FEWEST = 10  # minimum number of runs for a spread
FEWEST_FOR_OWNERS = 20
"""Minimum number of runs to name owners of extra time; the slowest tenth of fewer is a single run."""


def variance(trace: Trace, attribution: Attribution, warmup: int) -> RunVariance:
    """Return the spread of run times, and the nodes or categories that make the slowest tenth of the runs slow."""
    wall, left_out = attribution.wall_ns, attribution.runs.start
    runs = tuple(float(ns) for ns in trace.run_ns)
    if len(wall) < FEWEST:
        return RunVariance(warmup_runs=warmup, left_out_runs=left_out, runs_ns=runs)
    low, high = np.quantile(wall, [0.1, 0.9])
    spread = RunVariance(
        warmup_runs=warmup,
        left_out_runs=left_out,
        runs_ns=runs,
        spread_ratio=float(high / low) if low else None,
    )
    if len(wall) < FEWEST_FOR_OWNERS:
        return spread
    order = np.argsort(wall, kind="stable")
    slow = order[-int(SLOW * len(wall)) :]
    # The middle half.
    usual = order[len(wall) // 4 : -(len(wall) // 4)]
    by_node = _more(attribution.by_node, slow, usual)
    # Only the largest can be owners.
    largest = np.argsort(-by_node, kind="stable")[:OWNERS].tolist()
    rows = [(float(by_node[n]), trace.name.texts[n], trace.nodes.op_type[n]) for n in largest]
    beside = _more(attribution.by_category[[NAMES.index(name) for name in BESIDE_NODES]], slow, usual)
    # Nodes and other categories make up the run: increases minus decreases are the difference.
    every = np.concatenate([by_node, beside])
    longer = float(every[every > 0].sum())
    rows += [(float(more), name, "") for more, name in zip(beside, BESIDE_NODES, strict=True)]
    owners = sorted((r for r in rows if r[0] > 0), reverse=True)[:OWNERS]
    return msgspec.structs.replace(
        spread,
        slow_runs=len(slow),
        usual_ns=float(wall[usual].mean()),
        extra_ns=float(wall[slow].mean() - wall[usual].mean()),
        less_ns=-float(every[every < 0].sum()),
        owners=tuple(
            NodeVariance(name=name, op_type=op, extra_ns=more, share_ratio=more / longer)
            for more, name, op in owners
        ),
    )


def _more(times: Floats, slow: Numbers, usual: Numbers) -> Floats:
    """Return, for each row, by how much its mean time in slow runs exceeds its mean time in usual runs."""
    return mean(times[:, slow]) - mean(times[:, usual])
