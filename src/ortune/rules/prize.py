"""How much of a run a finding is about, before anything has run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import msgspec

from ortune.records import Finding, ModelCost

OPERATIONS_A_BYTE = 16.0
"""What a core computes while it moves one byte from memory: 50 to 100 GFLOP/s against 3 to 6 GB/s. A share needs no
more than the order of it."""


def estimated(findings: Iterable[Finding], cost: ModelCost) -> tuple[Finding, ...]:
    """The findings; those about nodes have the share of the model's operations and bytes that these take.

    Args:
        findings: Those that have a share already keep it.
        cost: Of the model, node by node.
    """
    work: dict[str, float] = defaultdict(float)
    for node in cost.nodes:
        moved = node.bytes_read + node.bytes_written
        work[node.name] += node.times * max(node.flops, OPERATIONS_A_BYTE * moved)
    total = sum(work.values())
    return tuple(_with_share(finding, work, total) for finding in findings)


def _with_share(finding: Finding, work: dict[str, float], total: float) -> Finding:
    concerned = sum(work.get(name, 0.0) for name in {*finding.where} if name)
    if finding.share_ratio is not None or not concerned or not total:
        return finding
    return msgspec.structs.replace(finding, share_ratio=concerned / total, share_from="cost")
