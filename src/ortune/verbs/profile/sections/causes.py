"""Findings, shown before the time by category, since readers look for the cause first."""

from __future__ import annotations

from ortune.records import Envelope, ProfileResult
from ortune.show.document import Block, Points
from ortune.verbs.profile import words as profile_words

ORDER = 15
TITLE = "Findings"
NOTE = "Largest first."


def blocks(envelope: Envelope[ProfileResult]) -> list[Block]:
    """Return the list of findings, one sentence each."""
    return [Points(items=profile_words.findings(envelope.result), marked=True)]
