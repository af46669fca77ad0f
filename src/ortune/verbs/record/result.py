"""Result of ``ortune record``: the recording, and findings on it."""

from __future__ import annotations

from ortune.records import Finding, Recording
from ortune.records.base import Record


class RecordResult(Record, frozen=True, kw_only=True):
    """``result`` of ``ortune record --json``.

    Attributes:
        headline: The answer in one sentence.
        path: The written workload file; "" if there was nothing to write.
        recording: The recording, without values of inputs; None for ``--install`` and ``--uninstall``.
        findings: Findings, the one with the largest share of the time first.
        installed: Files that ``--install`` wrote.
    """

    headline: str = ""
    path: str = ""
    recording: Recording | None = None
    findings: tuple[Finding, ...] = ()
    installed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
