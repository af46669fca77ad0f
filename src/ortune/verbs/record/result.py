"""What was recorded of a program, and what was found."""

from __future__ import annotations

from ortune.records import Finding, Recording
from ortune.records.base import Record


class RecordResult(Record, frozen=True, kw_only=True):
    """``result`` of ``ortune record --json``.

    Attributes:
        path: The written workload file; "" if there was nothing to write.
        n_findings: Number of findings; ``n_shown`` of them are problems.
        recording: What was recorded.
    """

    headline: str = ""
    path: str = ""
    recording: Recording | None = None
    findings: tuple[Finding, ...] = ()
    installed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
