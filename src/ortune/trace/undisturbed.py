"""A profiled run without interference, which is reported in place of the mean run if both differ much."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ortune.records import Category, OperatorTime, ProfiledNode, ProfileResult, UndisturbedRun
from ortune.trace.layers import layers

INTERFERED = 0.1
"""Minimum fraction of the mean run's time that interference must take to matter."""


def undisturbed_run(
    wall_ns: float, categories: Sequence[Category], nodes: Sequence[ProfiledNode]
) -> UndisturbedRun | None:
    """Return the run without interference; None if its time hardly differs from the mean run's.

    Args:
        wall_ns: Wall time of the mean run.
        categories: Time by category in the run without interference.
        nodes: Nodes with their times in both runs.
    """
    fast_ns = sum(category.ns for category in categories)
    if not 0 < fast_ns < (1 - INTERFERED) * wall_ns:
        return None
    fast = _fast(nodes)
    return UndisturbedRun(
        wall_ns=fast_ns,
        categories=tuple(categories),
        operators=operator_times(fast),
        layers=layers(fast)[0],
    )


def as_profile(result: ProfileResult) -> ProfileResult:
    """Return the profile with the times of the run without interference; unchanged if interference is small."""
    alone = result.undisturbed
    if alone is None:
        return result
    return msgspec.structs.replace(
        result,
        wall_ns=alone.wall_ns,
        categories=alone.categories,
        operators=alone.operators,
        layers=alone.layers,
        nodes=tuple(sorted(_fast(result.nodes), key=lambda node: -node.time_ns)),
    )


def operator_times(nodes: Sequence[ProfiledNode]) -> tuple[OperatorTime, ...]:
    """Return the time by operator and provider, most expensive first."""
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


def _fast(nodes: Sequence[ProfiledNode]) -> list[ProfiledNode]:
    total = sum(node.least_ns for node in nodes) or 1.0
    return [
        msgspec.structs.replace(
            node,
            time_ns=node.least_ns,
            wait_ns=node.least_wait_ns,
            imbalance_ns=min(node.imbalance_ns, node.least_wait_ns),
            share_ratio=node.least_ns / total,
        )
        for node in nodes
    ]
