"""Findings and notes for the reader."""

from __future__ import annotations

from ortune.printable import first_of
from ortune.records import Envelope, Finding
from ortune.show.document import Block, Pairs, Points
from ortune.verbs.tune.result import TuneResult

ORDER = 10
TITLE = "Findings and notes"
NOTE = "What was noticed about the model and the machine, and what to do."
PLACES = 20


def blocks(envelope: Envelope[TuneResult]) -> list[Block]:
    """Return the findings with their evidence and fixes, followed by notes."""
    result = envelope.result
    notes = [*([result.rejected] if result.rejected else []), *result.notes]
    if result.hardware_bound:
        notes.append(
            "The winner runs a model optimised for this CPU. On other hardware the bundle uses the portable "
            "model it also contains."
        )
    rows = [row for finding in result.findings for row in _rows(finding)]
    return [Pairs(rows=rows, stacked=True), Points(items=notes, marked=True)]


def _rows(finding: Finding) -> list[tuple[str, str]]:
    """Return (label, text) rows for a finding: its name, then the evidence, the fix, and the location."""
    parts = [("Seen", finding.evidence), ("To do", finding.fix), ("Where", first_of(finding.where, PLACES))]
    lines = [f"{name}: {text}" for name, text in parts if text] or [""]
    names = [f"{finding.code} {finding.what}", *[""] * (len(lines) - 1)]
    return list(zip(names, lines, strict=True))
