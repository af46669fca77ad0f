"""What the figures rest on."""

from __future__ import annotations

from ortune.records import Envelope, ProfileResult
from ortune.report import profile_notes, transfer_words
from ortune.report.document import Block, Pairs
from ortune.report.profile_memory import memory_line
from ortune.report.profile_words import variance

ORDER = 95
TITLE = "Notes"
NOTE = "The basis of the figures, and what the trace lacks."


def blocks(envelope: Envelope[ProfileResult]) -> list[Block]:
    """Notes, and the files that were written."""
    result = envelope.result
    notes = [("runs", variance(result)), ("memory", memory_line(result)), *transfer_words.rows(result)]
    notes += profile_notes.notes(result)
    notes += [("written", f"{kind}: {path}") for kind, path in result.exports.items()]
    return [Pairs(rows=[(name, text) for name, text in notes if text])]
