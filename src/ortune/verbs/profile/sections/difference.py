"""Difference of two profiles: B minus A, by category, operator and node."""

from __future__ import annotations

from ortune.records import Envelope, ProfileResult
from ortune.show import difference_section
from ortune.show.document import Block

ORDER = 10
TITLE = "The difference"
NOTE = difference_section.NOTE


def blocks(envelope: Envelope[ProfileResult]) -> list[Block]:
    """Return the difference of two profiles; [] without a second profile."""
    against = envelope.result.against
    return difference_section.tables_and_notes(against) if against is not None else []
