"""Without a winner: how near the nearest came, and what settings cannot reach."""

from __future__ import annotations

from ortune.records import Envelope, TuneResult
from ortune.report import tune_why
from ortune.report import tune_words as words
from ortune.report.document import Block, Pairs

ORDER = 2
TITLE = "What else there is"
NOTE = "No change is proposed. What came nearest, what no setting reaches, and what was not tested yet."


def blocks(envelope: Envelope[TuneResult]) -> list[Block]:
    """Facts; none where something won."""
    result = envelope.result
    if words.replaces(result):
        return []
    return [Pairs(rows=tune_why.left(result))]
