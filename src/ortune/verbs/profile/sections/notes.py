"""Notes on how a profile was measured."""

from __future__ import annotations

from ortune.records import Envelope, ProfileResult
from ortune.show import transfer_words
from ortune.show.document import Block, Pairs
from ortune.verbs.profile import note_words as profile_notes
from ortune.verbs.profile.memory_words import memory_line
from ortune.verbs.profile.words import variance

ORDER = 95
TITLE = "Notes"
NOTE = "The basis of the figures, and what the trace lacks."


def blocks(envelope: Envelope[ProfileResult]) -> list[Block]:
    """Return the notes and the list of written files."""
    result = envelope.result
    notes = [("runs", variance(result)), ("memory", memory_line(result)), *transfer_words.rows(result)]
    notes += profile_notes.notes(result)
    notes += [("written", f"{kind}: {path}") for kind, path in result.exports.items()]
    return [Pairs(rows=[(name, text) for name, text in notes if text])]
