"""Without a winner: how near the nearest came, and what settings cannot reach."""

from __future__ import annotations

from ortune.records import Envelope, TuneResult
from ortune.report import tune_facts, tune_why
from ortune.report.document import Block, Pairs

ORDER = 2
TITLE = "Remaining options"
NOTE = "No change is proposed. The closest candidates, what no setting can improve, and what was not tested."


def blocks(envelope: Envelope[TuneResult]) -> list[Block]:
    """Facts; none where something won."""
    result = envelope.result
    if not tune_facts.kept(result):
        return []
    return [Pairs(rows=tune_why.left(result))]
