"""How much a finding is about, and what its fix has brought elsewhere: what can be said before anything is measured.

``brought.json`` holds what fixes were measured to bring; ``tools/make_brought.py`` makes it of ``docs/results.md``.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import msgspec

from ortune.records import Brought, Finding, ModelCost

TABLE = Path(__file__).parent / "brought.json"

OPERATIONS_A_BYTE = 16.0
"""What a core computes while it moves one byte from memory: 50 to 100 GFLOP/s against 3 to 6 GB/s. A share needs no
more than the order of it."""

SHARE_MAY_BE = 3.0
"""How many times its estimated share a part may really take: small nodes cost more than their operations and bytes,
and a finding names some of the nodes of a pattern."""


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """The table.

    Attributes:
        rules: What the fix of a rule brought, by the rule's code.
        rewrites: What a rewrite brought, by its name.
    """

    rules: dict[str, list[Brought]] = {}
    rewrites: dict[str, list[Brought]] = {}


@functools.cache
def measured() -> Measured:
    """The table as it is in the package."""
    return msgspec.json.decode(TABLE.read_bytes(), type=Measured)


def brought(finding: Finding) -> tuple[Brought, ...]:
    """What the finding's fix brought where it was measured; nothing where it has none that can be.

    Left out is what this model cannot gain, because the part that the finding is about is too small a share of it.
    """
    if finding.plan is None:
        return ()
    table = measured()
    known = list(table.rules.get(finding.code, ()))
    if len(finding.plan.rewrites) == 1 and not finding.plan.settings:
        known += table.rewrites.get(finding.plan.rewrites[0].name, ())
    possible = (each for each in known if _possible(each, finding))
    return tuple(sorted(possible, key=lambda each: (each.made, not each.proven, bool(each.others))))


def _possible(each: Brought, finding: Finding) -> bool:
    """Whether it brought no more than is there to win in the part that the finding is about."""
    if finding.share_ratio is None:
        return True
    share = finding.share_ratio * (SHARE_MAY_BE if finding.share_from == "cost" else 1.0)
    return each.ratio >= 1 - share


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
    found = msgspec.structs.replace(finding, share_ratio=concerned / total, share_from="cost")
    return msgspec.structs.replace(found, brought=brought(found))
