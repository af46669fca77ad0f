"""The severity at which ``--fail-on`` fails a command."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ortune.errors import UsageError

if TYPE_CHECKING:
    from ortune.records import Finding

SEVERITIES = ("error", "warning", "note")


def severity_of(text: str, where: str) -> str:
    """Return a severity or "never"; raise UsageError, with the option that says it, for another text."""
    if text not in (*SEVERITIES, "never"):
        raise UsageError(f"{text!r} is not a severity", where=where, do="error, warning, note or never")
    return text


def fails(findings: Iterable[Finding], severity: str) -> bool:
    """Return whether a finding is at least as severe as ``severity``; False for "never"."""
    worst = SEVERITIES[: SEVERITIES.index(severity) + 1] if severity != "never" else ()
    return any(finding.severity in worst for finding in findings)
