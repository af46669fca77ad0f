"""What the figures rest on."""

from __future__ import annotations

from ortune.records import Envelope, ProfileResult
from ortune.report import profile_words as words
from ortune.report.document import Block, Pairs

ORDER = 95
TITLE = "Notes"
NOTE = "The basis of the figures, and what the trace lacks."


def blocks(envelope: Envelope[ProfileResult]) -> list[Block]:
    """Notes, and the files that were written."""
    result = envelope.result
    notes = [("runs", words.variance(result)), ("memory", words.memory_line(result)), *words.notes(result)]
    notes += [("written", f"{kind}: {path}") for kind, path in result.exports.items()]
    return [Pairs(rows=[(name, text) for name, text in notes if text])]
