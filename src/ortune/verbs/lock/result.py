"""Result of ``ortune lock``: the snapshot, or the changes since it."""

from __future__ import annotations

from ortune.records import LockChange, Snapshot
from ortune.records.base import Record


class LockResult(Record, frozen=True, kw_only=True):
    """``result`` of ``ortune lock --json``.

    Attributes:
        path: The lock file.
        written: Whether it was written; otherwise it was checked.
        changes: The most important first; empty if written.
        headline: The answer in one sentence.
        notes: Parts that could not be compared, or only partly, with the reasons.
        tolerance_ratio: Accepted difference of floating-point outputs, as a share of their norm; None if written.
            Outputs of less precise types have at least the tolerance of their type.
        not_compared: Parts that were not compared ("outputs", "level all", "placement"). With ``--strict``, each is
            also one of the changes.
    """

    path: str
    written: bool
    snapshot: Snapshot
    changes: tuple[LockChange, ...] = ()
    headline: str = ""
    notes: tuple[str, ...] = ()
    not_compared: tuple[str, ...] = ()
    tolerance_ratio: float | None = None
