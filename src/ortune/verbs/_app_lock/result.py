"""Result of ``ortune lock`` on a recording."""

from __future__ import annotations

from ortune.records import AppSnapshot, LockChange
from ortune.records.base import Record


class AppLockResult(Record, frozen=True, kw_only=True):
    """``result`` of ``ortune lock app.workload --json``.

    Attributes:
        path: The lock file.
        written: Whether the lock was written; otherwise the recording was compared with it.
        changes: Differences, the most important first; empty if the lock was written.
        headline: The result in one sentence.
    """

    path: str
    written: bool
    snapshot: AppSnapshot
    changes: tuple[LockChange, ...] = ()
    headline: str = ""
